"""Places labels so that they touch neither each other nor the marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pgdyno.report.svg import text_width

LINE_HEIGHT = 15.0


@dataclass(frozen=True, slots=True)
class Rect:
    """An occupied area of the drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Rect) -> bool:
        """Return whether the two overlap."""
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

    def take_mark(self, x: float, y: float, radius: float = 5.0) -> None:
        """Keep labels away from a mark."""
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
        while len(blocks) > 1 and _top(blocks[-1], wanted, distance, low, high) < (
            _top(blocks[-2], wanted, distance, low, high) + len(blocks[-2]) * distance
        ):
            last = blocks.pop()
            blocks[-1] += last
    heights = [0.0] * len(wanted)
    for block in blocks:
        top = _top(block, wanted, distance, low, high)
        for place, at in enumerate(block):
            heights[at] = top + place * distance
    return heights


def _top(block: Sequence[int], wanted: Sequence[float], distance: float, low: float, high: float) -> float:
    """Return the height of a block's first label: its mean where wanted, but within the bounds."""
    length = (len(block) - 1) * distance
    middle = sum(wanted[at] for at in block) / len(block)
    return max(min(middle - length / 2, high - length), low)
