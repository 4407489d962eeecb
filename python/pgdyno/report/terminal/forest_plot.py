"""A forest plot in characters: an interval per line, on one scale, with zero and the band of no difference."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.analyse.intervals import Interval

ZERO, EDGE = "│", "┊"


@dataclass(frozen=True, slots=True)
class Forest:
    """A scale from `low` to `high`, in logarithms of the ratio."""

    low: float
    high: float
    edge: float
    """log(1 + delta): differences within it count as none."""

    @classmethod
    def for_intervals(cls, intervals: list[Interval], edge: float) -> Forest:
        """Return a scale that contains all `intervals`, and ±`edge`."""
        low = min([each.low for each in intervals] + [-1.5 * edge])
        high = max([each.high for each in intervals] + [1.5 * edge])
        return cls(low, high, edge)

    def line(self, interval: Interval | None, width: int) -> str:
        """Draw one interval in `width` cells, with zero and ±edge behind it."""

        def cell(log_ratio: float) -> int:
            share = (log_ratio - self.low) / (self.high - self.low)
            return min(max(round(share * (width - 1)), 0), width - 1)

        cells = [" "] * width
        for at, glyph in ((-self.edge, EDGE), (self.edge, EDGE), (0.0, ZERO)):
            cells[cell(at)] = glyph
        if interval is not None:
            first, last = cell(interval.low), cell(interval.high)
            cells[first : last + 1] = "─" * (last + 1 - first)
            if first <= cell(0.0) <= last:
                cells[cell(0.0)] = "┼"
            cells[cell(interval.mean)] = "●"
        return "".join(cells)
