"""A run within its budget: what does not fit is left out, ended or refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pgdyno.experiment.budget_left import BudgetLeft, BudgetUsedError, LoadTooLongError
from pgdyno.plan import Plan, PlannedTrial, planned_trials
from pgdyno.plan.time_budget.budget import Budget, Room
from pgdyno.plan.time_budget.time_and_disk import FILE, LOAD_S_A_SCALE, keep_load_rate, load_rate
from pgdyno.records import Preparation, PrepareStep
from tests.unit.store_sample import trial_record

GIB = 1024**3


def plan(versions: Sequence[str] = ("18",), **sweep: object) -> Plan:
    return Plan.model_validate(
        {
            "name": "x",
            "target": {f"pg{version}": {"kind": "embedded", "version": version} for version in versions},
            "workload": {"scripts": ["select-only"]},
            "sweep": {"clients": [1, 2, 4, 8, 16, 32]} | sweep,
            "trial": {"duration": "10s", "repeats": 2},
        }
    )


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def budget(of: Plan, seconds: float) -> Budget:
    return Budget(of, Room(seconds, 24 * GIB, 80 * GIB))


def measured(
    left: BudgetLeft, clock: Clock, trial: PlannedTrial, seconds: float, load_s: float = 0.0, *, loads: bool = True
) -> None:
    left.begins([trial])
    clock.now_s += seconds + load_s
    steps = [PrepareStep(name="load", seconds=load_s)] if loads else []
    prepared = Preparation(method="vacuum", seconds=load_s, steps=steps)
    told = {name: getattr(trial, name) for name in ("slug", "target", "point", "repeat")}
    left.ended([trial_record(trial.number, **told, prepare=prepared)])


def test_keeps_every_trial_while_they_fit() -> None:
    clock, of = Clock(), plan()
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 150), clock)
    assert left.fitting(trials) == (trials, None)
    measured(left, clock, trials[0], 11)
    assert left.fitting(trials[1:]) == (trials[1:], None)
    assert not left.is_used_up


def test_leaves_out_points_when_trials_take_longer() -> None:
    clock, of = Clock(), plan()
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 155), clock)
    measured(left, clock, trials[0], 25)
    kept, dropped = left.fitting(trials[1:])
    assert str(dropped) == "to fit the budget, pgdyno leaves out 3 of 6 points: a trial takes 25 s with its preparation"
    assert {1, 32} < {trial.point.clients for trial in kept}
    assert len(kept) == 5
    assert left.is_used_up


def test_pauses_between_trials_take_their_time() -> None:
    clock, of = Clock(), plan()
    of = of.model_copy(update={"trial": of.trial.model_copy(update={"pause": 30.0})})
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 200), clock)
    measured(left, clock, trials[0], 12)
    kept, dropped = left.fitting(trials[1:])
    assert dropped is not None
    # 12 s are over, and each of these takes 42 s
    assert len(kept) * 42 <= 188


def test_points_of_swept_groups_are_left_out_with_all_their_loads() -> None:
    groups = [{"name": "orders", "scripts": ["select-only"]}, {"name": "reports", "scripts": ["select-only"]}]
    table = {"name": "x", "target": {"pg18": {"kind": "embedded", "version": "18"}}}
    table |= {"trial": {"duration": "10s", "repeats": 2}}
    of = Plan.model_validate(table | {"group": groups, "sweep": {"group": {"reports.clients": [1, 2, 4, 8]}}})
    trials, clock = planned_trials(of), Clock()
    left = BudgetLeft(of, budget(of, 150), clock)
    measured(left, clock, trials[0], 40)
    kept, dropped = left.fitting(trials[2:])
    assert dropped is not None
    assert {each.point.group for each in kept} == {"orders", "reports"}
    assert 0 < len({each.point.groups["reports.clients"] for each in kept}) < 4


def test_a_load_that_took_long_leaves_out_other_scales() -> None:
    clock, of = Clock(), plan(clients=4, scale=[1, 10])
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 80), clock)
    measured(left, clock, trials[0], 10, load_s=20)
    kept, dropped = left.fitting(trials[1:])
    assert str(dropped) == (
        "to fit the budget, pgdyno leaves out 1 of 2 points: a trial takes 10 s with its preparation, a load up to 20 s"
    )
    assert dropped is not None
    expected = {"count": 1, "points": 2, "trial": "10 s", "load": "20 s", "took_id": "trial-and-load-take"}
    assert expected.items() <= dropped.parameters.items()
    assert {trial.point.scale for trial in kept} == {1}


def test_a_reset_that_loads_before_every_trial_counts_with_the_trials() -> None:
    clock, of = Clock(), plan()
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 155), clock)
    measured(left, clock, trials[0], 10, load_s=15)
    assert left.fitting(trials[1:])[1] is None
    measured(left, clock, trials[1], 10, load_s=15)
    assert left.fitting(trials[2:])[1] is not None


def test_ends_before_a_trial_that_would_overrun() -> None:
    clock, of = Clock(), plan(clients=4)
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 60), clock)
    measured(left, clock, trials[0], 55)
    with pytest.raises(BudgetUsedError, match=r"^the budget of 1 min is used up$"):
        left.begins(trials[1:])
    assert left.is_used_up


def test_ends_a_preparation_that_overruns_and_lets_the_run_be_closed() -> None:
    clock, of = Clock(), plan()
    left = BudgetLeft(of, budget(of, 60), clock)
    clock.now_s += 68
    left.check()
    clock.now_s += 2
    with pytest.raises(BudgetUsedError, match=r"^the budget of 1 min is used up$"):
        left.check()
    left.check()


def tpch(*streams: int) -> Plan:
    return Plan.model_validate(
        {
            "name": "x",
            "target": {"pg18": {"kind": "embedded", "version": "18"}},
            "workload": {"name": "tpch", "scale_factor": 0.1},
            "sweep": {"clients": list(streams)},
            "trial": {"repeats": 3, "order": "as-listed"},
        }
    )


def test_trials_of_tpch_take_as_long_as_the_first_in_proportion_to_their_streams() -> None:
    clock, of = Clock(), tpch(1, 20)
    trials = planned_trials(of)
    left = BudgetLeft(of, budget(of, 200), clock)
    measured(left, clock, trials[0], 10)
    kept, dropped = left.fitting(trials[1:])
    # five more with as many seconds would fit
    assert {trial.point.clients for trial in kept} == {1}
    assert dropped is not None
    # an estimate that was too long does not count any more
    left = BudgetLeft(of, budget(of, 200), clock)
    measured(left, clock, trials[0], 0.5)
    assert left.fitting(trials[1:]) == (trials[1:], None)


def test_a_trial_of_tpch_that_lasts_longer_than_the_budget_is_ended() -> None:
    clock, of = Clock(), tpch(1)
    left = BudgetLeft(of, budget(of, 60), clock)
    left.begins(planned_trials(of)[:1])
    clock.now_s += 68
    left.check_queries()
    clock.now_s += 2
    with pytest.raises(BudgetUsedError, match=r"^the budget of 1 min is used up$") as ended:
        left.check_queries()
    assert ended.value.hint == "give a longer --budget, or a smaller scale_factor"
    other = BudgetLeft(plan(), budget(plan(), 60), clock)
    clock.now_s += 100
    other.check_queries()


def test_the_steps_of_a_trial_that_is_measured_take_their_time() -> None:
    clock, of = Clock(), plan()
    left = BudgetLeft(of, budget(of, 60), clock)
    left.begins(planned_trials(of)[:1])
    with left.preparing():
        clock.now_s += 50
        left.check()
    clock.now_s += 100
    left.check()
    left.check_load(1000, 1.0, 900.0)
    with left.preparing(), pytest.raises(BudgetUsedError):
        left.check()


def test_a_load_that_fits_continues() -> None:
    clock, of = Clock(), plan()
    left = BudgetLeft(of, budget(of, 60), clock)
    with left.preparing():
        for second in range(20):
            clock.now_s += 1
            left.check_load(20_000, 1000.0, 19.0 - second)


def test_a_load_that_would_overrun_is_ended_with_a_budget_that_would_do() -> None:
    clock, of = Clock(), plan()
    left = BudgetLeft(of, budget(of, 60), clock)
    # the first second says little about the rate
    left.check_load(100_000, 1000.0, 100.0)
    clock.now_s += 2
    with pytest.raises(LoadTooLongError) as ended:
        left.check_load(100_000, 1000.0, 98.0)
    assert ended.value.message == "loading would take about 2 min 05 s, longer than the budget of 1 min allows"
    # 12 trials with what is between them, the load, and the start and the end of the run
    assert ended.value.hint == (
        "run the same command again, which plans with the speed of this load, or give --budget 4m40s"
    )
    assert ended.value.seconds == pytest.approx(125)


def test_the_loads_of_other_arms_count_too() -> None:
    for of, fits in ((plan(), True), (plan(["17", "18"]), False)):
        clock = Clock()
        left = BudgetLeft(of, budget(of, 60), clock)
        left.check_load(30_000, 1000.0, 30.0)
        clock.now_s += 2
        if fits:
            left.check_load(30_000, 1000.0, 28.0)
        else:
            with pytest.raises(LoadTooLongError):
                left.check_load(30_000, 1000.0, 28.0)


def test_the_rate_of_a_load_is_for_its_kind_of_target(tmp_path: Path) -> None:
    assert load_rate(tmp_path, ["embedded"], "pgbench") == LOAD_S_A_SCALE
    keep_load_rate(tmp_path, "embedded", "pgbench", 100, 50.0)
    keep_load_rate(tmp_path, "dsn", "pgbench", 100, 200.0)
    assert load_rate(tmp_path, ["embedded"], "pgbench") == 0.5
    assert load_rate(tmp_path, ["embedded", "dsn"], "pgbench") == 2.0
    assert load_rate(tmp_path, ["embedded"], "sbtest") == LOAD_S_A_SCALE


def test_a_short_load_says_nothing_about_the_rate(tmp_path: Path) -> None:
    keep_load_rate(tmp_path, "embedded", "pgbench", 1, 2.0)
    assert load_rate(tmp_path, ["embedded"], "pgbench") == LOAD_S_A_SCALE


@pytest.mark.parametrize("content", ["", "[]", '{"pgbench into embedded": "fast"}', '{"pgbench into embedded": NaN}'])
def test_a_damaged_file_of_rates_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    assert load_rate(tmp_path, ["embedded"], "pgbench") == LOAD_S_A_SCALE
    keep_load_rate(tmp_path, "embedded", "pgbench", 100, 50.0)
    assert load_rate(tmp_path, ["embedded"], "pgbench") == 0.5


def test_the_loads_of_a_place_share_its_time() -> None:
    of, clock = steps(), Clock()
    left = BudgetLeft(of, budget(of, 100), clock)
    first, second, *later = planned_trials(of)
    measured(left, clock, first, 10)
    measured(left, clock, second, 10)
    # two more places of 20 s each
    assert left.has_room()
    left.begins(later)
    clock.now_s += 60
    assert not left.has_room()
    with pytest.raises(BudgetUsedError):
        left.begins(later)


def steps() -> Plan:
    return Plan.model_validate(
        {
            "name": "x",
            "target": {"a": {"kind": "embedded", "version": "18"}},
            "workload": {},
            "group": [{"name": "one", "scripts": ["select-only"]}, {"name": "other", "scripts": ["simple-update"]}],
            "step": [{"name": "both", "groups": ["one", "other"], "duration": "20s"}],
            "trial": {"repeats": 3},
        }
    )
