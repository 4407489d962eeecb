"""Groups of clients and steps on a real server: beside each other, one after the other, and cut off."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.processors import own_halves
from pgdyno.records import FailureId, Outcome
from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Home
from tests.postgres.runs import Hold, engines, fast_plan, pgdyno, postmasters, run_plan_text, running, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

PLAN = """\
name = "mixed"
[target.a]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "16MB" }
[workload]
scale = 1
[[group]]
name = "reports"
scripts = ["select-only"]
begin = "1s"
protocol = "prepared"
[[group]]
name = "orders"
scripts = ["simple-update"]
clients = 2
rate = 100
[[group]]
name = "sleepers"
idle = 20
"""
TRIAL = """
[trial]
warmup = "1s"
duration = "2s"
[[event]]
at = "500ms"
do = "checkpoint"
"""
BACKGROUND = """
[[group]]
name = "readers"
scripts = ["read.sql"]
clients = 3
rate = 90
background = true
"""
STEPS = """
[[step]]
name = "fill"
groups = ["orders"]
until = { transactions = 40 }
[[step]]
name = "write"
do = "checkpoint"
[[step]]
name = "index"
sql = "index.sql"
[[step]]
name = "settle"
do = "vacuum"
[[step]]
name = "both"
groups = [{ name = "orders", rate = 50 }, "reports", "sleepers"]
duration = "2s"
[[step]]
name = "calm"
wait = "vacuum"
"""


def run(home: Home, folder: Path, text: str) -> tuple[RunFolder, str]:
    done = run_plan_text(home, folder, PLAN + text)
    assert done.returncode in (ExitCode.OK, ExitCode.TRIALS_FAILED), done.stderr
    return the_run(folder), done.stdout + done.stderr


def test_groups_run_beside_each_other(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT count(*) FROM pgbench_branches;\n")
    folder, said = run(warm_home, tmp_path, BACKGROUND + TRIAL)
    reports, orders = folder.trials()
    assert (orders.outcome, orders.beside, reports.beside) == (Outcome.FINISHED, [1], [2])
    assert (orders.duration_s, reports.duration_s) == (2, 1)
    assert (reports.point.protocol, reports.point.group) == ("prepared", "reports")
    assert "beside reports" in said
    stored = load_run(folder.path)
    began = []
    for trial in folder.trials():
        details = {row.kind: json.loads(row.detail) for row in stored.events(trial.number)}
        began.append(details["start"]["epoch_us"] + details["connected"]["origin_us"])
    # a second of warm-up, and one of measuring
    assert began[0] - began[1] == pytest.approx(2e6, abs=1e3)
    # in timelines, both are on the clock of the plan's times
    assert [stored.seconds(trial.number).from_us[0] for trial in (reports, orders)] == [1e6, -1e6]
    assert reports.events == []
    assert orders.events[0].began_s == pytest.approx(0.5, abs=0.2)
    assert "checkpoint at 0.5" in said
    # the probe samples their common server once; it sees the clients that only stay connected
    assert orders.probe is not None
    assert reports.probe is None
    sessions = "SELECT max(value) FROM series WHERE source = 'database' AND metric = 'backends'"
    assert stored.query(sessions).rows[0][0] >= 2 + 1 + 20 + 3
    # an idle session executes nothing
    assert present(orders.summary).succeeded == pytest.approx(200, rel=0.5)
    # a load in the background has figures and no trial
    sleepers, readers = orders.background
    assert [(each.name, each.clients) for each in (sleepers, readers)] == [("sleepers", 20), ("readers", 3)]
    assert (sleepers.succeeded, reports.background) == (0, [])
    assert readers.tps == pytest.approx(90, rel=0.4)
    assert "Loads in the background of each trial" in said
    assert "read.sql" in [each.name for each in present(folder.manifest.scripts)]


def test_steps_keep_their_state(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "index.sql").write_text("CREATE INDEX :name ON pgbench_history (aid);\n")
    folder, _ = run(warm_home, tmp_path, STEPS + '[workload.variables]\nname = "of_history"\n')
    fill, orders, reports = folder.trials()
    assert [each.point.step for each in (fill, orders, reports)] == ["fill", "both", "both"]
    assert present(fill.summary).succeeded == 40
    assert [(each.name, each.does) for each in orders.steps] == [
        ("write", "checkpoint"), ("index", "sql"), ("settle", "vacuum"),
    ]  # fmt: skip
    assert [(each.name, each.does) for each in reports.steps] == [("calm", "wait")]
    assert (orders.steps[1].wal_bytes or 0) > 0
    assert fill.consistency is None
    # counted after all steps: the dataset was restored only before the first
    rows = present(reports.consistency).counts["pgbench_history"]
    assert rows == 40 + present(present(orders.summary).succeeded)


def test_a_failing_group_fails_the_others(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "wrong.sql").write_text("SELECT 1 FROM no_such_table;\n")
    wrong_group = '[[group]]\nname = "wrong"\nscripts = ["wrong.sql"]\n'
    folder, _ = run(warm_home, tmp_path, wrong_group + TRIAL)
    orders, reports, wrong = folder.trials()
    assert {each.outcome for each in (orders, reports, wrong)} == {Outcome.FAILED}
    assert "no_such_table" in present(wrong.failure).message
    failure = present(orders.failure)
    assert failure.id == FailureId.PARTNER_FAILED
    assert failure.message.startswith("trial 3 of the same place failed: ")


@pytest.mark.long_cases("sleepers")
@pytest.mark.parametrize("name", ["readers", "sleepers"])
def test_a_broken_load_in_the_background_ends_the_trial_at_once(warm_home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")
    # it ends the first session that is idle or reads, and writes nothing
    who = "query = 'SELECT 1;'" if name == "readers" else "query = ''"
    ends = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {who} AND backend_type LIKE 'client%';"
    (tmp_path / "end.sql").write_text(f"SELECT pg_sleep(1);\n{ends}\n")
    killer = '[[group]]\nname = "killer"\nscripts = ["end.sql"]\n'
    folder, said = run(warm_home, tmp_path, BACKGROUND + killer + TRIAL.replace("2s", "300s"))
    trials = folder.trials()
    assert [trial.outcome for trial in trials] == [Outcome.FAILED] * 3
    for trial in trials:
        assert present(trial.failure).message.startswith(f"the load of group {name} failed: ")
        assert (present(trial.ended_at) - present(trial.started_at)).total_seconds() < 60
    assert f"the load of group {name} failed" in said
    assert engines(warm_home) == set()


@pytest.mark.long
def test_phases_and_a_duet_run_beside_a_load(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT count(*) FROM pgbench_branches;\n")
    phases = "".join(f'[[phase]]\nname = "{name}"\nduration = "1s"\n' for name in ("one", "two"))
    target = PLAN.partition("[target.a]")[2].partition("[workload]")[0]
    targets = f'name = "beside"\n[target.a]{target}[target.b]{target}'
    load = '[workload]\nscripts = ["simple-update"]\n[sweep]\nclients = 2\n'
    plan = f'{targets}{load}{BACKGROUND}{phases}[trial]\norder = "duet"\n'
    run_plan_text(warm_home, tmp_path, plan, code=ExitCode.OK)
    for trial in the_run(tmp_path).trials():
        (readers,) = trial.background
        assert readers.tps == pytest.approx(90, rel=0.4)
        assert trial.duet is not None


@pytest.mark.long_cases("archive")
@pytest.mark.parametrize(
    ("write", "failure"),
    [
        ('do = "checkpoint"', 'step index failed: index.sql:2: relation "no_such_table" does not exist (42P01)'),
        ('wait = "archive"', "step write waits for an archive, and the server has archive_mode = off"),
    ],
)
def test_a_step_that_fails_keeps_the_loads_before(warm_home: Home, tmp_path: Path, write: str, failure: str) -> None:
    (tmp_path / "index.sql").write_text("SELECT 1;\nCREATE INDEX x ON no_such_table (a);\n")
    folder, said = run(warm_home, tmp_path, STEPS.replace('do = "checkpoint"', write))
    fill, orders, reports = folder.trials()
    assert (fill.outcome, orders.outcome, reports.outcome) == (Outcome.FINISHED, Outcome.FAILED, Outcome.FAILED)
    assert present(orders.failure).message == failure
    assert ("index.sql:2" in said) == ("index.sql:2" in failure)


def interrupt_and_resume(process: subprocess.Popen[str], home: Home, tmp_path: Path, hold: Hold) -> RunFolder:
    """Presses Ctrl-C before a trial has ended, which leaves nothing, and does the run again."""
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    assert process.returncode == ExitCode.INTERRUPTED
    folder = the_run(tmp_path)
    assert (folder.trials(), engines(home), postmasters(home)) == ([], set(), [])
    hold.release()
    pgdyno(home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    return folder


@pytest.mark.long
def test_a_run_that_was_cut_off_repeats_the_whole_place(warm_home: Home, tmp_path: Path, scratch: Path) -> None:
    hold = Hold(scratch)
    (tmp_path / "held.sql").write_text(hold.script)
    text = PLAN.replace('"select-only"', '"held.sql"') + STEPS
    plan = tmp_path / "mixed.toml"
    (tmp_path / "index.sql").write_text("SELECT 1;\n")
    plan.write_text(text)
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: len(engines(warm_home)) == 3)
        folder = interrupt_and_resume(process, warm_home, tmp_path, hold)
    assert [each.outcome for each in folder.trials()] == [Outcome.FINISHED] * 3


# ---- two targets at the same time: halves of the processors, a common start, Ctrl-C and resuming ----


DUET = fast_plan(
    'scripts = ["one.sql"]\ndataset = "none"',
    "clients = 1",
    'order = "duet"\nduration = "2s"\nrepeats = 2',
    targets="ab",
)
halved = pytest.mark.skipif(len(os.sched_getaffinity(0)) % 2 == 1, reason="an odd number of processors has no halves")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "one.sql").write_text("SELECT 1;\n\\sleep 2 ms\n")
    path = tmp_path / "together.toml"
    path.write_text(DUET)
    return path


@halved
@pytest.mark.long
def test_pairs_run_on_halves_and_resume_as_pairs(warm_home: Home, tmp_path: Path, scratch: Path, plan: Path) -> None:
    def affinities(pids: set[int]) -> set[frozenset[int]]:
        return {frozenset(os.sched_getaffinity(pid)) for pid in pids}

    halves = {frozenset(half) for half in own_halves()}
    hold = Hold(scratch)
    (tmp_path / "one.sql").write_text(hold.script + "\\sleep 2 ms\n")
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: len(engines(warm_home)) == 2)
        assert affinities(engines(warm_home)) == halves
        wait_until(lambda: affinities(set(postmasters(warm_home))) == halves)
        folder = interrupt_and_resume(process, warm_home, tmp_path, hold)
    # forced: on a busy machine, the audit may find one of these short trials invalid
    compared = pgdyno(warm_home, tmp_path, "compare", "latest", "--force")
    assert "2 pairs at the same time" in compared.stdout, compared.stderr
    trials = folder.trials()
    assert [trial.target for trial in trials] == ["a", "b", "b", "a"]
    assert [trial.duet.partner for trial in trials if trial.duet] == [2, 1, 4, 3]
    first, second = map(list, own_halves())
    assert [trial.duet.processors for trial in trials if trial.duet] == [first, second] * 2
    ratios = [trial.duet.tps_ratio or 0.0 for trial in trials if trial.duet]
    assert ratios[0] * ratios[1] == pytest.approx(1)
    began_us = []
    for trial in trials:
        details = {row.kind: json.loads(row.detail) for row in load_run(folder.path).events(trial.number)}
        began_us.append(details["start"]["epoch_us"] + details["connected"]["origin_us"])
    # each engine rounds the instant to its own clock
    assert abs(began_us[0] - began_us[1]) < 1_000
    assert abs(began_us[2] - began_us[3]) < 1_000

    # a pair of which one trial is missing is measured again as a whole
    shutil.rmtree(folder.path / "trials" / trials[3].slug)
    pgdyno(warm_home, tmp_path, "run", "--resume", folder.name, code=ExitCode.OK)
    after = RunFolder.open(folder.path).trials()
    assert [trial.started_at == before.started_at for trial, before in zip(after, trials, strict=True)] == [
        True, True, False, False,
    ]  # fmt: skip
    other = shutil.copytree(folder.path, tmp_path / "other")
    refused = pgdyno(warm_home, tmp_path, "compare", folder.name, str(other), "--force", code=ExitCode.USAGE)
    assert re.search(r"run \S+ is a duet", refused.stderr)


@halved
def test_a_trial_whose_partner_cannot_start_is_not_measured(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    once = DUET.replace("repeats = 2", "repeats = 1").replace('"2s"', '"500ms"')
    plan.write_text(once + '[hooks]\nbefore_trial = "test $PGDYNO_TARGET != b"\n')
    pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.TRIALS_FAILED)
    first, second = the_run(tmp_path).trials()
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.FAILED)
    failure = present(first.failure)
    assert failure.id == FailureId.PARTNER_FAILED
    assert failure.message.startswith("trial 2 of the same pair failed: ")


@halved
@pytest.mark.long
def test_events_happen_to_both_servers(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    once = DUET.replace("repeats = 2", "repeats = 1").replace('"2s"', '"500ms"')
    plan.write_text(once + '[[event]]\nat = "100ms"\ndo = "checkpoint"\n')
    pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.OK)
    assert [[each.do for each in trial.events] for trial in the_run(tmp_path).trials()] == [["checkpoint"]] * 2


@halved
@pytest.mark.long
def test_a_duet_stops_when_it_is_decided(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    """Both trials of a pair are left out, or none of them; a look follows each pair."""
    (tmp_path / "one.sql").write_text("SELECT pg_sleep(current_setting('lab.ms')::float / 1000);\n")
    text = DUET.replace("repeats = 2", 'repeats = "6..9"').replace('"2s"', '"500ms"')
    text = text.replace("fsync =", '"lab.ms" = "5", fsync =', 1)
    text = text.replace("{ fsync =", '{ "lab.ms" = "25", fsync =')
    plan.write_text(text)
    done = pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.OK)
    assert "b vs a at 1 client: -" in done.stderr
    assert "6 of at most 9 pairs" in done.stderr
    folder = the_run(tmp_path)
    assert "stopped after 6 of at most 9 repeats: decided" in folder.manifest.notes
    assert (folder.manifest.trials_planned, len(folder.manifest.order)) == (12, 18)
    trials = folder.trials()
    assert [trial.target for trial in trials] == ["a", "b", "b", "a"] * 3
    assert all(trial.duet is not None and trial.duet.tps_ratio is not None for trial in trials)
    again = pgdyno(warm_home, tmp_path, "run", "--resume", "latest")
    assert "all 12 trials are stored" in again.stderr
