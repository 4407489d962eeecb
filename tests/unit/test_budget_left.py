"""A run within its budget: pgdyno leaves points out when trials take longer than planned."""

from __future__ import annotations

from datetime import UTC, datetime

from pgdyno.experiment.limits.budget_left import BudgetLeft
from pgdyno.plan import Plan, PlannedTrial, planned_trials
from pgdyno.plan.reading.read_plan import Budget
from pgdyno.records import Outcome, Preparation, PrepareStep, TrialRecord


def plan(**sweep: object) -> Plan:
    return Plan.model_validate(
        {
            "name": "x",
            "target": {"pg": {"kind": "embedded", "version": "18"}},
            "workload": {"scripts": ["select-only"]},
            "sweep": {"clients": [1, 2, 4, 8, 16, 32]} | sweep,
            "trial": {"duration": "10s", "repeats": 2},
        }
    )


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def measured(left: BudgetLeft, clock: Clock, trial: PlannedTrial, seconds: float, load_s: float = 0.0) -> None:
    assert left.begins() is None
    clock.now_s += seconds + load_s
    steps = [PrepareStep(name="load", seconds=load_s)]
    left.ended(
        [
            TrialRecord(
                number=trial.number,
                slug=trial.slug,
                target=trial.target,
                point=trial.point,
                repeat=trial.repeat,
                started_at=datetime.now(UTC),
                ended_at=datetime.now(UTC),
                warmup_s=0,
                duration_s=10,
                transactions=None,
                outcome=Outcome.FINISHED,
                prepare=Preparation(method="vacuum", seconds=load_s, steps=steps),
            )
        ]
    )


def test_keeps_every_trial_while_they_fit() -> None:
    clock, of = Clock(), plan()
    trials = planned_trials(of)
    left = BudgetLeft(of, Budget(150, clock.now_s), clock)
    assert left.fitting(trials) == (trials, None)
    measured(left, clock, trials[0], 11)
    assert left.fitting(trials[1:]) == (trials[1:], None)


def test_leaves_out_points_when_trials_take_longer() -> None:
    clock, of = Clock(), plan()
    trials = planned_trials(of)
    left = BudgetLeft(of, Budget(150, clock.now_s), clock)
    measured(left, clock, trials[0], 25)
    kept, dropped = left.fitting(trials[1:])
    assert dropped == "for the budget, 3 of 6 points are left out: a trial takes 25s with its preparation"
    assert {1, 32} < {trial.point.clients for trial in kept}
    assert len(kept) == 5


def test_a_load_that_took_long_leaves_out_other_scales() -> None:
    clock, of = Clock(), plan(clients=4, scale=[1, 10])
    trials = planned_trials(of)
    left = BudgetLeft(of, Budget(80, clock.now_s), clock)
    measured(left, clock, trials[0], 10, load_s=20)
    kept, dropped = left.fitting(trials[1:])
    assert dropped == (
        "for the budget, 1 of 2 points is left out: a trial takes 10s with its preparation, a load up to 20s"
    )
    assert {trial.point.scale for trial in kept} == {1}


def test_ends_before_a_trial_that_would_overrun() -> None:
    clock, of = Clock(), plan(clients=4)
    trials = planned_trials(of)
    left = BudgetLeft(of, Budget(60, clock.now_s), clock)
    measured(left, clock, trials[0], 55)
    assert left.begins() == "the budget of 1m00s is used up"
