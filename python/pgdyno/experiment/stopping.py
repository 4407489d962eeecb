"""Stops when decided: looks at the comparison after every pair, and leaves out trials of points that are decided."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from pgdyno.analyse.comparison import LEAST_DELTA, Comparison, PointComparison, Verdict, compare
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import Arms, Metric, PointKey, arm_name, by_arm, key_without, metric_of, split_of, within
from pgdyno.errors import UsageError
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.optional_sections import share_of
from pgdyno.records import Manifest, StoppingRule
from pgdyno.report.run_events import Looked

Place = tuple[str, PointKey]
"""An arm at a point."""


def stopping_rule(plan: Plan, manifest: Manifest, trials: Sequence[PlannedTrial]) -> StoppingRule | None:
    """Return the rule of a run with `trials`; None if its number of repeats is fixed. Raises UsageError."""
    if not plan.trial.stops_when_decided:
        return None
    by = split_of(manifest, trials)
    if by is None:
        raise UsageError(
            f"trial.repeats is {plan.trial.repeats}, and no two arms are left that could be compared",
            hint="give a number of repeats, or a longer --budget",
        )
    base, *others = by_arm(manifest, trials, by).values()
    comparisons = sum(key in set(base) for keys in others for key in keys)
    if not comparisons:
        raise UsageError(
            f"trial.repeats is {plan.trial.repeats}, and no point has two arms that could be compared",
            hint="give a number of repeats",
        )
    return StoppingRule(
        fewest=plan.trial.fewest_repeats,
        most=plan.trial.most_repeats,
        by=by,
        metric=metric_of(manifest, trials).value,
        comparisons=comparisons,
        margin=LEAST_DELTA if plan.trial.margin is None else share_of(plan.trial.margin),
    )


class Looks:
    """The looks of a run at its comparison. What they decide follows from the stored trials alone, so that a run that
    is resumed decides the same, at the same price.
    """

    def __init__(self, rule: StoppingRule, trials: Sequence[PlannedTrial], measured: Callable[[], RunSource]) -> None:
        """`trials` are all trials of the plan; `measured` reads those that are stored."""
        self._rule = rule
        self._measured = measured
        manifest = measured().manifest
        self._arm = arm_name(manifest, trials, rule.by)
        self._key = key_without(rule.by)
        arms = by_arm(manifest, trials, rule.by)
        self._base, *others = arms
        shared = set(arms[self._base])
        self._undecided = {(arm, key) for arm in others for key in arms[arm] if key in shared}
        self._compared = frozenset(self._undecided)
        self._pairs: dict[Place, int] = {}
        self.look()

    @property
    def ended(self) -> Literal["decided", "undecided"]:
        return "undecided" if self._undecided else "decided"

    @property
    def summary(self) -> Message:
        """Return why there are no more trials: `stopped after 9 of at most 40 repeats: decided`."""
        most, counts = self._rule.most, sorted(self._pairs.values())
        if self._undecided:
            return Message(
                "repeats-undecided",
                "{undecided} of {comparisons} comparisons are undecided after {most} repeats",
                undecided=len(self._undecided),
                comparisons=len(self._compared),
                most=most,
            )
        span = f"{counts[0]} to {counts[-1]}" if counts[0] < counts[-1] else str(counts[0])
        return Message(
            "repeats-decided", "stopped after {repeats} of at most {most} repeats: decided", repeats=span, most=most
        )

    def needs(self, trial: PlannedTrial) -> bool:
        """Return whether `trial` could still decide something."""
        arm, key = self._arm(trial), self._key(trial)
        same = {place for place in self._compared if place[1] == key and arm in (place[0], self._base)}
        # a point that only one arm has is in no comparison
        return bool(same & self._undecided) if same else trial.repeat <= self._rule.fewest

    def look(self) -> list[Looked]:
        """Look at the stored trials; return every comparison that has a new pair. Raises StoreError."""
        try:
            all_arms = within(self._measured(), self._rule.by, Metric(self._rule.metric))
        except UsageError:
            # one arm has no trial yet
            return []
        found = []
        for arms, comparison in zip(all_arms, compare(all_arms), strict=True):
            found += self._points(arms, comparison)
        return found

    def _points(self, arms: Arms, comparison: Comparison) -> list[Looked]:
        found = []
        for pairs, point in zip(arms.points, comparison.points, strict=True):
            assert pairs.key is not None
            place = arms.other, pairs.key
            if point.interval is None or self._pairs.get(place) == point.pairs:
                continue
            self._pairs[place] = point.pairs
            if point.verdict is not Verdict.INCONCLUSIVE:
                self._undecided.discard(place)
            found.append(self._event(comparison, point))
        return found

    def _event(self, comparison: Comparison, point: PointComparison) -> Looked:
        assert point.interval is not None
        return Looked(
            arm=comparison.other,
            base=comparison.base,
            point=str(point.label),
            metric=comparison.metric.words,
            pairs=point.pairs,
            most=self._rule.most,
            change=math.expm1(point.interval.mean),
            low=math.expm1(point.interval.low),
            high=math.expm1(point.interval.high),
            margin=comparison.delta,
            verdict=None if point.verdict is Verdict.INCONCLUSIVE else point.verdict.value,
        )
