"""The gate: whether a candidate is worse than its baseline by more than is allowed, at any point."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from pgdyno.analyse.comparison import Comparison, PointComparison, compare, new_run_pairs
from pgdyno.analyse.intervals import t_quantile, upper_spread
from pgdyno.analyse.pairs import Arms, PointPairs
from pgdyno.messages import Message

LEAST_POWER = 0.5
"""Chance to find twice the limit, below which an inconclusive gate must not pass."""


class GateVerdict(StrEnum):
    """The result of a gate."""

    OK = "ok"
    INCONCLUSIVE = "inconclusive"
    PROMISE_BROKEN = "promise broken"
    """Of a gate as a whole, besides its points."""
    REGRESSION = "regression"
    UNDECIDABLE = "cannot decide"
    """Of a gate as a whole: its baseline differs from itself."""


@dataclass(frozen=True, slots=True)
class GatePoint:
    """A point with its verdict against the limit."""

    compared: PointComparison
    verdict: GateVerdict
    new_run_pairs: int | None
    """Pairs of a new run that would settle it, as in `PointComparison`, against the limit."""
    new_run_instances: int | None = None
    """Instances of each arm, in place of pairs, if these are the unit."""
    reason: Message | None = None
    """Why it is not ok, although its figures allow it."""


@dataclass(frozen=True, slots=True)
class Gate:
    comparison: Comparison
    limit: float
    """Relative: 0.03 for 3 %."""
    points: tuple[GatePoint, ...]

    @property
    def verdict(self) -> GateVerdict:
        """Return regression if one point has one, ok if all are ok, else inconclusive; none of these with a baseline
        that differs from itself.
        """
        if self.comparison.unequal_control is not None:
            return GateVerdict.UNDECIDABLE
        verdicts = {point.verdict for point in self.points}
        if GateVerdict.REGRESSION in verdicts:
            return GateVerdict.REGRESSION
        return GateVerdict.OK if verdicts == {GateVerdict.OK} else GateVerdict.INCONCLUSIVE

    @property
    def control_pairs(self) -> int | None:
        """Return the pairs of a new run that show an equal baseline as equal with a chance of 80 %; None beyond 1,000,
        and without an unequal control.
        """
        unequal = self.comparison.unequal_control
        if unequal is None or unequal.interval is None:
            return None
        equal = replace(unequal.interval, mean=0.0)
        return new_run_pairs(equal, unequal.spread, self.limit, paired=True, instances=unequal.instances)

    @property
    def power(self) -> float:
        """Return the least chance, over the points, that a loss of twice the limit is called a regression."""
        return min((_power(point.compared, self.limit) for point in self.points), default=0.0)


def _power(point: PointComparison, limit: float) -> float:
    """Return the chance that a loss of twice the limit is called a regression: 1 - F'(t), where F' is the noncentral t
    distribution about (log(1 + 2 limit) - log(1 + limit)) / e, and e is the upper end of the standard error.
    """
    interval = point.interval
    if interval is None or point.pairs < point.fewest:
        return 0.0
    error = upper_spread(interval.error, interval.freedom)
    if error == 0:
        return 1.0
    # importing scipy is slow
    from scipy import special

    beyond = (math.log1p(2 * limit) - math.log1p(limit)) / error
    quantile = t_quantile(interval.quantile_level, interval.freedom)
    return float(1 - special.nctdtr(interval.freedom, beyond, quantile))


def gate(arms: Arms, limit: float) -> Gate:
    """Judge every point against `limit`, the largest relative change for the worse that is allowed.

    Worse is log(base / other) for throughput, log(other / base) for latency: a limit of 3 % lets a latency rise to 1.03
    of the baseline's, and a throughput fall to 1 / 1.03. Intervals are Holm's over the points, because a false alarm is
    one at any point. That all points are clear needs no correction (Berger 1982: an intersection-union test), but the
    wider interval is used for both, so that the printed interval is the judged one.
    """
    # the limit decides here, in place of the margin for which the run stopped
    rule = None if arms.stopping is None else arms.stopping.model_copy(update={"margin": 0.0})
    (comparison,) = compare([replace(arms, stopping=rule)], delta=limit)
    points = [_gate_point(*each, arms, limit) for each in zip(comparison.points, arms.points, strict=True)]
    if comparison.unequal_control is not None:
        reason = Message("control-unequal", "the baseline differs from itself")
        points = [replace(each, verdict=GateVerdict.INCONCLUSIVE, reason=reason) for each in points]
    return Gate(comparison, limit, (*points, *(_missing_point(label, arms) for label in arms.missing)))


def _gate_point(point: PointComparison, pairs: PointPairs, arms: Arms, limit: float) -> GatePoint:
    verdict = _verdict(point, arms.metric.sign, math.log1p(limit))
    if verdict is GateVerdict.OK and pairs.broken:
        # what works in some trials only is not as good as before
        failed = Message(
            "candidate-broken",
            "{trials} trial of {arm} failed, was interrupted or had errors",
            "{trials} trials of {arm} failed, were interrupted or had errors",
            trials=pairs.broken,
            arm=arms.other,
        )
        return GatePoint(point, GateVerdict.INCONCLUSIVE, None, None, failed)
    if verdict is not GateVerdict.INCONCLUSIVE:
        return GatePoint(point, verdict, 0, 0)
    needed = new_run_pairs(point.interval, point.spread, limit, paired=arms.paired, instances=point.instances)
    return GatePoint(point, verdict, needed, None) if point.instances == 1 else GatePoint(point, verdict, None, needed)


def _missing_point(label: Message, arms: Arms) -> GatePoint:
    reason = Message("candidate-missing", "{arm} has no finished trial there", arm=arms.other)
    return GatePoint(PointComparison(label, 0, math.nan, math.nan, reason=reason), GateVerdict.INCONCLUSIVE, None)


def _verdict(point: PointComparison, sign: int, edge: float) -> GateVerdict:
    interval = point.interval
    if interval is None or point.pairs < point.fewest:
        return GateVerdict.INCONCLUSIVE
    best, worst = (-interval.high, -interval.low) if sign > 0 else (interval.low, interval.high)
    if best > edge:
        return GateVerdict.REGRESSION
    return GateVerdict.OK if worst < edge else GateVerdict.INCONCLUSIVE
