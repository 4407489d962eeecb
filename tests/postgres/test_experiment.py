"""Whole runs of small plans: stored files, messages, and what is left after errors."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome, Stage
from pgdyno.store import load_run
from pgdyno.targets import Home
from tests.json_schema import validated
from tests.postgres.runs import Hold, active_sessions, engines, pgdyno, postmasters, running, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

MakePlan = Callable[..., Path]

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
keep_data = {keep}
settings = {{ fsync = "off", shared_buffers = "32MB" }}
[workload]
scripts = [{scripts}]
scale = 1
[sweep]
clients = {clients}
protocol = "prepared"
rate = 200
[trial]
warmup = "0.5s"
duration = "{duration}"
repeats = {repeats}
on_failure = "{on_failure}"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    def write(
        *,
        scripts: str = '"select-only"',
        clients: str = "[1, 2]",
        duration: str = "1s",
        repeats: int = 1,
        on_failure: str = "continue",
        keep: str = "false",
    ) -> Path:
        path = tmp_path / "small.toml"
        path.write_text(
            PLAN.format(
                scripts=scripts, clients=clients, duration=duration, repeats=repeats, on_failure=on_failure, keep=keep
            )
        )
        return path

    return write


def test_a_run_stores_every_trial_and_reports(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    done = pgdyno(warm_home, tmp_path, "run", str(plan(repeats=2)), "--csv", "trials.csv")
    assert done.returncode == ExitCode.OK, done.stderr
    folder = the_run(tmp_path)
    manifest, trials = folder.manifest, folder.trials()
    assert (manifest.outcome, manifest.trials_planned) == (Outcome.FINISHED, 4)
    assert [(t.number, t.point.clients, t.repeat) for t in trials] == [(1, 1, 1), (2, 2, 1), (3, 1, 2), (4, 2, 2)]
    facts = present(manifest.targets[0].facts)
    assert facts.version.startswith("18.")
    assert facts.settings_changed["fsync"] == "off"
    assert facts.data_checksums
    for trial in trials:
        summary = present(trial.summary)
        assert trial.outcome is Outcome.FINISHED
        assert summary.scheduled == sum(
            present(each) for each in (summary.succeeded, summary.failed, summary.skipped, summary.in_flight)
        )
        assert summary.tps > 0
    run = load_run(folder)
    for trial in trials:
        measured = sum(row.succeeded for row in run.intervals(trial.number) if row.phase != "warm-up")
        assert measured == present(trial.summary).succeeded
    assert "duration_s" not in done.stdout
    assert "clients" in done.stdout
    assert f"report: pgdyno-runs/{folder.name}/report.html" in done.stdout
    assert "PostgreSQL 18." in (folder.path / "report.html").read_text()
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 5
    assert not folder.partials()
    assert postmasters(warm_home) == []
    shown = pgdyno(warm_home, tmp_path, "show", "--json")
    assert validated("show", shown.stdout)["manifest"]["run"] == folder.name
    listed = pgdyno(warm_home, tmp_path, "list")
    assert folder.name in listed.stdout


@pytest.mark.parametrize(
    "refused", ["session_settings.default_text_search_config", "settings.shared_preload_libraries"]
)
def test_a_setting_that_only_the_server_refuses_leaves_no_report(
    warm_home: Home, tmp_path: Path, plan: MakePlan, refused: str
) -> None:
    path = plan()
    done = pgdyno(warm_home, tmp_path, "run", str(path), "--set", f'target.pg18.{refused}="nonsense"')
    assert done.returncode == ExitCode.TARGET, done.stderr
    assert "nonsense" in done.stdout
    assert "report: " not in done.stdout
    assert "--resume" not in done.stderr
    folder = the_run(tmp_path)
    assert present(folder.trials()[0].failure).stage is Stage.TARGET
    assert not (folder.path / "report.html").exists()


@pytest.mark.long
def test_json_ends_with_a_line_for_programs(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    done = pgdyno(warm_home, tmp_path, "run", str(plan(clients="1")), "--json", "--quiet")
    assert done.returncode == ExitCode.OK, done.stderr
    last = validated("run", done.stdout.splitlines()[-1])
    assert (last["trials"], last["failed"]) == (1, 0)
    assert (tmp_path / last["run"] / "manifest.json").exists()
    assert done.stderr == ""


def test_a_server_killed_in_a_trial_fails_that_trial(
    warm_home: Home, tmp_path: Path, scratch: Path, plan: MakePlan
) -> None:
    hold = Hold(scratch)
    (tmp_path / "held.sql").write_text(hold.script)
    with running(warm_home, tmp_path, plan(scripts='"held.sql"')) as process:
        wait_until(lambda: active_sessions(warm_home) == 1)
        (server,) = postmasters(warm_home)
        os.kill(server, signal.SIGKILL)
        hold.release()
        out, err = process.communicate(timeout=PATIENCE_S)
        code = process.returncode
    assert code == ExitCode.TRIALS_FAILED, err
    first, second = the_run(tmp_path).trials()
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.FINISHED)
    assert present(first.failure).stage is Stage.RUN
    assert "trial 1 failed" in err
    assert "went down" in err
    assert "Trials that did not finish" in out
    assert the_run(tmp_path).manifest.outcome is Outcome.FAILED


def test_a_run_may_end_at_its_first_failure(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    (tmp_path / "fails.sql").write_text("SELECT 1 / 0;\n")
    done = pgdyno(warm_home, tmp_path, "run", str(plan(scripts='"fails.sql"', on_failure="stop")))
    assert done.returncode == ExitCode.TRIALS_FAILED
    (trial,) = the_run(tmp_path).trials()
    assert present(trial.failure).sqlstate == "22012"
    assert present(trial.failure).message == "division by zero (client 0, command 0 of script 0, line 1)"
    assert 'on_failure = "stop"' in done.stderr


@pytest.mark.long_cases("[1")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGHUP, ExitCode.HANGUP)],
)
def test_a_signal_leaves_whole_trials(
    warm_home: Home, tmp_path: Path, plan: MakePlan, number: int, code: ExitCode
) -> None:
    with running(warm_home, tmp_path, plan(duration="60s")) as process:
        assert engines(warm_home)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, err
    assert "Traceback" not in err
    folder = the_run(tmp_path)
    assert folder.manifest.outcome is Outcome.INTERRUPTED
    assert folder.trials() == []
    assert folder.partials() == []
    assert postmasters(warm_home) == []
    assert not engines(warm_home)


def test_after_sigkill_the_next_run_removes_what_was_left(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    with running(warm_home, tmp_path, plan(duration="60s")) as process:
        assert engines(warm_home)
        assert postmasters(warm_home)
        process.kill()
        process.wait()
    # the engine's lease ends with its parent
    wait_until(lambda: not engines(warm_home))
    done = pgdyno(warm_home, tmp_path, "run", str(plan(clients="1")))
    assert done.returncode == ExitCode.OK, done.stderr
    assert postmasters(warm_home) == []
    assert list(warm_home.instances.iterdir()) == []


@pytest.mark.long
def test_kept_data_is_loaded_once(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    first = pgdyno(warm_home, tmp_path, "run", str(plan(clients="1", keep="true")))
    second = pgdyno(warm_home, tmp_path, "run", str(plan(clients="1", keep="true")))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "loading pgbench at scale 1" in first.stderr
    assert "loading pgbench" not in second.stderr


def test_a_runs_folder_that_cannot_be_written_is_said(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    (tmp_path / "taken").write_text("")
    done = pgdyno(warm_home, tmp_path, "run", str(plan()), "--runs", "taken")
    assert done.returncode == ExitCode.STORE
    assert "taken" in done.stderr
    assert postmasters(warm_home) == []
