"""What an operation costs: its trial, its undoing, the comparison with trials without it, and its plan."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdyno.analyse.over_time.event_parts import EventPart
from pgdyno.analyse.over_time.impact import Impact, impact_of
from pgdyno.errors import PlanError, TargetError, UsageError
from pgdyno.plan.ab_plan import Question, in_options
from pgdyno.plan.impact_plan import Operation, impact_plan
from pgdyno.plan.loaded_plan import load_text
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventEffect, EventOutcome, EventRecord, Failure, Point, Stage, TrialRecord
from pgdyno.report.answers.loads.impact import impact_text, operation_name
from pgdyno.run.event_injection import Cutoff, Injector, Operations, failure_of_events
from pgdyno.run.load_level import LevelBefore, Second, is_steady
from pgdyno.targets.operations import backup
from pgdyno.targets.operations.backup import backup_command
from tests.present import present
from tests.unit.store_sample import trial_record
from tests.unit.test_run_events import begin, settled
from tests.waiting import wait_until

# ---- the trial ----


def index(**more: Any) -> EventSpec:  # noqa: ANN401 - any field
    do = {"sql": "CREATE INDEX CONCURRENTLY i ON t (a)"}
    return EventSpec.model_validate({"at": "0s", "do": do, "undo": "DROP INDEX i", **more})


def refuse(_event: EventSpec, _cutoff: Cutoff) -> None:
    raise TargetError("relation t does not exist (42P01)")


def run_until_cut(_event: EventSpec, cutoff: Cutoff) -> None:
    cutoff.wait(600)
    raise TargetError("canceling statement due to user request (57014)")


class Executed:
    """An injector of one operation that has begun, and what was executed: the operation, and its undoing."""

    def __init__(
        self,
        event: EventSpec,
        fail: Callable[[EventSpec, Cutoff], None] | None = None,
        **operations: Any,  # noqa: ANN401 - fields of Operations
    ) -> None:
        self.came: list[str] = []

        def act(event: EventSpec, cutoff: Cutoff) -> None:
            self.came.append(event.name)
            if fail is not None:
                fail(event, cutoff)

        def undo(event: EventSpec, _cutoff: Cutoff) -> None:
            self.came.append(str(event.undo))

        self.injector = Injector([event], act, Operations(**{"undo": undo, **operations}))

    @contextmanager
    def begun(self) -> Iterator[Injector]:
        with self.injector:
            begin(self.injector)
            yield self.injector

    def settle(self) -> Failure | None:
        with self.begun() as injector:
            wait_until(lambda: settled(injector))
        return failure_of_events(self.injector.records, self.injector.left)


def test_an_operation_is_undone_also_after_it_failed_or_was_interrupted() -> None:
    for fail in (None, refuse):
        executed = Executed(index(), fail)
        with executed.begun() as injector:
            wait_until(lambda: settled(injector))
            assert executed.came == ["sql"]
            injector.finish()
        assert executed.came == ["sql", "DROP INDEX i"]
        assert (failure_of_events(injector.records, injector.left) is None) == (fail is None)
    executed = Executed(index(), run_until_cut)

    def interrupt() -> None:
        with executed.begun():
            wait_until(lambda: executed.came == ["sql"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert executed.came == ["sql", "DROP INDEX i"]
    assert executed.injector.records[0].outcome is EventOutcome.UNFINISHED


def test_an_operation_without_an_end_or_without_its_undoing_fails_the_trial() -> None:
    failure = present(Executed(index(limit="100ms"), run_until_cut).settle())
    assert failure.message.endswith("failed: canceled after 0.1s, its limit")
    indexes = [set[str](), {"public.i"}]
    executed = Executed(index(), undo=refuse, invalid_indexes=lambda: indexes.pop(0))
    failure = present(executed.settle())
    assert [each.split(",")[0] for each in executed.injector.left] == ["what sql did", "INVALID index public.i"]
    assert (failure.id, failure.stage) == ("undo-failed", Stage.RUN)


def test_a_control_waits_and_executes_the_operation_after_the_load() -> None:
    executed = Executed(index(control="operation"), waits_s={0: 0.05})
    with executed.begun() as injector:
        wait_until(lambda: settled(injector))
        assert executed.came == []
        injector.finish()
    (record,) = injector.records
    assert executed.came == ["sql", "DROP INDEX i"]
    assert record.is_control
    assert present(record.seconds) >= 0.05
    assert present(record.alone_s) < 60


def second(at: int, succeeded: int, latency_ms: float) -> Second:
    return Second(at * 1_000_000, (at + 1) * 1_000_000, True, succeeded, 0, 0, round(succeeded * latency_ms * 1e6))


def test_a_load_is_steady_and_as_before_by_several_seconds() -> None:
    calm = [second(at, 100, 5) for at in range(10)]
    assert is_steady(calm)
    assert not is_steady(calm[:9])
    assert not is_steady([*calm[:5], *(second(at, 100, 9) for at in range(5, 10))])
    assert not is_steady([*calm[:5], *(second(at, 50, 5) for at in range(5, 10))])
    during = [second(at, 100, 50) for at in range(10, 14)]
    after = [*calm, *during, *(second(at, 100, 6) for at in range(14, 17))]
    for is_open, last in ((True, 14_000_000), (False, 10_000_000)):
        before = LevelBefore.from_events(calm, is_open=is_open)
        assert before.reached_us(after[:16], 10_000_000) == (None if is_open else last)
        assert before.reached_us(after, 10_000_000) == last


def test_a_load_ends_when_it_is_as_before() -> None:
    with Executed(index(), until_recovered=True).begun() as injector:
        start = present(injector._start)
        start["rate_per_s"] = 100
        assert not injector.is_over
        for at in range(14):
            if at == 10:
                wait_until(lambda: settled(injector))
                injector.records[0] = injector.records[0].model_copy(update={"began_s": 10.0, "seconds": 0.5})
                wait_until(lambda: not injector._threads[0].is_alive())
            assert not injector.is_over
            latency = {"sum": 100 * 5_000_000}
            span = {"from_us": at * 1_000_000, "to_us": (at + 1) * 1_000_000, "phase": "measure"}
            injector.handle(
                {"event": "interval", **span, "scripts": [{"succeeded": 100, "failed": 0, "latency_ns": latency}]}
            )
        assert injector.is_over


def test_a_backup_needs_a_program_of_the_server_s_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_DEBIAN", tmp_path / "debian")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for name, major in (("path", 16), ("debian/17/bin", 17)):
        (tmp_path / name).mkdir(parents=True)
        program = tmp_path / name / "pg_basebackup"
        program.write_text(f"#!/bin/sh\necho 'pg_basebackup (PostgreSQL) {major}.4'\n")
        program.chmod(0o755)
    assert backup_command(160_004, tmp_path / "to", "32M", [])[0].endswith("debian/17/bin/pg_basebackup")
    assert backup_command(160_004, tmp_path / "to", "32M", [tmp_path / "path"])[-1] == "--max-rate=32M"
    with pytest.raises(TargetError, match="there is no pg_basebackup of PostgreSQL 18 or later") as caught:
        backup_command(180_001, tmp_path / "to", None, [tmp_path / "path"])
    assert "postgresql-client-18" in present(caught.value.hint)


# ---- the comparison ----


def trial(number: int, *, control: bool, recovered: float | None = 0.4) -> TrialRecord:
    none = dict.fromkeys(("nobody_served_s", "failed", "lost", "connections_lost", "all_away_s", "recovered_s"), 0)
    figures = {**none, "first_success_s": None, "before_tps": 300, "lowest_tps": 300, "as_before_s": recovered}
    effect = EventEffect.model_validate(figures)
    event = EventRecord(
        number=1, do="sql", command="create index concurrently i on t (a)", at_s=10, began_s=10, seconds=40 + number,
        outcome=EventOutcome.DONE, effect=effect, is_control=control, alone_s=33 if control else None,
    )  # fmt: skip
    point = Point(clients=8, rate=300)
    return trial_record(number, point=point, repeat=(number + 1) // 2, duration_s=100, events=[event])


def part(of: TrialRecord, name: str, p99_ms: float, stall_s: float) -> EventPart:
    p99_ns = round(p99_ms * 1e6)
    return EventPart(of.events[0], name, 0, 10, 300, p99_ns // 3, p99_ns, 0, stall_s, "Lock:relation", 1e6, None)


def impact(figures: list[tuple[float, float, float]], *, recovered: float | None = 0.4) -> Impact | None:
    """With p99 during the operation in each pair, with it and without it, and the stall with it; before, it is 6 ms."""
    trials, parts = [], {}
    for at, (with_ms, without_ms, stall_s) in enumerate(figures):
        for control, ms, stall in ((False, with_ms, stall_s), (True, without_ms, 0.1)):
            trials.append(trial(2 * at + 1 + control, control=control, recovered=recovered))
            parts[trials[-1].number] = [part(trials[-1], "before", 6, 0), part(trials[-1], "during", ms, stall)]
    return impact_of(trials, parts)


def test_a_cost_is_claimed_if_the_pairs_show_it() -> None:
    found = present(impact([(18, 6, 1.2), (19, 6.2, 1.1), (21, 5.9, 1.3)], recovered=3))
    assert impact_text(found) == (
        "CREATE INDEX CONCURRENTLY takes 43 s under load (33 s without); p99 6.00 to 19.0 ms meanwhile; "
        "longest stall 1.2 s (Lock:relation); as before after 3.0 s; n = 3"
    )
    interval = present(present(found.chief).interval)
    assert interval.low < interval.mean < interval.high
    found = present(impact([(18, 17, 0.1), (6, 6.5, 1.1), (7, 9, 0.05)]))
    assert "p99 not shown to change (6.00 to 7.00 ms); no longer stall than without it; as before at once" in (
        impact_text(found)
    )
    assert not present(found.chief).is_shown
    found = present(impact([(18, 6, 1.2)], recovered=None))
    assert "meanwhile, >1 repeats needed; " in impact_text(found)
    assert "; not as before by the end of the load; n = 1" in impact_text(found)
    assert impact([]) is None
    lonely = trial(1, control=False)
    assert impact_of([lonely], {1: [part(lonely, "during", 6, 0)]}) is None


def test_an_operation_has_a_short_name() -> None:
    for do, command, name in (
        ("backup", None, "pg_basebackup"),
        ("vacuum", None, "VACUUM"),
        ("sql", "VACUUM (FULL, ANALYZE) t", "VACUUM"),
        ("sql", "reindex index concurrently i;", "REINDEX INDEX CONCURRENTLY"),
        ("sql", "SELECT  pg_sleep(5)", "SELECT pg_sleep(5)"),
        ("sql", f"UPDATE t SET a = {'1 + ' * 20} 1", "UPDATE t SET a = 1 + 1 + 1 + 1 + 1 + 1 …"),
        ("command", "sync", "sync"),
    ):
        event = trial(1, control=False).events[0].model_copy(update={"do": do, "command": command})
        assert operation_name(event) == name


# ---- the plan ----


def load(tmp_path: Path, operation: Operation, **asked: Any) -> Any:  # noqa: ANN401 - any plan
    return load_text(impact_plan(Question(**asked), operation, tmp_path), tmp_path, "impact").plan


def test_the_plan_alternates_trials_with_the_operation_and_without(tmp_path: Path) -> None:
    operation = Operation("CREATE INDEX i ON pgbench_accounts (bid)", "DROP INDEX i", limit="20m", repeats=2)
    plan = load(tmp_path, operation, versions=["18"], settings=["work_mem=4MB"], rate=300.0)
    (event,) = plan.event
    assert [event.is_control(point) for point in plan.points()] == [False, True]
    assert (event.sql, event.undo, event.limit) == (operation.do, operation.undo, 1200)
    assert (plan.trial.until, plan.trial.most_repeats, plan.trial.duration > 1200) == ("recovered", 2, True)
    assert plan.target["pg18"].settings["work_mem"] == "4MB"
    (tmp_path / "made.sql").write_text("CREATE TABLE t (a int);")
    (tmp_path / "q.sql").write_text("SELECT 1;")
    script = str(tmp_path / "q.sql")
    own = load(
        tmp_path, Operation("backup", max_rate="32M", setup=tmp_path / "made.sql"), versions=["18"], scripts=[script]
    )
    assert (own.event[0].name, own.event[0].max_rate, own.workload.own_data.sql) == ("backup", "32M", ["made.sql"])


V18 = {"versions": ["18"]}


def test_mistakes_are_those_of_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for operation, asked, words in (
        (Operation("VACUUM"), {"versions": ["17", "18"]}, "several servers"),
        (Operation("VACUUM"), {**V18, "settings": ["work_mem=1MB,2MB"]}, "several servers or values"),
        (Operation("VACUUM", limit="soon"), V18, "--limit: "),
        (Operation("SELECT 'a"), V18, "--do: SQL:1: ' is not closed"),
        (Operation("none.sql"), V18, "--do: none.sql: cannot read"),
        (Operation("VACUUM", "DROP 'i"), V18, "--undo: SQL:1: "),
        (Operation("VACUUM", max_rate="32M"), V18, "--max-rate: applies to a backup"),
        (Operation("backup", max_rate="fast"), V18, "--max-rate: "),
        (Operation("VACUUM", setup=Path("x.sql")), {"dsn": ["dbname=a"], "scripts": ["q.sql"]}, "--setup applies to"),
        (Operation("VACUUM", setup=Path("x.sql")), {**V18, "scale": 3}, "--scale is the size"),
        (Operation("VACUUM"), {}, "no server to measure"),
        (Operation("VACUUM"), {"dsn": ["dbname=a"]}, "no --script"),
    ):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "q.sql").write_text("SELECT 1;")
        with pytest.raises((UsageError, PlanError)) as caught:
            load(tmp_path, operation, **asked)
        error = in_options(caught.value) if isinstance(caught.value, PlanError) else caught.value
        assert words in present(error).message


def test_keys_of_operations_are_checked(tmp_path: Path) -> None:
    for key, lines, words in (
        ("trial.until", 'duration = "5s"\nuntil = "recovered"', "needs an event"),
        ("event[0].control", 'duration = "9s"\n[[event]]\nat = "1s"\ndo = "vacuum"\ncontrol = "o"', "o is no"),
        ("event[0].do", 'duration = "9s"\n[[event]]\nat = "1s"\ndo = { sql = "" }', "write statements"),
        ("trial.until", 'transactions = 5\nuntil = "recovered"\n[[event]]\nat = "1s"\ndo = "backup"',
         "cannot be combined with transactions"),
    ):  # fmt: skip
        head = 'name = "a"\n[target.a]\nkind = "embedded"\nversion = "18"\n[workload]\nscripts = ["select-only"]\n'
        with pytest.raises(PlanError) as caught:
            load_text(f"{head}[sweep]\nclients = 1\n[trial]\n{lines}\n", tmp_path, "a")
        assert any(each.path == key and words in f"{each.message} {each.hint}" for each in caught.value.problems)
