"""Labels, names at the ends of lines, and markers that tell series apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup

from pgdyno.report.charts.layout import Box
from pgdyno.report.charts.palette import MARKERS, Look
from pgdyno.report.charts.svg import Drawing, element, line, number, path, text, text_width, told_apart

LINE_HEIGHT = 15.0


@dataclass(frozen=True, slots=True)
class Rect:
    """An occupied area of the drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Rect) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of a label: its anchor point on the baseline."""

    x: float
    y: float
    anchor: str


@dataclass(slots=True)
class Placer:
    """Finds room for labels inside `bounds`, around what is `taken`."""

    bounds: Rect
    taken: list[Rect] = field(default_factory=list)

    def take_mark(self, x: float, y: float) -> None:
        """Keep labels away from a mark."""
        radius = 5.0
        self.taken.append(Rect(x - radius, y - radius, x + radius, y + radius))

    def take_line(self, points: Sequence[tuple[float, float]]) -> None:
        """Keep labels away from a line: small squares along it."""
        for (x1, y1), (x2, y2) in pairwise(points):
            steps = max(1, int(max(abs(x2 - x1), abs(y2 - y1)) / 4))
            for at in range(steps + 1):
                x, y = x1 + (x2 - x1) * at / steps, y1 + (y2 - y1) * at / steps
                self.taken.append(Rect(x - 2, y - 2, x + 2, y + 2))

    def place(self, content: str, x: float, y: float, gap: float = 10.0) -> Spot | None:
        """Find room for `content` near a mark: above, below, at the side, then further away; None if there is none."""
        width = text_width(content)
        for away in (gap, gap + 14, gap + 30, gap + 48):
            for spot, left in (
                (Spot(x, y - away, "middle"), x - width / 2),
                (Spot(x, y + away + 10, "middle"), x - width / 2),
                (Spot(x - away, y + 4.5, "end"), x - away - width),
                (Spot(x + away, y + 4.5, "start"), x + away),
                (Spot(x - away / 2, y - away, "end"), x - away / 2 - width),
                (Spot(x + away / 2, y - away, "start"), x + away / 2),
                (Spot(x - away / 2, y + away + 10, "end"), x - away / 2 - width),
                (Spot(x + away / 2, y + away + 10, "start"), x + away / 2),
            ):
                rect = Rect(left - 2, spot.y - 12, left + width + 2, spot.y + 4)
                if self._is_free(rect):
                    self.taken.append(rect)
                    return spot
        return None

    def _is_free(self, rect: Rect) -> bool:
        inside = (
            rect.left >= self.bounds.left
            and rect.right <= self.bounds.right
            and rect.top >= self.bounds.top
            and rect.bottom <= self.bounds.bottom
        )
        return inside and not any(rect.meets(other) for other in self.taken)


def spread(wanted: Sequence[float], low: float, high: float, distance: float = LINE_HEIGHT) -> list[float]:
    """Return heights as near to `wanted` as possible, `distance` apart and between `low` and `high`, in order.

    Neighbours that would touch are joined into a block around their mean, repeatedly. Without room for all, they are
    closer together.
    """
    if not wanted:
        return []
    distance = min(distance, (high - low) / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    blocks: list[list[int]] = []
    for at in order:
        blocks.append([at])
        while len(blocks) > 1 and _top_of_block(blocks[-1], wanted, distance, low, high) < (
            _top_of_block(blocks[-2], wanted, distance, low, high) + len(blocks[-2]) * distance
        ):
            last = blocks.pop()
            blocks[-1] += last
    heights = [0.0] * len(wanted)
    for block in blocks:
        top = _top_of_block(block, wanted, distance, low, high)
        for place, at in enumerate(block):
            heights[at] = top + place * distance
    return heights


def _top_of_block(block: Sequence[int], wanted: Sequence[float], distance: float, low: float, high: float) -> float:
    """Return the height of a block's first label: its mean where wanted, but within the bounds."""
    length = (len(block) - 1) * distance
    middle = sum(wanted[at] for at in block) / len(block)
    return max(min(middle - length / 2, high - length), low)


MOST_ENDS = 14
"""Lines whose names fit at their ends; a legend names more."""
MOST_ROOM = 200.0
"""Largest width of a name; longer ones are shortened, and complete in the table."""
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
    names = told_apart([end.name for end in ends], room - _LEADER)
    for end, height, shown in zip(ends, heights, names, strict=True):
        if abs(height - end.y) > _NEAR or box.right - end.x > 24:
            steps = [(end.x + 6, end.y), (box.right + 2, end.y), (box.right + 8, height), (box.right + 12, height)]
            drawing.add(path(steps, f"w faint t{end.look.colour}"))
        hint = [element("title", end.tooltip)] if end.tooltip is not None else []
        name = text(box.right + _LEADER, height + 4.5, shown, "name")
        drawing.add(element("g", *hint, name) if hint else name)


RADIUS = 4.0


def marker(x: float, y: float, look: Look, tooltip: str | None = None, radius: float = RADIUS) -> Markup:
    """Draw the mark of `look` at a position, with a `tooltip`."""
    hint = [element("title", tooltip)] if tooltip is not None else []
    shape = MARKERS[look.shape]
    if shape == "circle":
        return element("circle", *hint, cx=x, cy=y, r=radius, class_=look.mark)
    outline = {
        "square": [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
        "triangle": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        "diamond": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
        "down": [(0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        "cross": [
            (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
            (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
        ],
    }[shape]  # fmt: skip
    steps = " ".join(f"{number(x + dx * radius)},{number(y + dy * radius)}" for dx, dy in outline)
    return element("path", *hint, d=f"M{steps}Z", class_=look.mark)


def whisker(x: float, low: float, high: float, look: Look, cap: float = 3.5) -> Markup:
    """Draw an upright interval with caps, between two heights."""
    class_ = f"w t{look.colour}"
    return (
        line(x, low, x, high, class_)
        + line(x - cap, low, x + cap, low, class_)
        + line(x - cap, high, x + cap, high, class_)
    )
