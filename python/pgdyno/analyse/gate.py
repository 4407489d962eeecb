"""A gate for CI: whether a candidate is slower than a baseline by more than the limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.analyse.compare import FEWEST_PAIRS, Comparison, PointComparison, compare, new_run_pairs
from pgdyno.analyse.pairs import Arms


class GateVerdict(StrEnum):
    """The result of a gate."""

    OK = "ok"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class GatePoint:
    """A point with its verdict against the limit."""

    compared: PointComparison
    verdict: GateVerdict
    new_run_pairs: int | None
    """Pairs of a new run that would settle it, as in `PointComparison`, against the limit."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The result over all points."""

    comparison: Comparison
    limit: float
    """Relative: 0.03 for 3 %."""
    points: tuple[GatePoint, ...]

    @property
    def verdict(self) -> GateVerdict:
        """Return regression if one point has one, ok if all are ok, else inconclusive."""
        verdicts = {point.verdict for point in self.points}
        if GateVerdict.REGRESSION in verdicts:
            return GateVerdict.REGRESSION
        return GateVerdict.OK if verdicts == {GateVerdict.OK} else GateVerdict.INCONCLUSIVE


def gate(arms: Arms, limit: float) -> Gate:
    """Judge every point against `limit`, the largest relative change for the worse that is allowed.

    Worse is log(base / other) for throughput, log(other / base) for latency: a limit of 3 % lets a latency rise to 1.03
    of the baseline's, and a throughput fall to 1 / 1.03. Intervals are Holm's over the points, because a false alarm is
    one at any point. That all points are clear needs no correction (Berger 1982: an intersection-union test), but the
    wider interval is used for both, so that the printed interval is the judged one.
    """
    (comparison,) = compare([arms], floor=limit)
    edge = math.log1p(limit)
    return Gate(comparison, limit, tuple(_judged(point, arms, edge, limit) for point in comparison.points))


def _judged(point: PointComparison, arms: Arms, edge: float, limit: float) -> GatePoint:
    verdict = _verdict(point, arms.metric.sign, edge)
    if verdict is not GateVerdict.INCONCLUSIVE:
        return GatePoint(point, verdict, 0)
    return GatePoint(point, verdict, new_run_pairs(point.interval, point.pairs, limit, paired=arms.paired))


def _verdict(point: PointComparison, sign: int, edge: float) -> GateVerdict:
    interval = point.interval
    if interval is None or point.pairs < FEWEST_PAIRS:
        return GateVerdict.INCONCLUSIVE
    best, worst = (-interval.high, -interval.low) if sign > 0 else (interval.low, interval.high)
    if best > edge:
        return GateVerdict.REGRESSION
    return GateVerdict.OK if worst < edge else GateVerdict.INCONCLUSIVE
