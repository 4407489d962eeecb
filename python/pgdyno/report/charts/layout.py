"""The widths of charts, and their frame of axes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.report.charts.svg import Drawing, Scale, line, text, text_width
from pgdyno.report.numbers import range_text, short
from pgdyno.report.translation import gettext


class Layout(StrEnum):
    """A page shows the wide or the narrow form, depending on its width; paper shows the wide one.

    Text is readable in all. Two charts in the half form are as wide as one in the wide form.
    """

    WIDE = "wide"
    HALF = "half"
    NARROW = "narrow"

    @property
    def width(self) -> float:
        """Return the width of the drawing in its own units."""
        return _WIDTHS[self]


_WIDTHS = {Layout.WIDE: 960.0, Layout.HALF: 520.0, Layout.NARROW: 380.0}
CHART_HEIGHT = 260.0
STRIP_HEIGHT = 140.0
GAP = 14.0
SHORTENED_FROM = 10_000
"""Counts from here on are shown with three digits and a letter."""


@dataclass(frozen=True, slots=True)
class Box:
    """The area inside the axes."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def label_column(labels: Sequence[str]) -> float:
    """Return the width of the widest of `labels`, with a gap."""
    return max((text_width(label) for label in labels), default=0.0) + 10


def tick_name(tick: float) -> str:
    """Return a round figure of an axis with all its digits: 0.05, 2.5, 40,000."""
    return f"{tick:,.10g}" if tick < 1000 else f"{tick:,.0f}"


def y_axis(
    drawing: Drawing, box: Box, scale: Scale, ticks: Sequence[float], named: Callable[[float], str], title: str
) -> None:
    """Draw hairlines across `box` with labels at the left, and the axis' name above them."""
    for tick in ticks:
        y = scale(tick)
        drawing.add(line(box.left, y, box.right, y, "axis" if tick == 0 else "hair"))
        drawing.add(text(box.left - 8, y + 4.5, named(tick), anchor="end"))
    drawing.add(text(0, 12, title, "quiet"))


def x_title(drawing: Drawing, box: Box, title: str) -> None:
    """Draw the name of the horizontal axis, under its right end."""
    drawing.add(text(box.right, box.bottom + 36, title, "quiet", "end"))


def key_line(drawing: Drawing, box: Box, width: float, title: str) -> float:
    """Return the baseline of a legend `width` wide next to the axis' title, or below if the drawing has to grow."""
    if width + GAP + text_width(title) <= box.width:
        return box.bottom + 36
    drawing.height += 18
    return box.bottom + 54


def n_title(drawing: Drawing, counts: Sequence[int], told: str, left_title: str) -> None:
    """Draw the sample size at the upper right; `left_title` is the title at the left.

    `told` is a text with `{count}`; with little room, only n is drawn.
    """
    room = drawing.width - text_width(left_title) - GAP
    drawing.add(text(drawing.width, 12, n_text(counts, told, room), "quiet", "end"))


def n_text(counts: Sequence[int], told: str, room: float) -> str:
    """Return the text for n that fits; for one of them, only n."""
    low, high = (short(each) if each >= SHORTENED_FROM else f"{each}" for each in (min(counts), max(counts)))
    count = low if low == high else range_text(low, high)
    whole = gettext(told, count=count)
    return whole if count != "1" and text_width(whole) <= room else gettext("n = {count}", count=count)
