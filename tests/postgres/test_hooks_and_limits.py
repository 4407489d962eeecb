"""Hooks around a run and its trials, and limits that end a trial or a run early."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome, Stage
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
