"""Hooks around a run and its trials, and limits that end a trial or a run early."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.experiment import Finished, run_experiment
from pgdyno.experiment.limits import budget_left
from pgdyno.experiment.limits.budget_left import BudgetLeft
from pgdyno.plan import load_plan
from pgdyno.plan.time_budget.budget import Budget, Room
from pgdyno.plan.time_budget.time_and_disk import FILE
from pgdyno.records import Outcome, Stage
from pgdyno.report.run_events import Noted, RunEnded, RunEvent
from pgdyno.report.terminal.progress import LiveView
from pgdyno.store import RunFolder
from pgdyno.targets import Home
from pgdyno.targets.cluster.processes import start_ticks
from tests.postgres.runs import engines, fast_plan, pgdyno, postmasters, running, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

MakePlan = Callable[..., Path]

PLAN = fast_plan(
    'scripts = ["script.sql"]\ndataset = "none"\nscale = 3',
    "clients = [1, 2]\nrate = 200",
    'duration = "{duration}"\n{trial}\n[hooks]\n{hooks}',
).replace('version = "18"', 'version = "18"\nconnect = "tcp"')
ALL = ("before_run", "before_trial", "after_trial", "after_run")
ENV = "env | grep -E '^(PGDYNO_|PG)' | sort"


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    def write(*, script: str = "SELECT 1;\n", duration: str = "1s", trial: str = "", hooks: str = "") -> Path:
        (tmp_path / "script.sql").write_text(script)
        path = tmp_path / "limits.toml"
        text = PLAN
        for name, given in (("duration", duration), ("trial", trial), ("hooks", hooks)):
            text = text.replace(f"{{{name}}}", given)
        path.write_text(text)
        return path

    return write


# ---- hooks ----


def test_hooks_are_told_what_runs_and_their_output_is_kept(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    kept = "cp limits.toml $PGDYNO_TRIAL_DIR/kept.toml"
    before_trial = f'before_trial = "{ENV}; pwd; {kept}; psql-is-not-needed || true"'
    others = "\n".join(f'{name} = ["sh", "-c", "{ENV}"]' for name in ALL if name != "before_trial")
    text = plan(hooks=f"{before_trial}\n{others}", trial='pause = "1.5s"')
    done = pgdyno(warm_home, tmp_path, "run", str(text), code=ExitCode.OK)
    folder = the_run(tmp_path)
    trial = folder.trials_path / "0002-a-c2"
    lines = (trial / "log" / "before_trial.log").read_text().splitlines()
    said = dict(line.split("=", 1) for line in lines if "=" in line)
    assert said["PGDYNO_RUN"] == str(folder.path)
    assert said["PGDYNO_TRIAL_DIR"] == str(folder.path / ".0002-a-c2.partial")
    wanted = {"TRIAL": "2", "TARGET": "a", "CLIENTS": "2", "SCALE": "3", "PROTOCOL": "simple", "REPEAT": "1"}
    assert {name: said[f"PGDYNO_{name}"] for name in wanted} == wanted
    assert (said["PGHOST"], said["PGUSER"], said["PGDATABASE"]) == ("127.0.0.1", "postgres", "pgdyno")
    # there is one, and it is not for logs
    assert said["PGPASSWORD"] == "********"
    assert str(tmp_path) in lines
    assert (trial / "kept.toml").read_text() == (tmp_path / "limits.toml").read_text()
    assert "PGDYNO_OUTCOME=finished" in (trial / "log" / "after_trial.log").read_text()
    assert "PGDYNO_ATTEMPT=1" in (folder.path / "log" / "before_run-1.log").read_text()
    assert "PGDYNO_OUTCOME=finished" in (folder.path / "log" / "after_run-1.log").read_text()
    first, second = folder.trials()
    assert [step.detail for step in present(second.prepare).steps if step.name == "hook"] == ["before_trial"]
    # trials are apart by the pause
    assert "pausing 1.5 s" in done.stderr
    assert (present(second.started_at) - present(first.ended_at)).total_seconds() >= 1.5


def test_a_failing_before_trial_fails_that_trial_only(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    hooks = 'before_trial = "echo cannot do that >&2; test $PGDYNO_CLIENTS = 2"\nafter_trial = "false"'
    pgdyno(warm_home, tmp_path, "run", str(plan(hooks=hooks)), code=ExitCode.TRIALS_FAILED)
    first, second = the_run(tmp_path).trials()
    assert first.failure is not None
    assert (first.outcome, first.failure.stage, second.outcome) == (Outcome.FAILED, Stage.HOOK, Outcome.FINISHED)
    assert first.failure.message == "the hook before_trial failed with exit code 1: cannot do that"
    assert (the_run(tmp_path).trials_path / first.slug / "log" / "before_trial.log").exists()
    assert "trial 2: the hook after_trial failed with exit code 1" in the_run(tmp_path).manifest.notes


def test_a_failing_before_run_ends_the_run_at_once(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    for hook, failure in (
        ('"exit 3"', "failed with exit code 3"),
        ('["/nowhere/at-all"]', "cannot be started: no such file or directory"),
    ):
        text = plan(hooks=f'before_run = {hook}\nafter_run = "touch after"')
        done = pgdyno(warm_home, tmp_path, "run", str(text), code=ExitCode.STOPPED)
        assert f"stopped: the hook before_run {failure}" in done.stderr
        folder = the_run(tmp_path)
        assert (folder.trials(), folder.manifest.outcome) == ([], Outcome.INTERRUPTED)
        assert not (folder.path / "report.html").exists()
        (tmp_path / "after").unlink()
        shutil.rmtree(tmp_path / "pgdyno-runs")


def test_a_hook_that_takes_too_long_is_ended_with_its_children(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    hooks = 'before_trial = "sleep 600 & echo $! >> pids; sleep 601 & echo $! >> pids; wait"\ntimeout = "4s"'
    done = pgdyno(
        warm_home, tmp_path, "run", str(plan(hooks=hooks)), "--set", "sweep.clients=1", code=ExitCode.TRIALS_FAILED
    )
    (trial,) = the_run(tmp_path).trials()
    said = "the hook before_trial exceeded 4 s and was terminated"
    assert present(trial.failure).message.startswith(said)
    assert present(trial.failure).hint == "give it more time with hooks.timeout"
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    # they were sent their signal by then, and die in their own time
    wait_until(lambda: not any(start_ticks(pid) for pid in pids))
    # a run whose hook always fails leaves no report
    assert said in " ".join(done.stdout.split())
    assert "--resume" not in done.stderr
    assert not (the_run(tmp_path).path / "report.html").exists()


@pytest.mark.long
def test_ctrl_c_ends_a_hook_with_its_children(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    hooks = "before_trial = \"trap '' TERM INT; sleep 600 & echo $! > pids; echo ready; wait; sleep 600\""
    with running(warm_home, tmp_path, plan(hooks=hooks), until="log/before_trial.log") as process:
        pids = tmp_path / "pids"
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == ExitCode.INTERRUPTED, err
    wait_until(lambda: not start_ticks(int(pids.read_text())))
    assert postmasters(warm_home) == []


# ---- limits ----

FAILS_SOMETIMES = """\
\\set n random(1, 1000000000)
\\if :n % 10 = 1
SELECT 1;
\\else
SELECT 'x:n'::uuid;
\\endif
"""


def test_a_trial_with_too_many_errors_is_stopped_and_stored(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    # pgdyno does not wait for its end
    text = plan(script=FAILS_SOMETIMES, duration="1h", trial="max_errors = 400")
    pgdyno(warm_home, tmp_path, "run", str(text), "--set", "sweep.clients=2", code=ExitCode.TRIALS_FAILED)
    (trial,) = the_run(tmp_path).trials()
    failure, summary = present(trial.failure), present(trial.summary)
    assert (trial.outcome, failure.stage, failure.sqlstate) == (Outcome.FAILED, Stage.RUN, "22P02")
    # values in messages are left out
    often = 'most often: invalid input syntax for type uuid: "…"'
    assert f"failed transactions; trial.max_errors is 400; {often}" in failure.message
    assert present(summary.failed) > 400
    assert present(summary.succeeded) > 0
    assert not engines(warm_home)


def test_a_trial_with_fewer_errors_is_a_result(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    done = pgdyno(warm_home, tmp_path, "run", str(plan(script=FAILS_SOMETIMES, trial="max_errors = 1000000")))
    # it is stored, and says that too many transactions failed
    assert done.returncode == ExitCode.INVALID, done.stderr
    assert "Not valid: " in done.stdout
    assert present(present(the_run(tmp_path).trials()[0].summary).failed) > 0


def test_too_little_disk_ends_the_run_before_it_begins(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    done = pgdyno(warm_home, tmp_path, "run", str(plan(trial='min_free_disk = "100000TB"')), code=ExitCode.STOPPED)
    assert "the plan's min_free_disk is 100000TB" in done.stderr
    assert postmasters(warm_home) == []


def test_a_full_disk_ends_the_run_and_whole_trials_stay(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    state = os.statvfs(tmp_path)
    free_mb = state.f_bavail * state.f_frsize >> 20
    # what others write meanwhile must not end it
    limit_mb = free_mb - 3072
    # without holes, and so much that 1 GB less than the limit is free, whatever others have removed by then
    size = f"$(($(stat -f -c '%a*%S' .) - {(limit_mb - 1024) << 20}))"
    fill = f"test $PGDYNO_TRIAL = 1 || test -e filled || {{ touch filled; (sleep 1; fallocate -l {size} filler) & }}"
    limit = f'min_free_disk = "{limit_mb}MB"'
    try:
        done = pgdyno(
            warm_home, tmp_path, "run", str(plan(duration="5s", trial=limit, hooks=f'before_trial = "{fill}"'))
        )
    finally:
        (tmp_path / "filler").unlink(missing_ok=True)
    assert done.returncode == ExitCode.STOPPED, done.stderr
    folder = the_run(tmp_path)
    assert [trial.outcome for trial in folder.trials()] == [Outcome.FINISHED]
    assert (folder.partials(), folder.manifest.outcome) == ([], Outcome.INTERRUPTED)
    assert "to resume at trial 2: pgdyno run --resume " in done.stderr
    assert not engines(warm_home)
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    assert [trial.number for trial in folder.trials()] == [1, 2]


def test_a_trial_that_cannot_be_stored_is_made_again(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    fill = "test $PGDYNO_TRIAL = 1 || test -e room || mkdir $PGDYNO_TRIAL_DIR/log/events.jsonl.gz"
    done = pgdyno(warm_home, tmp_path, "run", str(plan(hooks=f'before_trial = "{fill}"')), code=ExitCode.STORE)
    assert "is a directory" in done.stderr
    assert "to resume at trial 2: pgdyno run --resume " in done.stderr
    folder = the_run(tmp_path)
    assert [trial.number for trial in folder.trials()] == [1]
    assert (folder.partials(), folder.manifest.outcome) == ([], Outcome.INTERRUPTED)
    (last,) = folder.manifest.attempts
    assert "is a directory" in present(last.ended)
    assert postmasters(warm_home) == []
    (tmp_path / "room").touch()
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", code=ExitCode.OK)
    assert [trial.number for trial in folder.trials()] == [1, 2]


# ---- a time budget, on a clock of its own: what does not fit is left out, and the run says so ----


LENGTH = 'duration = "200ms"\nrepeats = {repeats}\norder = "as-listed"'
WITHIN = fast_plan('scripts = ["one.sql"]\ndataset = "none"', "clients = {clients}\nrate = 200", LENGTH)
LOADING = fast_plan('scripts = ["select-only"]\nscale = 1', "clients = {clients}\nrate = 200", LENGTH)
TPCH = fast_plan(
    'name = "tpch"\nscale_factor = 0.01', "clients = {clients}", 'repeats = {repeats}\norder = "as-listed"'
)
GIB = 1024**3


class Seen(LiveView):
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def event(self, event: RunEvent) -> None:
        self.events.append(event)

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Noted)]


Runner = Callable[..., tuple[Finished, Seen]]


@pytest.fixture
def within(warm_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("PGDYNO_HOME", str(warm_home.path))
    (tmp_path / "one.sql").write_text("SELECT 1;\n")

    def run(
        seconds: float, clock: Callable[[], float], clients: str = "[1, 2, 4]", repeats: int = 2, text: str = WITHIN
    ) -> tuple[Finished, Seen]:
        (tmp_path / "within.toml").write_text(text.replace("{clients}", clients).replace("{repeats}", str(repeats)))
        loaded = load_plan(tmp_path / "within.toml")
        budget = Budget(loaded.plan, Room(seconds, 8 * GIB, 8 * GIB))
        monkeypatch.setattr("pgdyno.experiment.resources.BudgetLeft", partial(BudgetLeft, clock=clock))
        view = Seen()
        loaded = replace(loaded, budget=budget)
        return run_experiment(loaded, tmp_path / "pgdyno-runs", view, check_first=False), view

    return run


def twenty_seconds_a_trial(runs: Path) -> Callable[[], float]:
    """A clock on which every stored trial has taken 20 s."""
    return lambda: 20.0 * len(list(runs.glob("*/trials/*")))


def test_points_that_do_not_fit_are_named_and_left_to_a_resume(warm_home: Home, tmp_path: Path, within: Runner) -> None:
    finished, view = within(90, twenty_seconds_a_trial(tmp_path / "pgdyno-runs"))
    assert (finished.stopped, finished.failed) == (None, [])
    manifest, trials = RunFolder.open(finished.folder.path).manifest, finished.folder.trials()
    assert manifest.outcome is Outcome.FINISHED
    assert manifest.attempts[-1].ended == "completed within its budget"
    assert present(manifest.budget).seconds == 90
    assert [trial.point.clients for trial in trials] == [1, 4, 1, 4]
    assert sorted([*(trial.slug for trial in trials), *present(manifest.budget).dropped]) == manifest.order
    left_out = "completed within the budget of 1 min 30 s; 1 point is not measured: 2 clients"
    assert left_out in manifest.notes
    assert RunEnded("completed within its budget", Outcome.FINISHED) in view.events
    assert view.notes[-1] == f"to measure what was left out: pgdyno run --resume {finished.folder.path}"
    assert left_out.capitalize() in " ".join(pgdyno(warm_home, tmp_path, "show").stdout.split())
    assert "finished within its budget" in pgdyno(warm_home, tmp_path, "list").stdout
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--json", code=ExitCode.OK)
    folder = the_run(tmp_path)
    assert [trial.slug for trial in folder.trials()] == manifest.order
    assert (folder.manifest.budget, folder.manifest.outcome) == (None, Outcome.FINISHED)


def test_repeats_that_do_not_fit_are_counted(tmp_path: Path, within: Runner) -> None:
    finished, _ = within(50, twenty_seconds_a_trial(tmp_path / "pgdyno-runs"), "1", 3)
    assert len(finished.records) == 2
    manifest = RunFolder.open(finished.folder.path).manifest
    assert "completed within the budget of 50 s, without 1 repeat of its points" in manifest.notes
    assert present(manifest.budget).dropped == manifest.order[2:]


@pytest.mark.long
def test_a_trial_of_tpch_that_exceeds_the_budget_is_left_out(warm_home: Home, tmp_path: Path, within: Runner) -> None:
    def clock() -> float:
        has_begun = any(tmp_path.glob("pgdyno-runs/*/.0002-*.partial/log/engine.log"))
        return 1000.0 if has_begun else 0.0

    finished, view = within(90, clock, "1", 2, TPCH)
    assert (finished.stopped, finished.failed) == (None, [])
    manifest = RunFolder.open(finished.folder.path).manifest
    assert [trial.slug for trial in finished.folder.trials()] == manifest.order[:1]
    assert present(manifest.budget).dropped == manifest.order[1:]
    assert RunEnded("completed within its budget", Outcome.FINISHED) in view.events
    assert (engines(warm_home), postmasters(warm_home)) == (set(), [])


def test_a_load_that_is_too_slow_for_the_budget_ends_the_run_and_the_next_one_knows_its_rate(
    warm_home: Home, within: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_left, "FIRST_RATE_S", 0.0)
    passed = {"s": 0.0}
    check_load = BudgetLeft.check_load

    def slow(left: BudgetLeft, rows: int, per_s: float, left_s: float) -> None:
        passed["s"] += 30
        check_load(left, rows, per_s / 1e6, left_s)

    monkeypatch.setattr(BudgetLeft, "check_load", slow)
    finished, view = within(60, lambda: passed["s"], text=LOADING)
    assert present(finished.stopped).startswith("loading would take about ")
    assert finished.records == []
    assert RunFolder.open(finished.folder.path).manifest.outcome is Outcome.INTERRUPTED
    assert any(note.startswith("hint: run the same command again") for note in view.notes)
    assert list(json.loads((warm_home.root / FILE).read_text())) == ["pgbench into embedded"]
    assert postmasters(warm_home) == []
