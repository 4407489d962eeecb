"""Whole runs with [reset]: the steps stored with a trial, what a later run reuses, and interrupted runs."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome, Stage, TrialRecord
from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home
from tests.forked import PGDYNO, run_pgdyno
from tests.postgres import runs
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

MakePlan = Callable[..., Path]

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
keep_data = true
settings = {{ fsync = "off", shared_buffers = "32MB" }}
[workload]
scripts = ["tpcb-like"]
scale = {scale}
[sweep]
clients = 1
rate = 100
[trial]
duration = "{duration}"
repeats = {repeats}
[reset]
method = "{method}"
"""

Environment = dict[str, str]


@pytest.fixture
def environment(warm_home: Home) -> Environment:
    return runs.environment(warm_home)


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    def write(method: str, *, scale: int = 1, duration: str = "0.3s", repeats: int = 1) -> Path:
        path = tmp_path / "small.toml"
        path.write_text(PLAN.format(method=method, scale=scale, duration=duration, repeats=repeats))
        return path

    return write


def start(environment: Environment, plan: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PGDYNO, "run", str(plan), "--no-preflight"],
        cwd=plan.parent,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(environment: Environment, plan: Path) -> tuple[int, str, str]:
    done = run_pgdyno(["run", str(plan), "--no-preflight"], cwd=plan.parent, env=environment)
    return done.returncode, done.stdout, done.stderr


def trials(folder: Path) -> list[TrialRecord]:
    newest = max(list_runs(folder / "pgdyno-runs"), key=lambda entry: entry.path.stat().st_mtime_ns)
    return RunFolder.open(newest.path).trials()


def steps(trial: TrialRecord) -> list[str]:
    return [step.name for step in present(trial.prepare).steps]


@pytest.mark.long
@pytest.mark.parametrize("method", ["template", "snapshot"])
def test_a_later_run_finds_earlier_data(environment: Environment, plan: MakePlan, tmp_path: Path, method: str) -> None:
    code, out, err = run(environment, plan(method, repeats=2))
    assert code == ExitCode.OK, err
    first, second = trials(tmp_path)
    assert steps(first)[0] == "load"
    assert "load" not in steps(second)
    assert present(second.consistency).violations == []
    assert f"reset: {method}" in out
    assert "Preparing 2 trials took " in next(tmp_path.glob("pgdyno-runs/*/report.html")).read_text()
    stored = json.loads(next(tmp_path.glob("pgdyno-runs/*/trials/0002-*/trial.json")).read_text())
    assert (stored["prepare"]["method"], stored["consistency"]["scope"]) == (method, "full")
    code, _, err = run(environment, plan(method))
    assert code == ExitCode.OK, err
    (third,) = trials(tmp_path)
    assert steps(third) == steps(second)


def connect(home: Home) -> psycopg.Connection[Any]:
    """Connects to the only server that runs in this home."""

    def written() -> list[list[str]]:
        files = home.clusters.glob("*/data/postmaster.pid")
        return [lines for lines in (file.read_text().splitlines() for file in files) if len(lines) >= 8]

    wait_until(written)
    (lines,) = written()
    return psycopg.connect(host=lines[4], port=int(lines[3]), user="postgres", dbname="pgdyno", autocommit=True)


def test_a_foreign_write_is_found(warm_home: Home, environment: Environment, plan: MakePlan, tmp_path: Path) -> None:
    written = threading.Event()

    def write() -> None:
        while not list(tmp_path.glob("pgdyno-runs/*/trials/0001-*")):
            time.sleep(0.02)
        with connect(warm_home) as connection:
            connection.execute("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7")
        written.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    code, out, err = run(environment, plan("vacuum", duration="1.5s", repeats=3))
    writer.join(PATIENCE_S)
    assert written.is_set()
    assert code == ExitCode.TRIALS_FAILED, err
    first, *later = trials(tmp_path)
    assert first.outcome is Outcome.FINISHED
    # on a busy machine the write may be in the third one
    failed, other = sorted(later, key=lambda trial: trial.outcome is Outcome.FINISHED)
    assert (failed.outcome, other.outcome) == (Outcome.FAILED, Outcome.FINISHED)
    assert present(failed.failure).stage is Stage.VERIFY
    assert "the sums changed by accounts" in present(failed.failure).message
    assert present(failed.consistency).changes["accounts"] == present(failed.consistency).changes["history"] + 1
    # its figures were taken, and are kept
    assert failed.summary is not None
    for text in (err, " ".join(out.split())):
        assert "the dataset is not consistent after the trial" in text
    page = next(tmp_path.glob("pgdyno-runs/*/report.html")).read_text()
    assert "the dataset is not consistent after the trial" in page


def read_until(process: subprocess.Popen[str], beginning: str) -> None:
    for line in present(process.stderr):
        if line.startswith(beginning):
            return
    raise AssertionError(f"the run ended before it said {beginning!r}")


MOMENTS = [
    ("template", "creating the template", signal.SIGKILL),
    ("template", "copying the template", signal.SIGTERM),
    ("reload", "loading", signal.SIGKILL),
]


@pytest.mark.long_cases("15]", "reload")
@pytest.mark.parametrize(("method", "moment", "number"), MOMENTS)
def test_a_run_ended_in_the_midst_loses_nothing(
    environment: Environment, plan: MakePlan, tmp_path: Path, method: str, moment: str, number: signal.Signals
) -> None:
    process = start(environment, plan(method, scale=2))
    read_until(process, moment)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert_the_next_run_is_well(environment, plan(method, scale=2), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("copying the cluster", signal.SIGINT),
        ("copying the cluster", signal.SIGKILL),
        ("restoring the cluster", signal.SIGKILL),
    ],
)
def test_a_run_ended_while_it_copies_the_cluster_loses_nothing(
    warm_home: Home,
    environment: Environment,
    plan: MakePlan,
    tmp_path: Path,
    scratch: Path,
    moment: str,
    number: signal.Signals,
) -> None:
    place = "data.partial" if moment.startswith("bringing") else "snapshot.partial"
    process = start({**environment, "PATH": f"{slow_cp(scratch, place)}:{os.environ['PATH']}"}, plan("snapshot"))

    def has_begun() -> bool:
        assert process.poll() is None, process.communicate()
        return half_there(warm_home, place)

    try:
        wait_until(has_begun)
    finally:
        process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "Traceback" not in err
    # pgdyno ends the copy, unless it is killed: then the copy gets SIGINT from the kernel, which this one ignores
    assert bool(copies(warm_home)) == (number is signal.SIGKILL)
    assert_the_next_run_is_well(environment, plan("snapshot"), tmp_path)
    assert copies(warm_home) == []
    assert list(warm_home.clusters.glob("*/*.partial")) == list(warm_home.clusters.glob("*/data.discarded")) == []
    assert list(warm_home.clusters.glob("*/*/half")) == []


def half_there(home: Home, place: str) -> bool:
    try:
        return any(home.clusters.glob(f"*/{place}/**/half"))
    except FileNotFoundError:
        return False  # folders come and go meanwhile


def slow_cp(folder: Path, place: str) -> Path:
    """A `cp` that stops halfway if it copies to `place`, and then continues, even after SIGINT."""
    folder = folder / "bin"
    folder.mkdir()
    program = folder / "cp"
    program.write_text(
        "#!/bin/sh\n"
        "for last; do :; done\n"
        f'case "$last" in *{place}*/file|*reflink*) exec /bin/cp "$@";; *{place}*) ;; *) exec /bin/cp "$@";; esac\n'
        "trap '' INT\n"
        'cp=/bin/cp; $cp "$@"; rm -rf "$last/base"; touch "$last/half"\n'
        'while test -e "$last/half"; do sleep 0.1; done\n'
    )
    program.chmod(0o755)
    return folder


def copies(home: Home) -> list[int]:
    """Processes called cp with a place of this home among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, arguments = (process / "comm").read_text().strip(), (process / "cmdline").read_bytes()
        except OSError:
            continue
        if name == "cp" and os.fsencode(home.root) in arguments:
            found.append(int(process.name))
    return found


def assert_the_next_run_is_well(environment: Environment, plan: Path, tmp_path: Path) -> None:
    code, _, err = run(environment, plan)
    assert code == ExitCode.OK, err
    for trial in trials(tmp_path):
        assert trial.outcome is Outcome.FINISHED
        # rows and sums, from a dataset in which nothing had been changed
        assert (present(trial.consistency).scope, present(trial.consistency).violations) == ("full", [])
