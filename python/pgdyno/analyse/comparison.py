"""Comparison of two arms: log ratios with intervals, a verdict per point and over all points, and the gate for CI.

A difference is judged on the scale of logarithms, where `B / A` and `A / B` are mirror images. With delta = max(1 %,
the noise floor of an A/A run): faster or slower if the whole interval is beyond log(1 + delta) of zero, same if it is
within, else inconclusive. A claim needs at least six pairs. Over several points, Holm's step-down procedure (1979)
keeps the chance of any wrong claim under 5 %.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

import numpy as np

from pgdyno.analyse.alpha_spending import look_level
from pgdyno.analyse.intervals import (
    CONFIDENCE,
    Interval,
    instances_interval,
    paired_interval,
    t_quantile,
    unpaired_interval,
    upper_spread,
)
from pgdyno.analyse.pairs import Arms, Confounder, Metric, PointPairs
from pgdyno.messages import Message
from pgdyno.records import StoppingRule
from pgdyno.records.base import FEWEST_PAIRS

LEAST_DELTA = Metric.TPS.least_delta
"""Smaller differences are not reported as such, except those of instructions."""
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


DIFFERENT = (Verdict.FASTER, Verdict.SLOWER)


@dataclass(frozen=True, slots=True)
class PointComparison:
    """One point, or all of them together."""

    label: Message
    pairs: int
    """Pairs; if the arms were not paired, the trials of the arm that has fewer."""
    base: float
    """Geometric mean of the base's figures: transactions per second, or nanoseconds."""
    other: float
    interval: Interval | None = None
    """Interval of log(other / base); None for fewer than two pairs."""
    verdict: Verdict = Verdict.INCONCLUSIVE
    detectable: float | None = None
    """The smallest relative difference, for better or worse, that these pairs would have shown with a chance of 80 %.
    None for fewer pairs than a claim needs.
    """
    new_run_pairs: int | None = None
    """Pairs of a new run, analysed without these, that reach a verdict with a chance of 80 % if mean and spread stay as
    they are; 0 if there is a verdict, None beyond 1,000. Do not add these pairs to the present ones: adding pairs until
    a difference shows makes more wrong claims than 5 %.
    """
    removed: int = 0
    """Trials of both arms that are left out because the audit found them invalid."""
    dead: tuple[int, int] = (0, 0)
    """Trials of each arm that have no figure, because they failed or completed no transaction."""
    reason: Message | None = None
    """Why there is no verdict, if no trial of an arm has a figure that counts."""
    instances: int = 1
    """Instances of the arm that has fewer. With two or more, an instance is one value of the interval."""
    new_run_instances: int | None = None
    """Instances of each arm in a new run that reach a verdict, like `new_run_pairs`, which is then None."""
    fewest: int = FEWEST_PAIRS
    """Pairs that a claim needs: those before the first look, if the run could stop when decided."""
    duet: bool = False
    """Whether the trials of a pair ran at the same time and were compared second by second: `base` and `other` are
    then figures of half of the processors, and their ratio is not exactly `change`.
    """
    spread: float = 0.0
    """Standard deviation of the difference of logarithms of one pair, or of one trial of each arm."""
    trials: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Numbers of the trials of each arm that have a figure, each in its own run."""
    group: str | None = None
    """The group of clients whose figures these are."""

    @property
    def change(self) -> float:
        """Return other / base - 1; of a duet, the mean over the seconds."""
        if self.duet and self.interval is not None:
            return math.expm1(self.interval.mean)
        return self.other / self.base - 1


@dataclass(frozen=True, slots=True)
class Comparison:
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
    brought: tuple[str, ...] = ()
    """Defaults that came with the other version or build, which is what is compared."""
    causes: tuple[Message, ...] = ()
    """What may explain the difference (`audit.causes`); empty without a verdict or a probe of the server."""
    stopping: StoppingRule | None = None
    """The rule by which the run could stop before its last repeat; None if the number of repeats was fixed."""
    by: str | None = None
    """In what the arms of a run differ: `target`, `settings.work_mem`; None between two runs."""
    control: Comparison | None = None
    """Of the baseline with itself, by the same margin; None if it was measured once in each block."""

    @property
    def unequal_control(self) -> PointComparison | None:
        """Return the point at which the baseline is shown to differ most from itself, so that no verdict counts."""
        points = () if self.control is None else self.control.judged
        unequal = [each for each in points if each.verdict in DIFFERENT]
        return max(unequal, key=lambda each: abs(math.log1p(each.change)), default=None)

    @property
    def is_of_groups(self) -> bool:
        """Return whether the arms differ in a group of clients, and the points are those beside it."""
        return (self.by or "").startswith("groups.")

    @property
    def judged(self) -> tuple[PointComparison, ...]:
        """Return the points that have trials of both arms left."""
        return tuple(point for point in self.points if point.reason is None)

    @property
    def chief(self) -> PointComparison | None:
        """Return the comparison to report in a sentence: the overall one, or that of the only point.

        Of groups of clients beside others, that of the group with the largest effect, preferably a significant one: a
        mean over groups is nobody's figure.
        """
        if self.is_of_groups and self.judged:
            settled = [point for point in self.judged if point.verdict is not Verdict.INCONCLUSIVE]
            return max(settled or self.judged, key=lambda point: abs(point.interval.mean) if point.interval else -1.0)
        return self.judged[0] if len(self.judged) == 1 else self.overall


def compare(all_arms: Sequence[Arms], floor: float = 0.0, delta: float | None = None) -> list[Comparison]:
    """Return a comparison for each of `all_arms`; Holm's correction is over all their points together.

    `floor`: the relative difference that two equal arms show on this set-up (see `noise_floor`). `delta`: the largest
    one that counts as none, if it is given and need not be derived.
    """
    rules = [each.stopping for each in all_arms if each.stopping is not None]
    if delta is None:
        least = max((each.metric.least_delta for each in all_arms), default=LEAST_DELTA)
        delta = max(least, floor, *(rule.margin for rule in rules))
    logs = [logs_of_units(pairs, each) for each in all_arms for pairs in each.points]
    signs = [each.metric.sign for each in all_arms for _ in each.points]
    judged = iter(_holm(logs, signs, delta, max((rule.comparisons for rule in rules), default=0)))
    comparisons = []
    for arms in all_arms:
        control = None if arms.control is None else compare([arms.control], delta=delta)[0]
        unequal = control is not None and any(point.verdict in DIFFERENT for point in control.points)
        of_arms = [replace(each, is_void=unequal) for each in islice(judged, len(arms.points))]
        points = tuple(_of_point(*each, arms, delta) for each in zip(arms.points, of_arms, strict=True))
        warnings = (*arms.notes, *_warnings(arms, points))
        comparisons.append(
            Comparison(
                base=arms.base,
                other=arms.other,
                metric=arms.metric,
                paired=arms.paired,
                delta=delta,
                points=points,
                overall=_overall(arms, delta, is_void=unequal),
                unmatched=arms.unmatched,
                warnings=warnings,
                confounders=arms.confounders,
                brought=arms.brought,
                stopping=arms.stopping,
                by=arms.by,
                control=control,
            )
        )
    return comparisons


def verdict_of(interval: Interval | None, pairs: int, delta: float, sign: int, fewest: int = FEWEST_PAIRS) -> Verdict:
    """Return the verdict on an interval of log(other / base); `sign` is +1 if more is better, -1 if less is."""
    if interval is None or pairs < fewest:
        return Verdict.INCONCLUSIVE
    edge = math.log1p(delta)
    low, high = (interval.low, interval.high) if sign > 0 else (-interval.high, -interval.low)
    if low > edge:
        return Verdict.FASTER
    if high < -edge:
        return Verdict.SLOWER
    return Verdict.SAME if -edge < low and high < edge else Verdict.INCONCLUSIVE


def detectable(interval: Interval, delta: float, error: float | None = None) -> float:
    """Return the smallest relative difference that a run like this one finds with a chance of 80 %.

    exp(log(1 + delta) + (t + t80) SE) - 1: `t` is the interval's, `t80` Student's 80 % quantile, and SE the upper end
    of the standard error, `error` if it is known: the usual minimum detectable effect (Bloom 1995), beyond delta,
    because a verdict requires the whole interval there.
    """
    error = upper_spread(interval.error, interval.freedom) if error is None else error
    quantiles = t_quantile(interval.quantile_level, interval.freedom) + t_quantile(2 * POWER - 1, interval.freedom)
    return math.expm1(math.log1p(delta) + quantiles * error)


def new_run_pairs(
    interval: Interval | None,
    spread: float,
    delta: float,
    *,
    paired: bool,
    fewest: int = FEWEST_PAIRS,
    instances: int = 1,
) -> int | None:
    """Return the pairs of a new run whose interval clears ±delta with a chance of 80 %, if the mean stays as it is;
    with two or more `instances` of each arm, the number of these instead, at least two.

    `spread` is the standard deviation of the difference of one pair, sqrt(s1² + s2²) without pairs; its upper end is
    assumed. Outside ±delta one end must clear one limit, inside both must: P = F((|mean| - d) / e - t), or F((d - mean)
    / e - t) + F((d + mean) / e - t) - 1, with d = log(1 + delta), e = spread / sqrt(n), and Student's distribution F.
    None beyond MOST_PAIRS: the difference is too near to delta for this spread.
    """
    fewest = fewest if instances == 1 else 2
    if interval is None:
        return fewest
    # importing scipy is slow
    from scipy import special

    mean, edge = abs(interval.mean), math.log1p(delta)
    n = np.arange(fewest, MOST_PAIRS + 1)
    freedom = n - 1 if paired else 2 * (n - 1)
    # equal figures have no spread
    error = np.maximum(upper_spread(spread, interval.freedom) / np.sqrt(n), 1e-12)
    t = special.stdtrit(freedom, (1 + interval.level) / 2)
    if mean > edge:
        chance = special.stdtr(freedom, (mean - edge) / error - t)
    else:
        chance = sum(special.stdtr(freedom, room / error - t) for room in (edge - mean, edge + mean)) - 1
    clear = chance >= POWER
    return int(n[np.argmax(clear)]) if clear.any() else None


@dataclass(frozen=True, slots=True)
class UnitLogs:
    """Logarithms of a point's figures by arm, one per repeat or per instance; if paired, in the same order."""

    base: tuple[float, ...]
    other: tuple[float, ...]
    paired: bool
    pairs: int
    """Repeats of the arm that has fewer."""
    by_instance: bool = False
    differences: tuple[float, ...] | None = None
    """Log ratios of trials that ran at the same time, in place of the differences between `other` and `base`."""
    stopping: StoppingRule | None = None
    fewest_pairs: int = FEWEST_PAIRS
    """Those of the metric."""

    @property
    def fewest(self) -> int:
        """Return the pairs that a claim needs."""
        return self.fewest_pairs if self.stopping is None else max(self.fewest_pairs, self.stopping.fewest)

    @property
    def instances(self) -> int:
        """Return the number of instances of the arm that has fewer; 1 if repeats are the unit."""
        if not self.by_instance:
            return 1
        return min(len(self.base), len(self.other)) if self.differences is None else len(self.differences)

    @property
    def spread(self) -> float:
        """Return the standard deviation of the difference of one pair; of one value of each arm if they are not paired.

        0 for fewer than two values.
        """
        if self.differences is not None:
            return _deviation(self.differences)
        if self.paired:
            return _deviation([b - a for a, b in zip(self.base, self.other, strict=True)])
        return math.hypot(_deviation(self.base), _deviation(self.other))

    def interval(self, level: float) -> Interval | None:
        if self.stopping is None:
            return self._interval_at(level)
        look = look_level(level, self.pairs, self.stopping.fewest, self.stopping.most)
        found = self._interval_at(look)
        return None if found is None else replace(found, level=level, look_level=look)

    def _interval_at(self, level: float) -> Interval | None:
        if self.differences is not None:
            return paired_interval(self.differences, level)
        if self.paired:
            return paired_interval([b - a for a, b in zip(self.base, self.other, strict=True)], level)
        if self.by_instance:
            return instances_interval(self.base, self.other, level)
        return unpaired_interval(self.base, self.other, level)


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def logs_of_units(pairs: PointPairs, arms: Arms) -> UnitLogs:
    """Return the figures from which the interval is computed.

    Trials of one instance share what is particular to it, so with two or more instances of each arm the mean of an
    instance is one value. Arms on the same instances, such as two settings, are compared instance by instance.
    """
    return replace(_logs_of_units(pairs, arms), fewest_pairs=arms.metric.fewest_pairs, stopping=arms.stopping)


def _logs_of_units(pairs: PointPairs, arms: Arms) -> UnitLogs:
    if arms.paired and pairs.duets:
        return _of_duets(pairs)
    repeats = (pairs.repeats, pairs.repeats) if arms.paired else (sorted(pairs.base), sorted(pairs.other))
    count = min(map(len, repeats))
    if min(len(set(each.values())) for each in pairs.instances) < 2:
        base, other = map(_logs_of_figures, (pairs.base, pairs.other), repeats)
        return UnitLogs(base, other, arms.paired, count)
    of_base, of_other = map(_by_instance, (pairs.base, pairs.other), pairs.instances, repeats)
    if not (arms.paired and arms.same_servers):
        # time affects all instances alike, because repeats take turns at them: pairs add nothing
        return UnitLogs(tuple(of_base.values()), tuple(of_other.values()), False, count, by_instance=True)
    common = sorted(of_base.keys() & of_other.keys())
    base, other = (tuple(of[each] for each in common) for of in (of_base, of_other))
    return UnitLogs(base, other, True, count, by_instance=True)


def _of_duets(pairs: PointPairs) -> UnitLogs:
    """Return the ratios of trials that ran at the same time; of several instances, the mean of each pair of them."""
    repeats = [each for each in pairs.repeats if each in pairs.duets]
    base, other = (_logs_of_figures(figures, repeats) for figures in (pairs.base, pairs.other))
    found: dict[tuple[int | None, int | None], list[float]] = defaultdict(list)
    for repeat in repeats:
        of_base, of_other = (numbers.get(repeat) for numbers in pairs.instances)
        found[of_base, of_other].append(pairs.duets[repeat])
    by_instance = min(len(set(numbers.values())) for numbers in pairs.instances) > 1
    differences = (
        tuple(math.fsum(each) / len(each) for _, each in sorted(found.items()))
        if by_instance
        else tuple(pairs.duets[each] for each in repeats)
    )
    return UnitLogs(base, other, True, len(repeats), by_instance, differences)


def _by_instance(
    figures: Mapping[int, float], instances: Mapping[int, int], repeats: Sequence[int]
) -> dict[int, float]:
    found: dict[int, list[float]] = defaultdict(list)
    for repeat in repeats:
        found[instances[repeat]].append(math.log(figures[repeat]))
    return {instance: math.fsum(logs) / len(logs) for instance, logs in sorted(found.items())}


def _logs_of_figures(figures: Mapping[int, float], repeats: Sequence[int]) -> tuple[float, ...]:
    return tuple(math.log(figures[repeat]) for repeat in repeats)


@dataclass(frozen=True, slots=True)
class _Judged:
    logs: UnitLogs
    interval: Interval | None
    shown: Verdict
    """What the interval shows."""
    is_void: bool = False
    """Whether the baseline differs from itself, so that nothing counts."""

    @property
    def verdict(self) -> Verdict:
        return Verdict.INCONCLUSIVE if self.is_void else self.shown


def _holm(points: Sequence[UnitLogs], signs: Sequence[int], delta: float, planned: int = 0) -> list[_Judged]:
    """Return every point with its verdict: each step claims what is clear at 1 - 5 % / (points left), until nothing is.

    This makes the same claims as Holm's procedure on ordered p-values: a claim that is clear with m points left stays
    clear with fewer. Points with too few pairs claim nothing, and are not counted, unless the run could stop when
    decided: all `planned` points then count at each look, since they may be decided at a later one.
    """
    done: dict[int, _Judged] = {}
    left = [at for at, logs in enumerate(points) if logs.pairs >= logs.fewest]
    later = 0
    if any(logs.stopping is not None for logs in points):
        later = max(planned, len(points)) - len(left)
    while left:
        level = 1 - (1 - CONFIDENCE) / (len(left) + later)
        judged = {at: _judge(points[at], level, delta, signs[at]) for at in left}
        clear = [at for at in left if judged[at].verdict is not Verdict.INCONCLUSIVE]
        for at in clear or left:
            done[at] = judged[at]
        left = [at for at in left if at not in done]
    for at, logs in enumerate(points):
        if at not in done:
            done[at] = _judge(logs, CONFIDENCE, delta, signs[at])
    return [done[at] for at in range(len(points))]


def _judge(logs: UnitLogs, level: float, delta: float, sign: int) -> _Judged:
    interval = logs.interval(level)
    return _Judged(logs, interval, verdict_of(interval, logs.pairs, delta, sign, logs.fewest))


def _of_point(pairs: PointPairs, judged: _Judged, arms: Arms, delta: float) -> PointComparison:
    return replace(
        _point_comparison(pairs.label, judged, delta),
        removed=sum(pairs.removed),
        dead=pairs.dead,
        reason=_no_verdict(pairs, arms),
        trials=pairs.trials,
        group=pairs.point.group,
    )


def _no_verdict(pairs: PointPairs, arms: Arms) -> Message | None:
    names, figures = (arms.base, arms.other), (pairs.base, pairs.other)
    empty = [at for at in (0, 1) if not figures[at]]
    dead = [at for at in empty if pairs.dead[at]]
    if len(dead) > 1:
        return Message("no-figures", "each trial failed or completed no transaction")
    if dead:
        return Message("no-figure", "each trial of {arm} failed or completed no transaction", arm=names[dead[0]])
    if len(empty) > 1:
        return Message(
            "arms-left-out",
            "all trials of {base} and {other} are left out, because the audit found them invalid",
            base=arms.base,
            other=arms.other,
        )
    if empty:
        return Message(
            "arm-left-out",
            "all trials of {arm} are left out, because the audit found them invalid",
            arm=names[empty[0]],
        )
    return None


def _point_comparison(label: Message, judged: _Judged, delta: float) -> PointComparison:
    logs, interval = judged.logs, judged.interval
    needed: int | None = 0
    if judged.verdict is Verdict.INCONCLUSIVE:
        needed = new_run_pairs(
            interval, logs.spread, delta, paired=logs.paired, fewest=logs.fewest_pairs, instances=logs.instances
        )
    return PointComparison(
        label=label,
        pairs=logs.pairs,
        base=_geometric(logs.base),
        other=_geometric(logs.other),
        interval=interval,
        verdict=judged.verdict,
        detectable=None if interval is None or logs.pairs < logs.fewest else detectable(interval, delta),
        new_run_pairs=None if logs.by_instance else needed,
        instances=logs.instances,
        new_run_instances=needed if logs.by_instance else None,
        fewest=logs.fewest,
        duet=logs.differences is not None,
        spread=logs.spread,
    )


def _geometric(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def _overall(arms: Arms, delta: float, *, is_void: bool) -> PointComparison | None:
    """Return the geometric mean over all points that have figures, for each repeat that has every point."""
    points = [pairs for pairs in arms.points if pairs.base and pairs.other]
    if len(points) < 2:
        return None
    base = _geometric_means([pairs.base for pairs in points])
    other = _geometric_means([pairs.other for pairs in points])
    duets = _mean_logs([pairs.duets for pairs in points])
    every = PointPairs(ALL_POINTS, arms.points[0].point, base, other, instances=points[0].instances, duets=duets)
    logs = logs_of_units(every, arms)
    if logs.pairs < 2:
        return None
    judged = replace(_judge(logs, CONFIDENCE, delta, arms.metric.sign), is_void=is_void)
    return _point_comparison(ALL_POINTS, judged, delta)


def _geometric_means(points: Sequence[Mapping[int, float]]) -> dict[int, float]:
    logs = [{repeat: math.log(figure) for repeat, figure in point.items()} for point in points]
    return {repeat: math.exp(mean) for repeat, mean in _mean_logs(logs).items()}


def _mean_logs(points: Sequence[Mapping[int, float]]) -> dict[int, float]:
    repeats = set.intersection(*(set(point) for point in points))
    return {repeat: math.fsum(point[repeat] for point in points) / len(points) for repeat in sorted(repeats)}


def _warnings(arms: Arms, points: Sequence[PointComparison]) -> list[Message]:
    found = []
    if arms.stopping is not None:
        found.append(_looks(arms.stopping, paired=arms.paired))
        early = [point.pairs for point in points if point.verdict in (Verdict.FASTER, Verdict.SLOWER)]
        if arms.paired and early and min(early) < arms.stopping.most:
            found.append(
                Message(
                    "decided-early",
                    "decided early (after {pairs} of at most {most} pairs), a difference is too large on average: "
                    "rely on the end of the interval that is nearer to zero",
                    pairs=min(early),
                    most=arms.stopping.most,
                )
            )
    if not arms.paired:
        found.append(
            Message(
                "different-times",
                "the two runs were made at different times: the difference includes what changed on the machine "
                "between them",
            )
        )
    judged = [point for point in points if point.reason is None]
    least = arms.metric.fewest_pairs
    few = [str(point.label) for point in judged if point.pairs < least]
    if few:
        found.append(few_pairs([] if len(few) == len(judged) else few, paired=arms.paired, least=least))
    found.extend(
        Message(
            "trials-without-figure",
            "{point}: {trials} trial failed or completed no transaction, and is not compared",
            "{point}: {trials} trials failed or completed no transaction, and are not compared",
            trials=sum(point.dead),
            point=point.label,
        )
        for point in points
        if sum(point.dead) and point.reason is None
    )
    if arms.unmatched:
        there = ", ".join(map(str, arms.unmatched))
        found.append(Message("only-one-has", "only one of the two has {points}", points=there))
    return found


def _looks(rule: StoppingRule, *, paired: bool) -> Message:
    """Explain the interval of a run whose number of repeats depended on results."""
    if paired:
        return Message(
            "interval-of-looks",
            "the run looked at the difference after every pair from {fewest} to {most}: the interval holds for all "
            "these looks together",
            fewest=rule.fewest,
            most=rule.most,
        )
    return Message(
        "stopped-by-results",
        "the number of repeats depended on results: the interval is as wide as if the run had looked at the "
        "difference after every pair from {fewest} to {most}",
        fewest=rule.fewest,
        most=rule.most,
    )


def few_pairs(points: Sequence[str], *, paired: bool, least: int = FEWEST_PAIRS) -> Message:
    """Warn of too few pairs for a claim, at `points`; at all points if none is named."""
    told: dict[str, int | str] = {"least": least, "points": ", ".join(points)}
    if paired and points:
        return Message("few-pairs", "fewer than {least} pairs at {points}: too few for a claim", **told)
    if paired:
        return Message("few-pairs", "fewer than {least} pairs: too few for a claim", **told)
    if points:
        return Message("few-trials-a-run", "fewer than {least} trials per run at {points}: too few for a claim", **told)
    return Message("few-trials-a-run", "fewer than {least} trials per run: too few for a claim", **told)
