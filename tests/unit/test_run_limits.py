"""Limits of a run: what does not fit its budget is left out, ended or refused, and it stops before a disk is full."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, StopRunError
from pgdyno.experiment.limits.budget_left import BudgetLeft, BudgetUsedError, LoadTooLongError
from pgdyno.experiment.limits.disk_guard import DiskGuard
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial, planned_trials
from pgdyno.plan.time_budget.budget import Budget, Room
from pgdyno.plan.time_budget.time_and_disk import FILE, LOAD_S_A_SCALE, keep_load_rate, load_rate
from pgdyno.records import Preparation, PrepareStep
from pgdyno.units import parse_bytes
from tests.unit.store_sample import trial_record

GIB = 1024**3


def plan(**sections: object) -> Plan:
    document: dict[str, object] = {
        "name": "x",
        "target": {"pg18": {"kind": "embedded", "version": "18"}},
        "workload": {"scripts": ["select-only"]},
        "sweep": {"clients": [1, 2, 4, 8, 16, 32]},
        "trial": {"duration": "10s", "repeats": 2},
    }
    return Plan.model_validate(document | sections)


class Run:
    """A run within a budget, whose trials take the time that a test says."""

    def __init__(self, of: Plan, seconds: float) -> None:
        self.now_s = 100.0
        self.trials = planned_trials(of)
        self.left = BudgetLeft(of, Budget(of, Room(seconds, 24 * GIB, 80 * GIB)), lambda: self.now_s)

    def measure(self, seconds: float, load_s: float = 0.0) -> tuple[list[PlannedTrial], Message | None]:
        """Runs the next trial; returns which of the others fit, and what is said of those that do not."""
        trial = self.trials.pop(0)
        self.left.begins([trial])
        self.now_s += seconds + load_s
        prepared = Preparation(method="vacuum", seconds=load_s, steps=[PrepareStep(name="load", seconds=load_s)])
        told = {name: getattr(trial, name) for name in ("slug", "target", "point", "repeat")}
        self.left.note_ended([trial_record(trial.number, **told, prepare=prepared)])
        return self.left.select_fitting(self.trials)

    def end_by(self, step: Callable[[], None], *fine_s: float, late_s: float) -> BudgetUsedError:
        """Takes `step` after each of these times; it raises after the last."""
        for seconds in fine_s:
            self.now_s += seconds
            step()
        self.now_s += late_s
        with pytest.raises(BudgetUsedError, match=r"^the budget of 1 min is used up$") as ended:
            step()
        return ended.value


def test_points_are_left_out_with_all_their_loads_when_trials_take_longer() -> None:
    run = Run(plan(), 150)
    assert run.left.select_fitting(run.trials) == (run.trials, None)
    assert run.measure(11) == (run.trials, None)
    assert not run.left.is_used_up
    run = Run(plan(), 155)
    kept, dropped = run.measure(25)
    assert str(dropped) == "to fit the budget, pgdyno leaves out 3 of 6 points: a trial takes 25 s with its preparation"
    assert {1, 32} < {trial.point.clients for trial in kept}
    assert len(kept) == 5
    assert run.left.is_used_up
    # pauses between trials take their time
    of = plan()
    kept, dropped = Run(of.model_copy(update={"trial": of.trial.model_copy(update={"pause": 30.0})}), 200).measure(12)
    assert dropped is not None
    # 12 s are over, and each of these takes 42 s
    assert len(kept) * 42 <= 188
    # swept groups
    groups = [{"name": "orders", "scripts": ["select-only"]}, {"name": "reports", "scripts": ["select-only"]}]
    run = Run(plan(group=groups, workload={}, sweep={"group": {"reports.clients": [1, 2, 4, 8]}}), 150)
    run.trials.pop(1)
    kept, dropped = run.measure(40)
    assert dropped is not None
    assert {each.point.group for each in kept} == {"orders", "reports"}
    assert 0 < len({each.point.groups["reports.clients"] for each in kept}) < 4


def test_loads_leave_out_other_scales_and_count_with_the_trials_if_they_come_before_each() -> None:
    kept, dropped = Run(plan(sweep={"clients": 4, "scale": [1, 10]}), 80).measure(10, load_s=20)
    assert str(dropped) == (
        "to fit the budget, pgdyno leaves out 1 of 2 points: a trial takes 10 s with its preparation, a load up to 20 s"
    )
    assert dropped is not None
    expected = {"count": 1, "points": 2, "trial": "10 s", "load": "20 s", "took_id": "trial-and-load-take"}
    assert expected.items() <= dropped.parameters.items()
    assert {trial.point.scale for trial in kept} == {1}
    run = Run(plan(), 155)
    assert run.measure(10, load_s=15)[1] is None
    assert run.measure(10, load_s=15)[1] is not None


def test_ends_what_would_overrun_but_for_steps_of_a_trial_that_is_measured() -> None:
    run = Run(plan(sweep={"clients": 4}), 60)
    run.measure(55)
    run.end_by(lambda: run.left.begins(run.trials), late_s=0)
    assert run.left.is_used_up
    preparing = Run(plan(), 60)
    preparing.end_by(preparing.left.check, 68, late_s=2)
    preparing.left.check()
    run = Run(plan(), 60)
    left = run.left
    left.begins(run.trials[:1])
    with left.preparation():
        run.now_s += 50
        left.check()
    run.now_s += 100
    left.check()
    left.check_load(1000, 1.0, 900.0)
    with left.preparation(), pytest.raises(BudgetUsedError):
        left.check()


def tpch(*streams: int) -> Plan:
    workload = {"name": "tpch", "scale_factor": 0.1}
    return plan(workload=workload, sweep={"clients": list(streams)}, trial={"repeats": 3, "order": "as-listed"})


def test_trials_of_tpch_take_as_long_as_the_first_and_end_with_the_budget() -> None:
    kept, dropped = Run(tpch(1, 20), 200).measure(10)
    # five more with as many seconds would fit
    assert {trial.point.clients for trial in kept} == {1}
    assert dropped is not None
    # an estimate that was too long does not count any more
    short = Run(tpch(1, 20), 200)
    assert short.measure(0.5) == (short.trials, None)
    run = Run(tpch(1), 60)
    run.left.begins(run.trials[:1])
    ended = run.end_by(run.left.check_queries, 68, late_s=2)
    assert ended.hint == "give a longer --budget, or a smaller scale_factor"
    other = Run(plan(), 60)
    other.now_s += 100
    other.left.check_queries()


def test_a_load_continues_unless_it_would_overrun_with_those_of_other_arms() -> None:
    run = Run(plan(), 60)
    with run.left.preparation():
        for second in range(20):
            run.now_s += 1
            run.left.check_load(20_000, 1000.0, 19.0 - second)
    run = Run(plan(), 60)
    # the first second says little about the rate
    run.left.check_load(100_000, 1000.0, 100.0)
    run.now_s += 2
    with pytest.raises(LoadTooLongError) as ended:
        run.left.check_load(100_000, 1000.0, 98.0)
    assert ended.value.message == "loading would take about 2 min 05 s, longer than the budget of 1 min allows"
    # 12 trials with what is between them, the load, and the start and the end of the run
    assert ended.value.hint == (
        "run the same command again, which plans with the speed of this load, or give --budget 4m40s"
    )
    assert ended.value.seconds == pytest.approx(125)
    for versions, fits in ((["18"], True), (["17", "18"], False)):
        run = Run(plan(target={each: {"kind": "embedded", "version": each} for each in versions}), 60)
        run.left.check_load(30_000, 1000.0, 30.0)
        run.now_s += 2
        with contextlib.nullcontext() if fits else pytest.raises(LoadTooLongError):
            run.left.check_load(30_000, 1000.0, 28.0)


def test_the_rate_of_a_load_is_for_its_kind_of_target(tmp_path: Path) -> None:
    assert load_rate(tmp_path, ["embedded"], "pgbench") == LOAD_S_A_SCALE
    keep_load_rate(tmp_path, "embedded", "pgbench", 100, 50.0)
    keep_load_rate(tmp_path, "dsn", "pgbench", 100, 200.0)
    assert load_rate(tmp_path, ["embedded"], "pgbench") == 0.5
    assert load_rate(tmp_path, ["embedded", "dsn"], "pgbench") == 2.0
    assert load_rate(tmp_path, ["embedded"], "sbtest") == LOAD_S_A_SCALE
    # a short load says nothing about the rate
    keep_load_rate(tmp_path, "embedded", "sbtest", 1, 2.0)
    assert load_rate(tmp_path, ["embedded"], "sbtest") == LOAD_S_A_SCALE
    for content in ("", "[]", '{"pgbench into embedded": "fast"}', '{"pgbench into embedded": NaN}'):
        (tmp_path / FILE).write_text(content)
        assert load_rate(tmp_path, ["embedded"], "pgbench") == LOAD_S_A_SCALE
        keep_load_rate(tmp_path, "embedded", "pgbench", 100, 50.0)
        assert load_rate(tmp_path, ["embedded"], "pgbench") == 0.5


def test_the_loads_of_a_place_share_its_time() -> None:
    groups = [{"name": "one", "scripts": ["select-only"]}, {"name": "other", "scripts": ["simple-update"]}]
    step = {"name": "both", "groups": ["one", "other"], "duration": "20s"}
    run = Run(plan(workload={}, sweep={}, group=groups, step=[step], trial={"repeats": 3}), 100)
    run.measure(10)
    run.measure(10)
    # two more places of 20 s each
    assert run.left.has_room()
    run.left.begins(run.trials)
    run.now_s += 60
    assert not run.left.has_room()
    with pytest.raises(BudgetUsedError):
        run.left.begins(run.trials)


# ---- space on disks ----

GB = 1 << 30


class Disk:
    def __init__(self) -> None:
        self.free, self.now = 9 * GB, 0.0
        self.asked: list[Path] = []

    def left(self, path: Path) -> int:
        self.asked.append(path)
        return self.free

    def guard(self, limit: str | None) -> DiskGuard:
        return DiskGuard(limit, free=self.left, clock=lambda: self.now)


def test_the_guard_stops_the_run_and_names_disk_and_space(tmp_path: Path) -> None:
    disk = Disk()
    guard, unlimited = disk.guard("8GB"), disk.guard(None)
    for each in (guard, unlimited):
        each.watch("the run's folder", tmp_path)
        each.check()
    disk.free, disk.now = 7 * GB, 2.0
    unlimited.check()
    assert disk.asked == [tmp_path]
    with pytest.raises(StopRunError) as caught:
        guard.check()
    assert caught.value.exit_code is ExitCode.STOPPED
    assert caught.value.message == (
        f"only 7.0 GiB is free at {tmp_path}, where the run's folder is; the plan's min_free_disk is 8GB"
    )


def test_the_guard_checks_each_file_system_once_a_second(tmp_path: Path) -> None:
    disk = Disk()
    guard = disk.guard("8GB")
    cluster = tmp_path / "data"
    (cluster / "pg_tblspc").mkdir(parents=True)
    (cluster / "pg_wal").symlink_to("/proc")
    (cluster / "pg_tblspc" / "16384").symlink_to("/sys")
    guard.watch("the run's folder", tmp_path)
    guard.watch_cluster("pg18", cluster)
    guard.watch("what is not there", tmp_path / "nowhere")
    for disk.now in (0.0, 0.1, 0.9, 1.0, 1.5, 2.0):
        guard.check()
    # the cluster's own file system is the run's
    assert disk.asked == [tmp_path, cluster / "pg_wal", cluster / "pg_tblspc" / "16384"] * 3


def test_sizes_have_postgresqls_units() -> None:
    counts = {"1B": 1, "8kB": 8192, "512MB": 512 << 20, "1.5GB": 3 << 29, " 2 TB ": 2 << 40}
    assert {text: parse_bytes(text) for text in counts} == counts
    for text in ("", "5", "GB", "5 gb", "-1GB", "1GBs"):
        with pytest.raises(ValueError, match="is not a size"):
            parse_bytes(text)
