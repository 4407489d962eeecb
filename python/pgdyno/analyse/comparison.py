"""Comparison of two arms: log ratios with intervals, a verdict per point and over all points, and the gate for CI.

A difference is judged on the scale of logarithms, where `B / A` and `A / B` are mirror images. With delta = max(1 %,
the noise floor of an A/A run): faster or slower if the whole interval is beyond log(1 + delta) of zero, same if it is
within, else inconclusive. A claim needs at least six pairs. Over several points, Holm's step-down procedure (1979)
keeps the chance of any wrong claim under 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from pgdyno.analyse.estimate import CONFIDENCE
from pgdyno.analyse.intervals import Interval, paired_interval, t_quantile, unpaired_interval
from pgdyno.analyse.pairs import Arms, Confounder, Metric, PointPairs
from pgdyno.messages import Message

FEWEST_PAIRS = 6
"""Required for a claim."""
LEAST_DELTA = 0.01
"""Smaller differences are not reported as such."""
POWER = 0.8
"""The power at which `detectable` is computed."""
MOST_PAIRS = 1_000
"""More pairs are not worth proposing."""


ALL_POINTS = Message("all-points", "all points")
"""Label of the comparison over all points."""


class Verdict(StrEnum):
    """The result of the pairs for the other arm relative to the base."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class PointComparison:
    """One point, or all of them together."""

    label: Message
    pairs: int
    """Pairs; if the arms were not paired, the trials of the arm that has fewer."""
    base: float
    """Geometric mean of the base's figures: transactions per second, or nanoseconds."""
    other: float
    interval: Interval | None
    """Interval of log(other / base); None for fewer than two pairs."""
    verdict: Verdict
    detectable: float | None
    """The smallest relative difference, for better or worse, that these pairs would have shown with a chance of 80 %.
    None without an interval.
    """
    new_run_pairs: int | None
    """Pairs of a new run, analysed without these, that reach a verdict with a chance of 80 % if mean and spread stay as
    they are; 0 if there is a verdict, None beyond 1,000. Do not add these pairs to the present ones: adding pairs until
    a difference shows makes more wrong claims than 5 %.
    """
    removed: int = 0
    """Trials of both arms that are left out because the audit found them invalid."""
    reason: Message | None = None
    """Why there is no verdict, if all trials of an arm are left out."""

    @property
    def change(self) -> float:
        """Return other / base - 1."""
        return self.other / self.base - 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms, at all points."""

    base: str
    other: str
    metric: Metric
    paired: bool
    delta: float
    """Relative: 0.01 for 1 %."""
    points: tuple[PointComparison, ...]
    overall: PointComparison | None
    """Geometric mean over the points, one figure per repeat; None unless two repeats have all points."""
    unmatched: tuple[Message, ...]
    warnings: tuple[Message, ...]
    confounders: tuple[Confounder, ...] = ()

    @property
    def judged(self) -> tuple[PointComparison, ...]:
        """Return the points that have trials of both arms left."""
        return tuple(point for point in self.points if point.reason is None)

    @property
    def chief(self) -> PointComparison | None:
        """Return the comparison to report in a sentence: the overall one, or that of the only point."""
        return self.judged[0] if len(self.judged) == 1 else self.overall


def compare(all_arms: Sequence[Arms], floor: float = 0.0) -> list[Comparison]:
    """Return a comparison for each of `all_arms`; Holm's correction is over all their points together.

    `floor`: the relative difference that two equal arms show on this set-up (see `noise_floor`).
    """
    delta = max(LEAST_DELTA, floor)
    logs = [_logs(pairs, each.paired) for each in all_arms for pairs in each.points]
    signs = [each.metric.sign for each in all_arms for _ in each.points]
    judged = iter(_holm(logs, signs, delta))
    comparisons = []
    for arms in all_arms:
        points = tuple(_of_point(pairs, next(judged), arms, delta) for pairs in arms.points)
        warnings = (*arms.notes, *_warnings(arms, points))
        comparisons.append(
            Comparison(
                base=arms.base,
                other=arms.other,
                metric=arms.metric,
                paired=arms.paired,
                delta=delta,
                points=points,
                overall=_overall(arms, delta),
                unmatched=arms.unmatched,
                warnings=warnings,
                confounders=arms.confounders,
            )
        )
    return comparisons


def verdict_of(interval: Interval | None, pairs: int, delta: float, sign: int) -> Verdict:
    """Return the verdict on an interval of log(other / base); `sign` is +1 if more is better, -1 if less is."""
    if interval is None or pairs < FEWEST_PAIRS:
        return Verdict.INCONCLUSIVE
    edge = math.log1p(delta)
    low, high = (interval.low, interval.high) if sign > 0 else (-interval.high, -interval.low)
    if low > edge:
        return Verdict.FASTER
    if high < -edge:
        return Verdict.SLOWER
    return Verdict.SAME if -edge < low and high < edge else Verdict.INCONCLUSIVE


def detectable(interval: Interval, delta: float) -> float:
    """Return the smallest relative difference that is found with a chance of 80 %: exp(log(1 + delta) + (t + t80) SE) -
    1.

    `t` is the interval's, `t80` Student's 80 % quantile: the usual minimum detectable effect (Bloom 1995), beyond
    delta, because a verdict requires the whole interval there.
    """
    quantiles = t_quantile(interval.level, interval.freedom) + t_quantile(2 * POWER - 1, interval.freedom)
    return math.expm1(math.log1p(delta) + quantiles * interval.error)


def new_run_pairs(interval: Interval | None, pairs: int, delta: float, *, paired: bool) -> int | None:
    """Return the pairs of a new run whose interval clears ±delta with a chance of 80 %, if mean and spread stay as they
    are.

    The least n with (t + t80) · s / sqrt(n) < | |mean| - log(1 + delta) |. None beyond MOST_PAIRS: the difference is
    about delta, and no number of pairs distinguishes it from delta.
    """
    if interval is None:
        return FEWEST_PAIRS
    # importing scipy is slow
    from scipy import special

    room = abs(abs(interval.mean) - math.log1p(delta))
    spread = interval.error * math.sqrt(pairs)
    n = np.arange(FEWEST_PAIRS, MOST_PAIRS + 1)
    freedom = n - 1 if paired else 2 * (n - 1)
    quantiles = special.stdtrit(freedom, (1 + interval.level) / 2) + special.stdtrit(freedom, POWER)
    clear = quantiles * spread / np.sqrt(n) < room
    return int(n[np.argmax(clear)]) if clear.any() else None


@dataclass(frozen=True, slots=True)
class _Logs:
    """Logarithms of a point's figures, by arm; if paired, in the same order."""

    base: tuple[float, ...]
    other: tuple[float, ...]
    paired: bool

    @property
    def pairs(self) -> int:
        return min(len(self.base), len(self.other))

    def interval(self, level: float) -> Interval | None:
        if not self.paired:
            return unpaired_interval(self.base, self.other, level)
        return paired_interval([b - a for a, b in zip(self.base, self.other, strict=True)], level)


def _logs(pairs: PointPairs, paired: bool) -> _Logs:
    if paired:
        return _Logs(_logged(pairs.base, pairs.repeats), _logged(pairs.other, pairs.repeats), paired)
    return _Logs(_logged(pairs.base, sorted(pairs.base)), _logged(pairs.other, sorted(pairs.other)), paired)


def _logged(figures: Mapping[int, float], repeats: Sequence[int]) -> tuple[float, ...]:
    return tuple(math.log(figures[repeat]) for repeat in repeats)


@dataclass(frozen=True, slots=True)
class _Judged:
    logs: _Logs
    interval: Interval | None
    verdict: Verdict


def _holm(points: Sequence[_Logs], signs: Sequence[int], delta: float) -> list[_Judged]:
    """Return every point with its verdict: each step claims what is clear at 1 - 5 % / (points left), until nothing is.

    This makes the same claims as Holm's procedure on ordered p-values: a claim that is clear with m points left stays
    clear with fewer. Points with too few pairs claim nothing, and are not counted.
    """
    done: dict[int, _Judged] = {}
    left = [at for at, logs in enumerate(points) if logs.pairs >= FEWEST_PAIRS]
    while left:
        level = 1 - (1 - CONFIDENCE) / len(left)
        judged = {at: _judge(points[at], level, delta, signs[at]) for at in left}
        clear = [at for at in left if judged[at].verdict is not Verdict.INCONCLUSIVE]
        for at in clear or left:
            done[at] = judged[at]
        left = [at for at in left if at not in done]
    for at, logs in enumerate(points):
        if at not in done:
            done[at] = _judge(logs, CONFIDENCE, delta, signs[at])
    return [done[at] for at in range(len(points))]


def _judge(logs: _Logs, level: float, delta: float, sign: int) -> _Judged:
    interval = logs.interval(level)
    return _Judged(logs, interval, verdict_of(interval, logs.pairs, delta, sign))


def _of_point(pairs: PointPairs, judged: _Judged, arms: Arms, delta: float) -> PointComparison:
    found = _compared(pairs.label, judged, arms, delta)
    empty = [name for name, figures in ((arms.base, pairs.base), (arms.other, pairs.other)) if not figures]
    return replace(found, removed=sum(pairs.removed), reason=_left_out(empty) if empty else None)


def _left_out(arms: Sequence[str]) -> Message:
    if len(arms) == 1:
        return Message(
            "arm-left-out", "all trials of {arm} are left out, because the audit found them invalid", arm=arms[0]
        )
    return Message(
        "arms-left-out",
        "all trials of {base} and {other} are left out, because the audit found them invalid",
        base=arms[0],
        other=arms[1],
    )


def _compared(label: Message, judged: _Judged, arms: Arms, delta: float) -> PointComparison:
    logs, interval = judged.logs, judged.interval
    settled = judged.verdict is not Verdict.INCONCLUSIVE
    return PointComparison(
        label=label,
        pairs=logs.pairs,
        base=_geometric(logs.base),
        other=_geometric(logs.other),
        interval=interval,
        verdict=judged.verdict,
        detectable=None if interval is None else detectable(interval, delta),
        new_run_pairs=0 if settled else new_run_pairs(interval, logs.pairs, delta, paired=arms.paired),
    )


def _geometric(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def _overall(arms: Arms, delta: float) -> PointComparison | None:
    """Return the geometric mean over all points that have figures, one per repeat; only repeats that have every point
    count.
    """
    points = [pairs for pairs in arms.points if pairs.base and pairs.other]
    if len(points) < 2:
        return None
    base = _means([pairs.base for pairs in points])
    other = _means([pairs.other for pairs in points])
    logs = _logs(PointPairs(ALL_POINTS, arms.points[0].point, base, other), arms.paired)
    if logs.pairs < 2:
        return None
    return _compared(ALL_POINTS, _judge(logs, CONFIDENCE, delta, arms.metric.sign), arms, delta)


def _means(points: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the geometric mean over the points, by repeat."""
    repeats = set.intersection(*(set(point) for point in points))
    return {repeat: _geometric([math.log(point[repeat]) for point in points]) for repeat in sorted(repeats)}


def _warnings(arms: Arms, points: Sequence[PointComparison]) -> list[Message]:
    found = []
    if not arms.paired:
        found.append(
            Message(
                "different-times",
                "the two runs were made at different times: the difference includes what changed on the machine "
                "between them",
            )
        )
    judged = [point for point in points if point.reason is None]
    few = [str(point.label) for point in judged if point.pairs < FEWEST_PAIRS]
    if few:
        found.append(few_pairs([] if len(few) == len(judged) else few, paired=arms.paired))
    if arms.unmatched:
        there = ", ".join(map(str, arms.unmatched))
        found.append(Message("only-one-has", "only one of the two has {points}", points=there))
    return found


def few_pairs(points: Sequence[str], *, paired: bool) -> Message:
    """Warn of too few pairs for a claim, at `points`; at all points if none is named."""
    least, at = FEWEST_PAIRS, ", ".join(points)
    if paired and points:
        return Message("few-pairs", "fewer than {least} pairs at {points}: too few for a claim", least=least, points=at)
    if paired:
        return Message("few-pairs", "fewer than {least} pairs: too few for a claim", least=least, points=at)
    if points:
        return Message(
            "few-trials-a-run",
            "fewer than {least} trials per run at {points}: too few for a claim",
            least=least,
            points=at,
        )
    return Message("few-trials-a-run", "fewer than {least} trials per run: too few for a claim", least=least, points=at)


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
