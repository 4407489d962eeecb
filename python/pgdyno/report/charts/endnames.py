"""Names at the ends of lines, instead of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.report.charts.labels import spread
from pgdyno.report.charts.layout import Box
from pgdyno.report.palette import Look
from pgdyno.report.svg import Drawing, element, path, squeezed, text, text_width

MOST_ROOM = 200.0
"""Largest width of a name; longer ones are shortened in the middle, and complete in the table."""
_LEADER = 14.0
_NEAR = 4.0
"""A name within this distance of its line needs no leader."""


@dataclass(frozen=True, slots=True)
class LineEnd:
    x: float
    y: float
    look: Look
    name: str
    tooltip: str | None = None


def room_for(names: Sequence[str]) -> float:
    """Return the width to reserve at the right of the axes."""
    return min(max((text_width(name) for name in names), default=0.0) + _LEADER + 8, MOST_ROOM)


def name_ends(drawing: Drawing, ends: Sequence[LineEnd], box: Box, room: float) -> None:
    """Draw each name next to its line's end, moved only as far as needed to avoid contact, with a leader if moved."""
    heights = spread([end.y for end in ends], box.top, box.bottom)
    for end, height in zip(ends, heights, strict=True):
        if abs(height - end.y) > _NEAR or box.right - end.x > 24:
            steps = [(end.x + 6, end.y), (box.right + 2, end.y), (box.right + 8, height), (box.right + 12, height)]
            drawing.add(path(steps, f"w faint t{end.look.colour}"))
        hint = [element("title", end.tooltip)] if end.tooltip is not None else []
        name = text(box.right + _LEADER, height + 4.5, squeezed(end.name, room - _LEADER), "name")
        drawing.add(element("g", *hint, name) if hint else name)
