"""A forest plot in characters: an interval per line, on one scale, with zero and the band of no difference."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.analyse.intervals import Interval


@dataclass(frozen=True, slots=True)
class Glyphs:
    zero: str
    edge: str
    line: str
    crossed: str
    """The line at zero."""
    mean: str


UNICODE = Glyphs("│", "┊", "─", "┼", "●")
ASCII = Glyphs("|", ":", "-", "+", "o")


@dataclass(frozen=True, slots=True)
class Forest:
    """A scale of `width` cells from `low` to `high`, in logarithms of the ratio."""

    low: float
    high: float
    width: int
    edge: float
    """log(1 + delta): differences within it count as none."""
    glyphs: Glyphs = UNICODE

    @classmethod
    def of(cls, intervals: list[Interval], edge: float, width: int, glyphs: Glyphs = UNICODE) -> Forest:
        """Return a scale that contains all `intervals`, and ±`edge`."""
        low = min([each.low for each in intervals] + [-1.5 * edge])
        high = max([each.high for each in intervals] + [1.5 * edge])
        return cls(low, high, width, edge, glyphs)

    def line(self, interval: Interval | None) -> str:
        """Draw one interval, with zero and ±edge behind it."""
        cells = [" "] * self.width
        for at, glyph in ((-self.edge, self.glyphs.edge), (self.edge, self.glyphs.edge), (0.0, self.glyphs.zero)):
            cells[self._cell(at)] = glyph
        if interval is not None:
            first, last = self._cell(interval.low), self._cell(interval.high)
            cells[first : last + 1] = self.glyphs.line * (last + 1 - first)
            if first <= self._cell(0.0) <= last:
                cells[self._cell(0.0)] = self.glyphs.crossed
            cells[self._cell(interval.mean)] = self.glyphs.mean
        return "".join(cells)

    def _cell(self, log_ratio: float) -> int:
        share = (log_ratio - self.low) / (self.high - self.low)
        return min(max(round(share * (self.width - 1)), 0), self.width - 1)
