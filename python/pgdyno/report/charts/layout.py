"""The widths that charts are drawn in, and the frame of axes that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.report.numbers import between, short
from pgdyno.report.scale import Scale
from pgdyno.report.svg import Drawing, line, text, text_width
from pgdyno.report.texts import gettext


class Layout(StrEnum):
    """A page shows the wide form or the narrow one, by its width; paper has its own. Text is readable in all."""

    WIDE = "wide"
    NARROW = "narrow"
    PRINT = "print"

    @property
    def width(self) -> float:
        """Width of the drawing in its own units."""
        return _WIDTHS[self]


_WIDTHS = {Layout.WIDE: 960.0, Layout.NARROW: 380.0, Layout.PRINT: 700.0}
CHART_HEIGHT = 260.0
STRIP_HEIGHT = 140.0
GAP = 14.0
SHORTENED_FROM = 10_000
"""Counts from here on are told with three digits and a letter."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where figures are drawn: inside of the axes."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.bottom - self.top


def label_column(labels: Sequence[str]) -> float:
    """How wide the widest of `labels` is, with a gap beside it."""
    return max((text_width(label) for label in labels), default=0.0) + 10


def y_axis(
    drawing: Drawing, box: Box, scale: Scale, ticks: Sequence[float], named: Callable[[float], str], title: str
) -> None:
    """Hairlines across `box` with labels at the left; the axis' name stands over them."""
    for tick in ticks:
        y = scale(tick)
        drawing.add(line(box.left, y, box.right, y, "axis" if tick == 0 else "hair"))
        drawing.add(text(box.left - 8, y + 4.5, named(tick), anchor="end"))
    drawing.add(text(0, 12, title, "quiet"))


def x_title(drawing: Drawing, box: Box, title: str) -> None:
    """Name of the horizontal axis, under its right end."""
    drawing.add(text(box.right, box.bottom + 36, title, "quiet", "end"))


def n_title(drawing: Drawing, counts: Sequence[int], told: str, beside: str) -> None:
    """How many stand behind each figure, at the upper right; `beside` is the title at the left.

    `told` is a text with `{count}`; where there is little room, n alone.
    """
    room = drawing.width - text_width(beside) - GAP
    drawing.add(text(drawing.width, 12, n_text(counts, told, room), "quiet", "end"))


def n_text(counts: Sequence[int], told: str, room: float) -> str:
    """The text that says n in so much room."""
    low, high = (short(each) if each >= SHORTENED_FROM else f"{each}" for each in (min(counts), max(counts)))
    count = low if low == high else between(low, high)
    whole = gettext(told, count=count)
    return whole if text_width(whole) <= room else gettext("n = {count}", count=count)
