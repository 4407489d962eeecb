"""SVG elements with escaped content, drawings with descriptions, scales and ticks.

Colours are CSS classes (`palette.py`), never attributes: a page sets them for light and dark, and `Drawing.standalone`
carries its own for use outside of one.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

FONT_SIZE = 13.0
"""Font size of every label, in the drawing's own units."""


def number(value: float) -> str:
    """Return a coordinate: one decimal, no trailing zero."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return `<tag attributes>children</tag>`: text is escaped, Markup is inserted unchanged.

    An attribute's `_` becomes `-`, except one at the end (`class_`); None leaves it out.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is not None:
            text = value if isinstance(value, str) else number(value)
            parts.append(f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"')
    inner = "".join(escape(child) for child in children)
    parts.append(f">{inner}</{tag}>" if inner else "/>")
    return Markup("".join(parts))  # noqa: S704 - every part was escaped above


def text(x: float, y: float, content: str, class_: str = "tick", anchor: str = "start") -> Markup:
    """Draw a label with its baseline at `y`."""
    return element("text", content, x=x, y=y, class_=class_, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str, *, close: bool = False) -> Markup:
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return element("path", d=f"M{steps}{'Z' if close else ''}", class_=class_)


def text_width(content: str) -> float:
    """Estimate the width of `content` in bold; an overestimate, so that labels do not touch."""
    narrow = sum(character in " .,:;'|!()[]ijlt" for character in content)
    wide = sum(character in "MWmw@%" or ord(character) > 0x2E80 for character in content)
    return FONT_SIZE * 1.08 * (0.62 * (len(content) - narrow - wide) + 0.33 * narrow + 0.95 * wide)


def shorten_end(content: str, width: float) -> str:
    """Return `content`, cut with an ellipsis to fit `width`."""
    if text_width(content) <= width:
        return content
    kept = content
    while kept and text_width(kept + "…") > width:
        kept = kept[:-1]
    return kept.rstrip(" ,-") + "…"


def shorten_middle(content: str, width: float) -> str:
    """Return `content`, cut in the middle: names of one run often differ at their ends."""
    if text_width(content) <= width:
        return content
    middle, left_out = len(content) // 2, 1
    while left_out < len(content) - 2:
        head = content[: middle - left_out // 2].rstrip(" ,-")
        shown = head + "…" + content[middle + (left_out + 1) // 2 :].lstrip(" ,-")
        if text_width(shown) <= width:
            return shown
        left_out += 1
    return shorten_end(content, width)


def told_apart(names: Sequence[str], width: float) -> list[str]:
    """Return `names` for labels of `width`: if one is wider, all without what they share; then cut in the middle.

    `work_mem 4MB, 2 clients` and `work_mem 64MB, 2 clients` become `4MB` and `64MB`.
    """
    if any(text_width(name) > width for name in names):
        names = _without_shared(names)
    return [shorten_middle(name, width) for name in names]


def _without_shared(names: Sequence[str]) -> Sequence[str]:
    parts = [name.split(", ") for name in names]
    if len({len(each) for each in parts}) > 1:
        return names
    differing = [column for column in zip(*parts, strict=True) if len(set(column)) > 1]
    bare = [_without_shared_word(column) for column in differing]
    return [", ".join(each) for each in zip(*bare, strict=True)] or names


def _without_shared_word(parts: Sequence[str]) -> Sequence[str]:
    """Return `parts` without the first word, if it is the same in all: that of a parameter before its value."""
    words = [part.partition(" ") for part in parts]
    is_shared = len({first for first, _, _ in words}) == 1 and all(rest for _, _, rest in words)
    return [rest for _, _, rest in words] if is_shared else parts


_BREAKS = re.compile("(?<= )|(?<=[\u2e80-\uffff])")
"""Where a line may end: after a space, and after each letter of a script without spaces."""


def in_lines(content: str, width: float) -> list[str]:
    lines = [""]
    for piece in _BREAKS.split(content):
        if lines[-1] and text_width((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [shorten_end(each.rstrip(), width) for each in lines]


@dataclass(slots=True)
class Drawing:
    """A drawing under construction."""

    width: float
    height: float
    title: str
    """The sentence that it supports."""
    description: str
    """A description for screen readers; the table has the figures."""
    parts: list[Markup] = field(default_factory=list)

    def add(self, *parts: Markup) -> None:
        """Draw `parts` over the existing content."""
        self.parts += parts

    def render(self, name: str, class_: str = "chart", style: str | None = None) -> Markup:
        """Render the SVG; `name` must be unique on its page. `style` is CSS to include."""
        title, description = f"{name}-title", f"{name}-desc"
        return element(
            "svg",
            element("title", self.title, id=title),
            element("desc", self.description, id=description),
            *([element("style", Markup(style))] if style is not None else []),  # noqa: S704 - our own CSS
            *self.parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {number(self.width)} {number(self.height)}",
            class_=class_,
            role="img",
            aria_labelledby=f"{title} {description}",
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low`…`high` to `start`…`end` (which may run backwards), linearly after `transform`."""

    low: float
    high: float
    start: float
    end: float
    transform: Callable[[float], float] = float

    def __call__(self, value: float) -> float:
        """Return the position of `value`, limited to the ends."""
        low, high = self.transform(self.low), self.transform(self.high)
        if high == low:
            return (self.start + self.end) / 2
        share = (self.transform(min(max(value, self.low), self.high)) - low) / (high - low)
        return self.start + share * (self.end - self.start)


STEPS = (1, 2, 2.5, 5, 10)
WHOLE_STEPS = (1, 2, 5, 10)


def linear_ticks(high: float, wanted: int = 5, steps: Sequence[float] = STEPS) -> list[float]:
    """Return 0 and round steps (one of `steps` times a power of ten), the last at or above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / wanted
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in steps if each * power >= raw * 0.999)
    return [step * at for at in range(math.ceil(high / step - 1e-9) + 1)]


def ticks_between(low: float, high: float, wanted: int) -> list[float]:
    """Return round steps of whole seconds from `low` to `high`."""
    step = linear_ticks(high - low, wanted, WHOLE_STEPS)[1]
    return [step * at for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Return ticks of a log axis from at or below `low` to at or above `high`: 1, 2, 5 per decade, or fewer."""
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = _decades(low, high, mantissas)
        if len(ticks) <= most:
            return ticks
    every = math.ceil(len(ticks) / most)
    return [ticks[0] * 10.0 ** (every * at) for at in range(math.ceil((len(ticks) - 1) / every) + 1)]


def _decades(low: float, high: float, mantissas: Sequence[int]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high)) + 1
    every = [mantissa * 10.0**power for power in range(first, last + 1) for mantissa in mantissas]
    begin = max(at for at, tick in enumerate(every) if tick <= low * (1 + 1e-9))
    end = min(at for at, tick in enumerate(every) if tick >= high * (1 - 1e-9))
    # a single tick is no axis
    return every[begin : max(end, begin + 1) + 1]


FEW_CLIENTS = 14


def client_ticks(clients: Sequence[int], scale: Scale, widths: Callable[[int], float]) -> list[int]:
    """Return the measured `clients` that get a label: the ends first, then powers of two, then the rest, if they are
    few or have much room.

    `widths` are the widths of labels, including the distance to the next one.
    """
    chosen: list[int] = []
    by_rank = sorted(set(clients), key=lambda each: (each not in (min(clients), max(clients)), each & (each - 1) != 0))
    few = len(by_rank) <= FEW_CLIENTS
    for rank, each in enumerate(by_rank):
        distance = 1 if few or rank < 2 or each & (each - 1) == 0 else 2
        if all(abs(scale(each) - scale(other)) >= distance * (widths(each) + widths(other)) / 2 for other in chosen):
            chosen.append(each)
    return sorted(chosen)
