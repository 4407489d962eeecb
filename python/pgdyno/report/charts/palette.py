"""Colours of the page and its charts, light and dark, markers and dashes: one meaning each, the same everywhere.

Targets have the colours of Okabe and Ito (https://jfly.uni-koeln.de/color/) in fixed order. On a dark background the
blue and the purple are too dim to read, so each has a lighter form there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from pgdyno.analyse.series import Series
from pgdyno.report.charts.svg import FONT_SIZE


class Theme(StrEnum):
    """The background."""

    LIGHT = "light"
    DARK = "dark"


TARGETS: Mapping[Theme, Sequence[str]] = MappingProxyType(
    {
        Theme.LIGHT: ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"),
        Theme.DARK: ("#4BA9E3", "#F0803C", "#2BC596", "#DE98BE", "#8CCDF2", "#EFB43C"),
    }
)
INK: Mapping[Theme, Mapping[str, str]] = MappingProxyType(
    {
        Theme.LIGHT: {
            "ground": "#ffffff",
            "ink": "#1b1f24",
            "quiet": "#59616b",
            "hair": "#dfe3e8",
            "wash": "#f4f6f8",
            "band": "#e9edf1",
            "lock": "#c0392b",
            "good": "#1a6b35",
            "amber": "#8a5a00",
            "bad": "#b3261e",
        },
        Theme.DARK: {
            "ground": "#14171a",
            "ink": "#e7eaee",
            "quiet": "#9da7b3",
            "hair": "#30363d",
            "wash": "#1d2126",
            "band": "#262c33",
            "lock": "#ff7b6b",
            "good": "#5fcf80",
            "amber": "#e6b450",
            "bad": "#ff8a80",
        },
    }
)

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
FONTS = {
    "ko": "'Apple SD Gothic Neo','Malgun Gothic','Noto Sans CJK KR','Noto Sans KR','NanumGothic'",
    "ja": "'Hiragino Sans','Yu Gothic','Meiryo','Noto Sans CJK JP','Noto Sans JP'",
    "zh": "'PingFang SC','Microsoft YaHei','Noto Sans CJK SC','Noto Sans SC'",
}
"""System fonts by language: Chinese and Japanese draw the same characters differently."""
MARKERS = ("circle", "square", "triangle", "diamond", "down", "cross")
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2")


@dataclass(frozen=True, slots=True)
class Look:
    colour: int
    """Index in TARGETS: the target's."""
    shape: int
    """Index in MARKERS and DASHES: the series'."""

    @property
    def line(self) -> str:
        """Return the CSS classes of its lines."""
        return f"s t{self.colour} d{self.shape}"

    @property
    def mark(self) -> str:
        """Return the CSS class of its markers and names."""
        return f"f{self.colour}"


def looks(targets: Sequence[str], series: Sequence[Series]) -> dict[Series, Look]:
    """Return a look for each of `series`: the colour by its target's position in the plan, the shape by its own."""
    colour = {name: at % len(TARGETS[Theme.LIGHT]) for at, name in enumerate(targets)}
    return {each: Look(colour.get(each.target, 0), at % len(MARKERS)) for at, each in enumerate(series)}


def variables(theme: Theme) -> str:
    """Return CSS declarations of every colour in `theme`."""
    inks = [f"--{name}:{value}" for name, value in INK[theme].items()]
    targets = [f"--t{at}:{value}" for at, value in enumerate(TARGETS[theme])]
    return ";".join([*inks, *targets]) + ";"


def fonts() -> str:
    """Return CSS declarations of the fonts, by the language of the page."""
    latin, general = FONT.rsplit(",", 1)
    rules = [f":root{{--font:{FONT}}}"]
    rules += [f":root:lang({language}){{--font:{latin},{names},{general}}}" for language, names in FONTS.items()]
    return "".join(rules)


def chart_css(theme: Theme | None = None) -> str:
    """Return rules for the classes in drawings: colours as variables, or those of `theme` written out."""

    def colour(name: str) -> str:
        if theme is None:
            return f"var(--{name})"
        return TARGETS[theme][int(name[1:])] if name[1:].isdigit() else INK[theme][name]

    family = "var(--font)" if theme is None else FONT
    font = f"font:{FONT_SIZE:g}px {family};font-variant-numeric:tabular-nums"
    rules = [
        f"text{{{font};fill:{colour('ink')}}}",
        f"text.tick,text.quiet{{fill:{colour('quiet')}}}",
        "text.name{font-weight:600}",
        f"text.halo{{paint-order:stroke;stroke:{colour('ground')};stroke-width:3px;stroke-linejoin:round}}",
        f".hair{{stroke:{colour('hair')};stroke-width:1}}",
        f".axis{{stroke:{colour('quiet')};stroke-width:1}}",
        f".rule{{stroke:{colour('quiet')};stroke-width:1;stroke-dasharray:3 3}}",
        f".shade{{fill:{colour('wash')}}}",
        f".lock{{fill:{colour('lock')}}}.idle{{fill:{colour('quiet')};opacity:.5}}",
        f".band{{fill:{colour('band')}}}",
        f".dip{{fill:{colour('bad')};opacity:.12}}",
        ".h0{opacity:.08}.h1{opacity:.16}.h2{opacity:.28}.h3{opacity:.45}.h4{opacity:.7}.h5{opacity:1}",
        f".miss{{fill:none;stroke:{colour('bad')};stroke-width:1;stroke-dasharray:4 3}}",
        f"text.bad{{fill:{colour('bad')}}}",
        ".s{fill:none;stroke-width:1.75;stroke-linejoin:round}",
        ".thin{stroke-width:1.25}.faint{opacity:.55}.area{opacity:.18}",
        ".w{stroke-width:1.25;fill:none}",
        f".ring{{fill:none;stroke:{colour('ink')};stroke-width:1.5}}",
    ]
    for at in range(len(TARGETS[Theme.LIGHT])):
        rules += [f".t{at}{{stroke:{colour(f't{at}')}}}", f".f{at}{{fill:{colour(f't{at}')}}}"]
    rules += [f".d{at}{{stroke-dasharray:{dash}}}" for at, dash in enumerate(DASHES) if dash != "none"]
    return "".join(rules)
