"""Flame graphs: a row per depth of the stack, a bar per function, as wide as its share of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from pgdyno.report.charts.layout import Layout
from pgdyno.report.charts.page_figures import Figure, drawn_figure
from pgdyno.report.charts.svg import Drawing, element, shorten_end, text
from pgdyno.report.translation import gettext

ROW = 17.0
MOST_ROWS = 90
NARROWEST = 1.0
"""Bars below this width are left out, so that a page stays small."""
NARROWEST_LABEL = 28.0
_NARROW_CHARACTER = 4.0
SHADES = ((0.05, "h3"), (0.01, "h2"), (0.002, "h1"))
"""Classes of colours by the least difference of the shares."""


@dataclass(slots=True)
class _Frame:
    """A function at one place of the stacks, with what it called."""

    share: float = 0.0
    before: float = 0.0
    """The share in the baseline."""
    called: dict[str, _Frame] = field(default_factory=dict)


def flame_figure(name: str, title: str, stacks: Mapping[str, int], base: Mapping[str, int] | None) -> Figure:
    """Return the flame graph of `stacks`, coloured by the difference from `base`; it scrolls on narrow screens."""
    figure = drawn_figure(name, title, lambda layout: _drawing(title, stacks, base, layout))
    return Figure(figure.name, figure.title, figure.drawn, has_narrow=False)


def _drawing(title: str, stacks: Mapping[str, int], base: Mapping[str, int] | None, layout: Layout) -> Drawing:
    root = _Frame()
    _add(root, stacks, is_base=False)
    if base is not None:
        _add(root, base, is_base=True)
    bars = list(_bars(root, gettext("all"), 0.0, 0, layout.width))
    rows = 1 + max(depth for _, _, _, depth in bars)
    words = gettext("Stacks of functions, the outermost at the bottom; the table has the largest shares.")
    drawing = Drawing(layout.width, rows * ROW, title, words)
    for name, frame, x, depth in bars:
        drawing.add(_bar(name, frame, x, (rows - 1 - depth) * ROW, layout.width, compared=base is not None))
    return drawing


def _add(root: _Frame, stacks: Mapping[str, int], *, is_base: bool) -> None:
    total = sum(stacks.values())
    for stack, count in stacks.items():
        frame = root
        for name in (None, *stack.split(";")[:MOST_ROWS]):
            frame = root if name is None else frame.called.setdefault(name, _Frame())
            if is_base:
                frame.before += count / total
            else:
                frame.share += count / total


def _bars(frame: _Frame, name: str, x: float, depth: int, width: float) -> Iterator[tuple[str, _Frame, float, int]]:
    yield name, frame, x, depth
    for each, called in sorted(frame.called.items()):
        if called.share * width >= NARROWEST:
            yield from _bars(called, each, x, depth + 1, width)
        x += called.share * width


def _bar(name: str, frame: _Frame, x: float, y: float, width: float, *, compared: bool) -> Markup:
    wide = frame.share * width
    difference = frame.share - frame.before
    words = f"{name}: {100 * frame.share:.2f} %"
    look = "f0 h2"
    if compared:
        words = gettext(
            "{name}: {share} %, {difference} points",
            name=name,
            share=f"{100 * frame.share:.2f}",
            difference=f"{100 * difference:+.2f}",
        )
        shade = next((shade for least, shade in SHADES if abs(difference) >= least), None)
        look = "band" if shade is None else f"{'f1' if difference > 0 else 'f0'} {shade}"
    parts = [
        element("title", words),
        element("rect", x=x, y=y, width=max(wide - 0.5, 0.5), height=ROW - 1, class_=look),
    ]
    if wide >= NARROWEST_LABEL:
        label = name[: int(wide / _NARROW_CHARACTER)]
        parts.append(text(x + 3, y + ROW - 5, shorten_end(label, wide - 6), "label"))
    return element("g", *parts)
