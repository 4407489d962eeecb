"""Whole runs of small plans: stored files, messages, the answer, and what is left after errors."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import pgdyno as package
from pgdyno.errors import ExitCode
from pgdyno.records import Outcome, Stage
from pgdyno.store import load_run
from pgdyno.targets import Home, SilentProgress, Use, host_in_use
from tests.json_schema import validated
from tests.postgres.runs import (
    FAST_SERVER,
    Hold,
    active_sessions,
    engines,
    fast_plan,
    pgdyno,
    postmasters,
    run_plan_text,
    running,
    the_run,
)
from tests.postgres.servers import embedded, opened, value
from tests.present import present
from tests.unit.test_report_html import Page
from tests.waiting import PATIENCE_S, wait_until

MakePlan = Callable[..., Path]

PLAN = fast_plan(
    "scripts = [{scripts}]\n{data}",
    'clients = {clients}\nprotocol = "prepared"\nrate = 200',
    'warmup = "0.5s"\nduration = "{duration}"\nrepeats = {repeats}\n{trial}',
)
USUAL = {
    "scripts": '"one.sql"', "data": 'dataset = "none"', "clients": "[1, 2]", "duration": "1s", "repeats": 1,
    "trial": "",
}  # fmt: skip
SELECT_ONLY = {"scripts": '"select-only"', "data": "scale = 1"}


@pytest.fixture
def plan(tmp_path: Path) -> MakePlan:
    def write(**values: object) -> Path:
        (tmp_path / "one.sql").write_text("SELECT 1;\n")
        text = PLAN
        for name, given in {**USUAL, **values}.items():
            text = text.replace(f"{{{name}}}", str(given))
        (tmp_path / "small.toml").write_text(text)
        return tmp_path / "small.toml"

    return write


def paragraph(text: str) -> list[str]:
    """Returns the lines of the last paragraph, the answer."""
    return text.rstrip("\n").rpartition("\n\n")[2].split("\n")


def answer(text: str) -> str:
    # the audit may object to such short trials
    return next(line for line in paragraph(text) if not line.startswith("Not valid: "))


def test_a_run_stores_every_trial_and_reports(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    options = ("--csv", "trials.csv", "--set", 'target.a.archive.command="true"')
    done = pgdyno(warm_home, tmp_path, "run", str(plan(repeats=2, **SELECT_ONLY)), *options, code=ExitCode.OK)
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
        assert present(trial.archive).failed == 0
    run = load_run(folder)
    for trial in trials:
        measured = sum(row.succeeded for row in run.intervals(trial.number) if row.phase != "warm-up")
        assert measured == present(trial.summary).succeeded
    assert "duration_s" not in done.stdout
    assert "clients" in done.stdout
    assert f"report: pgdyno-runs/{folder.name}/report.html" in done.stdout
    page = (folder.path / "report.html").read_text()
    assert "PostgreSQL 18." in page
    assert Page(page).text("h1") == answer(done.stdout)
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 5
    assert not folder.partials()
    assert postmasters(warm_home) == []
    assert paragraph(pgdyno(warm_home, tmp_path, "show").stdout) == paragraph(done.stdout)
    shown = pgdyno(warm_home, tmp_path, "show", "--json")
    assert validated("show", shown.stdout)["manifest"]["run"] == folder.name
    listed = pgdyno(warm_home, tmp_path, "list")
    assert folder.name in listed.stdout


@pytest.mark.parametrize(
    "refused", ["session_settings.default_text_search_config", "settings.shared_preload_libraries"]
)
def test_a_setting_that_the_server_refuses_has_no_report(
    warm_home: Home, tmp_path: Path, plan: MakePlan, refused: str
) -> None:
    words = ["run", str(plan()), "--set", f'target.a.{refused}="nonsense"']
    done = pgdyno(warm_home, tmp_path, *words, code=ExitCode.TARGET)
    assert "nonsense" in done.stdout
    assert "report: " not in done.stdout
    assert "--resume" not in done.stderr
    folder = the_run(tmp_path)
    assert present(folder.trials()[0].failure).stage is Stage.TARGET
    assert not (folder.path / "report.html").exists()


def test_a_killed_server_fails_its_trial(warm_home: Home, tmp_path: Path, scratch: Path, plan: MakePlan) -> None:
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
    path = str(plan(scripts='"fails.sql"', trial='on_failure = "stop"'))
    done = pgdyno(warm_home, tmp_path, "run", path, code=ExitCode.TRIALS_FAILED)
    (trial,) = the_run(tmp_path).trials()
    assert present(trial.failure).sqlstate == "22012"
    assert present(trial.failure).message == "division by zero (client 0, command 0 of script 0, line 1)"
    assert 'on_failure = "stop"' in done.stderr


@pytest.mark.long_cases("[1")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGHUP, ExitCode.HANGUP)],
)
def test_signals_leave_whole_trials(
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
    pgdyno(warm_home, tmp_path, "run", str(plan(clients="1")), code=ExitCode.OK)
    assert postmasters(warm_home) == []
    assert list(warm_home.instances.iterdir()) == []


def test_a_run_is_refused_before_anything_is_made(warm_home: Home, tmp_path: Path, plan: MakePlan) -> None:
    (tmp_path / "taken").write_text("")
    for options, code, complaints in (
        (["--runs", "taken"], ExitCode.STORE, ["taken"]),
        (["--alongside", "--wait"], ExitCode.USAGE, ["exclude each other"]),
        (["--require"], ExitCode.USAGE, ["--require needs a plan with a promise"]),
        # plan slow is being measured
        ([], ExitCode.TARGET, ["another pgdyno is measuring on this host: process", "plan slow", "--wait"]),
    ):
        with nullcontext() if options else host_in_use(Use("slow"), SilentProgress()):
            done = pgdyno(warm_home, tmp_path, "run", str(plan()), *options)
        assert done.returncode == code
        assert [each for each in complaints if each not in done.stderr] == []
        assert not (tmp_path / "pgdyno-runs").exists()
    assert postmasters(warm_home) == []


KEPT = '["tps > 1", "rate >= 1%", "errors <= 0%"]'
"""No latency, which is open if a busy machine answers less than 99 % of what is due in half a second."""


@pytest.mark.long_cases("held")
@pytest.mark.parametrize(
    ("promise", "repeats", "code", "words"),
    [
        (KEPT, 3, ExitCode.OK, ": held ("),
        ('["tps > 1", "p50 < 1us"]', 3, ExitCode.PROMISE_BROKEN, ": broken ("),
        ('["p99 < 20s"]', 1, ExitCode.INCONCLUSIVE, "use repeats = 3"),
    ],
)
def test_require_exits_by_the_verdicts(
    promise: str, repeats: int, code: ExitCode, words: str, warm_home: Home, tmp_path: Path, plan: MakePlan
) -> None:
    path = plan(clients="2", duration="500ms", repeats=repeats, trial=f"promise = {promise}")
    # that it measures alongside is kept with the run
    with host_in_use(Use("slow"), SilentProgress()):
        ran = pgdyno(warm_home, tmp_path, "run", str(path), "--require", "--alongside")
    assert ran.returncode == code, ran.stderr
    assert words in ran.stdout
    notes = the_run(tmp_path).manifest.notes
    assert any(note.startswith("measured alongside: another pgdyno") for note in notes)
    told = package.open(the_run(tmp_path).path).promises
    assert [each["promise"] for each in told] == json.loads(promise)
    shown = pgdyno(warm_home, tmp_path, "show", "--json")
    assert json.loads(shown.stdout)["answer"]["promises"] == told


ARMS = fast_plan(
    'scripts = ["select-only"]\nscale = 1',
    'clients = 2\nsettings.jit = ["on", "off"]',
    'duration = "500ms"\nrepeats = 2',
)
PHASES = fast_plan(
    'scripts = ["select-only"]\nscale = 1',
    "clients = 4",
    """\
repeats = 2
[[phase]]
name = "rise"
duration = "1s"
rate = { from = 50, to = 150 }
[[phase]]
name = "hold"
duration = "1s"
rate = 200
""",
)
IN_PHASES = r"PostgreSQL 18\.\d+ in 2 phases: \d+\S* to \d+\S* transactions a second; p99 .* the highest in "


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "wanted", "phases"),
    [(ARMS, "Inconclusive: jit off vs on by throughput", []), (PHASES, IN_PHASES, ["rise", "hold"])],
    ids=["arms", "phases"],
)
def test_the_answer_is_about_arms_or_phases(
    warm_home: Home, tmp_path: Path, text: str, wanted: str, phases: list[str]
) -> None:
    done = run_plan_text(warm_home, tmp_path, text, code=ExitCode.OK)
    assert re.match(wanted, answer(done.stdout)), done.stdout
    assert paragraph(pgdyno(warm_home, tmp_path, "show").stdout) == paragraph(done.stdout)
    folder = the_run(tmp_path)
    assert Page((folder.path / "report.html").read_text()).text("h1") == answer(done.stdout)
    for trial in folder.trials():
        summary = present(trial.summary)
        assert [phase.name for phase in summary.phases] == phases
        assert sum(phase.succeeded for phase in summary.phases) in (0, summary.succeeded)


INSTANCES = fast_plan(
    'scripts = ["one.sql"]\ndataset = "none"',
    "clients = 1\nrate = 50",
    """\
duration = "500ms"
repeats = 6
[hooks]
before_trial = ["PYTHON", "server.py"]
[probe]
enabled = false
[target.theirs]
kind = "dsn"
dsn = "FIRST"
other_dsns = ["SECOND"]
database = "measured"
""",
    ["own"],
    f"{FAST_SERVER}\ninstances = 2",
)
SERVER = """\
import os
import psycopg
with psycopg.connect() as connection, open("servers", "a") as file:
    (directory,) = connection.execute("SELECT current_setting('data_directory')").fetchone()
    print(os.environ["PGDYNO_TARGET"], directory, file=file)
"""


@pytest.mark.long
def test_repeats_take_turns_at_separate_servers(warm_home: Home, tmp_path: Path) -> None:
    """At clusters of pgdyno's own, and at servers that are there already."""
    spec = embedded()
    with opened(warm_home, spec, "first") as first, opened(warm_home, spec, "second") as second:
        text = INSTANCES.replace("PYTHON", sys.executable)
        for name, server in (("FIRST", first), ("SECOND", second)):
            text = text.replace(name, f"host={server.host} port={server.port} user={server.user}")
        (tmp_path / "one.sql").write_text("SELECT 1;\n")
        (tmp_path / "server.py").write_text(SERVER)
        done = run_plan_text(warm_home, tmp_path, text)
        data = "SELECT current_setting('data_directory')"
        directories = {value(server, data, "postgres") for server in (first, second)}
    assert done.returncode == ExitCode.OK, done.stderr
    trials = the_run(tmp_path).trials()
    served = [line.split() for line in (tmp_path / "servers").read_text().splitlines()]
    assert [target for target, _ in served] == [trial.target for trial in trials]
    by_turn = {(trial.target, trial.instance, server) for trial, (_, server) in zip(trials, served, strict=True)}
    assert len(by_turn) == 4
    assert {server for target, _, server in by_turn if target == "theirs"} == directories
    assert len({server for _, _, server in by_turn}) == 4
    assert {(trial.repeat, trial.instance) for trial in trials} == {(n, 2 - n % 2) for n in range(1, 7)}
    shown = json.loads(pgdyno(warm_home, tmp_path, "show", "latest", "--json").stdout)
    assert shown["answer"]["noise"]["instances"] == 2
    assert "one-instance" not in pgdyno(warm_home, tmp_path, "audit", "latest").stdout
