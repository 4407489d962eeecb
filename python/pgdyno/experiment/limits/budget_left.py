"""Keeps a run within its budget: what trials and loads really take decides which points are left out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.reading.read_plan import Budget
from pgdyno.plan.time_budget.budget import thinned
from pgdyno.plan.workload import trial_s
from pgdyno.records import TrialRecord
from pgdyno.units import format_duration

MOST_OVERRUN = 0.15
"""The share of the budget by which a trial may exceed it, so that a run takes at most 20 % more with its report."""
LOAD = "load"


class BudgetLeft:
    """The time that is left of a budget, and the trials that fit into it."""

    def __init__(self, plan: Plan, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._budget = budget
        self._clock = clock
        self._began_s = 0.0
        self._each_s: list[float] = []
        """The seconds of each trial, without loading; of a duet, half of its pair's."""
        self._loaded: dict[tuple[str, int | None], float] = {}
        """The seconds to load each dataset, by target and scale."""

    def begins(self) -> str | None:
        """Note the start of a trial; return why it must not begin, if the budget is used up."""
        self._began_s = self._clock()
        end_s = self._budget.began_s + (1 + MOST_OVERRUN) * self._budget.seconds
        if self._each_s and self._began_s + self._plan.at_once * self._trial_s() > end_s:
            return f"the budget of {format_duration(self._budget.seconds)} is used up"
        return None

    def ended(self, records: Sequence[TrialRecord]) -> None:
        """Note what the trials that ran at the same time have taken."""
        loads_s = 0.0
        for record in records:
            steps = record.prepare.steps if record.prepare is not None else []
            load_s = sum(step.seconds for step in steps if step.name == LOAD)
            self._loaded.setdefault((record.target, record.point.scale), load_s)
            loads_s += load_s
        each_s = (self._clock() - self._began_s - loads_s) / len(records)
        self._each_s += [each_s] * len(records)

    def fitting(self, todo: Sequence[PlannedTrial]) -> tuple[list[PlannedTrial], str | None]:
        """Return the trials of `todo` whose points fit into the time that is left, and what was left out."""
        left_s = self._budget.began_s + self._budget.seconds - self._clock()
        if not self._each_s or self._needed_s(todo) <= left_s:
            return list(todo), None
        kept = self._kept(todo, left_s)
        points, fewer = _points(todo), len(_points(kept))
        if not kept or fewer == len(points):
            # even one point does not fit: `begins` ends the run
            return list(todo), None
        dropped = len(points) - fewer
        what = f"{dropped} of {len(points)} points {'is' if dropped == 1 else 'are'} left out"
        what_runs = "a trial" if self._plan.at_once == 1 else "a pair of trials"
        took_s = format_duration(round(self._plan.at_once * self._trial_s()))
        took = f"{what_runs} takes {took_s} with its preparation"
        loads = max(self._loaded.values(), default=0.0)
        loaded = f", a load up to {format_duration(round(loads))}" if loads >= 1 else ""
        return kept, f"for the budget, {what}: {took}{loaded}"

    def _kept(self, todo: Sequence[PlannedTrial], left_s: float) -> list[PlannedTrial]:
        for count in range(len(_points(todo)) - 1, 0, -1):
            chosen = thinned(self._plan, count)
            kept = [trial for trial in todo if trial.point in chosen]
            if kept and self._needed_s(kept) <= left_s:
                return kept
        # no other dataset can be loaded
        return [trial for trial in todo if (trial.target, trial.point.scale) in self._loaded]

    def _trial_s(self) -> float:
        planned_s = (trial_s(self._plan) or 0.0) / self._plan.at_once
        return max(math.fsum(self._each_s) / len(self._each_s), planned_s)

    def _needed_s(self, todo: Sequence[PlannedTrial]) -> float:
        """Return the seconds of `todo`; datasets that are not loaded yet count in proportion to those that are."""
        per_scale = max((seconds / (scale or 1) for (_, scale), seconds in self._loaded.items()), default=0.0)
        new = {(trial.target, trial.point.scale) for trial in todo} - self._loaded.keys()
        return len(todo) * self._trial_s() + math.fsum((scale or 1) * per_scale for _, scale in new)


def _points(trials: Sequence[PlannedTrial]) -> list[str]:
    return list(dict.fromkeys(trial.point.model_dump_json() for trial in trials))
