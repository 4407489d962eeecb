"""Keeps a run within its budget: what trials and loads really take decides what is left out.

A run may take 20 % more than its budget. So nothing begins or continues that would end later than 15 % after it; the
rest is for the end of the run. See docs/design/budget.md.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pgdyno.errors import StopRunError
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.scenario.loads import loads_of
from pgdyno.plan.time_budget.budget import ENDING_S, Budget, thin_points
from pgdyno.plan.time_budget.time_and_disk import estimated_s, loading_s, planned_s, servers
from pgdyno.plan.workload_schema import DataKey
from pgdyno.records import Point, TrialRecord
from pgdyno.units import duration_words, format_duration

MOST_OVERRUN = 0.15
LOAD = "load"
FINISH_SHARE = 0.25
"""What follows the rows of a load, in proportion to them: vacuum and keys."""
FIRST_RATE_S = 2.0
"""The part of a load that shows its rate."""


class BudgetUsedError(StopRunError):
    """Nothing more fits into the budget."""


class LoadTooLongError(BudgetUsedError):
    """A load was ended, because it would have exceeded the budget."""

    def __init__(self, reason: Message, seconds: float, *, hint: str) -> None:
        super().__init__(reason, hint=hint)
        self.seconds = seconds
        """What the whole load would have taken."""


class BudgetLeft:
    """The time that is left of a budget, and the trials that fit into it."""

    def __init__(self, plan: Plan, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        """The budget begins now."""
        self._plan = plan
        self._budget = budget
        self._clock = clock
        self._first_s = clock()
        self._began_s = 0.0
        self._each_s: list[float] = []
        """The seconds of each trial, without its first load; of a duet, half of its pair's."""
        self._estimated_s: list[float] = []
        """What the plan estimates for the load of each of them."""
        self._loaded: dict[tuple[str, DataKey], float] = {}
        """The seconds to load each dataset, by server."""
        self._load_began_s: float | None = None
        self.is_used_up = False
        """Whether something was left out for the budget."""
        self._may_end_a_step = True
        """Whether a step may be ended: the trial that a later one belongs to would be lost."""

    @property
    def used_s(self) -> float:
        """The seconds since the budget began."""
        return self._clock() - self._first_s

    @property
    def in_words(self) -> str:
        return f"budget of {duration_words(self._budget.seconds)}"

    def plans(self, plan: Plan) -> None:
        """Note that the run measures `plan`, a smaller one than before."""
        self._plan = plan

    def check(self) -> None:
        """Raise BudgetUsedError if the budget and its tolerance are used up; once, so that the run can be closed."""
        if self._may_end_a_step and self._exceeded_in(0.0):
            raise self._used_up("run the same command again, which needs no more downloads, or give a longer --budget")

    def check_queries(self) -> None:
        """Raise BudgetUsedError if a trial that ends with its last query lasts longer than the budget."""
        if self._plan.workload.runs_once and self._exceeded_in(0.0):
            raise self._used_up("give a longer --budget, or a smaller scale_factor")

    def has_room(self) -> bool:
        """Return whether something as long as a trial fits into the budget."""
        return self.used_s + self._trial_s() + ENDING_S <= self._budget.seconds

    @contextmanager
    def preparation(self) -> Iterator[None]:
        """Let the steps of the block be ended, which prepare a trial and may load a dataset."""
        self._load_began_s = None
        self._may_end_a_step = True
        try:
            yield
        finally:
            self._may_end_a_step = False

    def check_load(self, rows: int, per_s: float, left_s: float) -> None:
        """Raise LoadTooLongError if a load of `rows` in all, with `left_s` to go, would exceed the budget."""
        now_s = self._clock()
        if self._load_began_s is None:
            self._load_began_s = now_s
        whole_s = (1 + FINISH_SHARE) * rows / per_s if per_s > 0 else math.inf
        left_s += FINISH_SHARE / (1 + FINISH_SHARE) * whole_s
        # an arm without data could not be compared
        others = max(0, servers(self._plan) - len({server for server, _ in self._loaded}) - 1)
        has_rate = now_s - self._load_began_s >= FIRST_RATE_S
        if (
            not self._may_end_a_step
            or not has_rate
            or not self._exceeded_in(left_s + others * whole_s + self._trial_s())
        ):
            return
        self.is_used_up, self._may_end_a_step = True, False
        reason = Message(
            "budget-load-too-long",
            "loading would take about {load}, longer than the budget of {budget} allows",
            load=duration_words(round(whole_s)),
            budget=duration_words(self._budget.seconds),
        )
        raise LoadTooLongError(reason, whole_s, hint=self._what_would_do(whole_s))

    def _what_would_do(self, whole_s: float) -> str:
        points = self._plan.points()
        planned_s = loading_s(self._plan, points) / servers(self._plan)
        usual = self._budget.room.load_s_a_scale
        would_do = estimated_s(self._plan, points, usual)
        enough = ""
        if would_do is not None:
            more_s = servers(self._plan) * max(0.0, whole_s - planned_s)
            enough_s = self.used_s + would_do + more_s + ENDING_S
            enough = f", or give --budget {format_duration(10 * math.ceil(enough_s / 10))}"
        return f"run the same command again, which plans with the speed of this load{enough}"

    def _exceeded_in(self, seconds: float) -> bool:
        return self.used_s + seconds > (1 + MOST_OVERRUN) * self._budget.seconds

    def begins(self, trials: Sequence[PlannedTrial]) -> None:
        """Note the start of `trials`, which run at the same time. Raise BudgetUsedError if they do not fit."""
        self._may_end_a_step = False
        self._began_s = self._clock()
        if self._each_s and self._exceeded_in(self._needed_s(trials)):
            raise self._used_up("give a longer --budget")

    def _used_up(self, hint: str) -> BudgetUsedError:
        self.is_used_up, self._may_end_a_step = True, False
        budget = duration_words(self._budget.seconds)
        return BudgetUsedError(Message("budget-used-up", "the budget of {budget} is used up", budget=budget), hint=hint)

    def note_ended(self, records: Sequence[TrialRecord]) -> None:
        """Note what the trials that ran at the same time have taken."""
        loads_s = 0.0
        for record in records:
            steps = record.prepare.steps if record.prepare is not None else []
            dataset = record.server, self._plan.workload.data_at(record.point)
            # later loads belong to a reset that loads before every trial
            if dataset not in self._loaded:
                self._loaded[dataset] = math.fsum(step.seconds for step in steps if step.name == LOAD)
                loads_s += self._loaded[dataset]
        each_s = (self._clock() - self._began_s - loads_s) / len(records)
        self._each_s += [each_s] * len(records)
        self._estimated_s += [self._planned_s(record.point) for record in records]

    def select_fitting(self, todo: Sequence[PlannedTrial]) -> tuple[list[PlannedTrial], Message | None]:
        """Return the trials of `todo` whose points fit into the time that is left, and what was left out."""
        left_s = self._budget.seconds - ENDING_S - self.used_s
        if not self._each_s or self._with_pauses_s(todo) <= left_s:
            return list(todo), None
        kept = self._fitting_trials(todo, left_s)
        points, fewer = _points(todo), len(_points(kept))
        if not kept or fewer == len(points):
            # even one point does not fit: `begins` ends the run
            return list(todo), None
        self.is_used_up = True
        return kept, Message(
            "budget-dropped",
            "to fit the budget, pgdyno leaves out {count} of {points} points: {took}",
            count=len(points) - fewer,
            points=len(points),
            took=self._time_taken(),
        )

    def _time_taken(self) -> Message:
        trial = duration_words(round(self._plan.at_once * self._trial_s()))
        load_s = max(self._loaded.values(), default=0.0)
        if load_s < 1:
            return Message(
                "trial-takes",
                "a trial takes {trial} with its preparation"
                if self._plan.at_once == 1
                else "a pair of trials takes {trial} with its preparation",
                trial=trial,
            )
        return Message(
            "trial-and-load-take",
            "a trial takes {trial} with its preparation, a load up to {load}"
            if self._plan.at_once == 1
            else "a pair of trials takes {trial} with its preparation, a load up to {load}",
            trial=trial,
            load=duration_words(round(load_s)),
        )

    def _fitting_trials(self, todo: Sequence[PlannedTrial], left_s: float) -> list[PlannedTrial]:
        for count in range(len(_points(todo)) - 1, 0, -1):
            chosen = [load for point in thin_points(self._plan, count) for load in loads_of(self._plan, point)]
            kept = [trial for trial in todo if trial.point in chosen]
            if kept and self._with_pauses_s(kept) <= left_s:
                return kept
        # no other dataset can be loaded
        return [trial for trial in todo if self._data_of(trial) in self._loaded]

    def _trial_s(self) -> float:
        points = self._plan.points()
        return self._trials_s(points) / len(points)

    def _trials_s(self, points: Sequence[Point]) -> float:
        """Return the seconds of a trial at each of `points`, in proportion to those before if the queries decide."""
        planned_s = [self._planned_s(point) for point in points]
        if not self._each_s:
            return math.fsum(planned_s)
        if self._plan.workload.runs_once:
            return math.fsum(planned_s) * math.fsum(self._each_s) / math.fsum(self._estimated_s)
        mean_s = statistics.fmean(self._each_s)
        loads = [len(loads_of(self._plan, point)) if point.group is None else 1 for point in points]
        return math.fsum(max(count * mean_s, each_s) for count, each_s in zip(loads, planned_s, strict=True))

    def _planned_s(self, point: Point) -> float:
        return planned_s(self._plan, point) / self._plan.at_once

    def _with_pauses_s(self, todo: Sequence[PlannedTrial]) -> float:
        """Return the seconds of `todo` with the pause before each of them."""
        return self._needed_s(todo) + self._plan.trial.pause * math.ceil(len(todo) / self._plan.at_once)

    def _needed_s(self, todo: Sequence[PlannedTrial]) -> float:
        """Return the seconds of `todo`; datasets that are not loaded yet count in proportion to those that are."""
        per_scale = max((seconds / (scale or 1) for (_, (scale, _)), seconds in self._loaded.items()), default=0.0)
        new = {self._data_of(trial) for trial in todo} - self._loaded.keys()
        loads_s = math.fsum((scale or 1) * per_scale for _, (scale, _) in new)
        return self._trials_s([trial.point for trial in todo]) + loads_s

    def _data_of(self, trial: PlannedTrial) -> tuple[str, DataKey]:
        return trial.server, self._plan.workload.data_at(trial.point)


def _points(trials: Sequence[PlannedTrial]) -> list[str]:
    return list(dict.fromkeys(trial.point.model_dump_json() for trial in trials))
