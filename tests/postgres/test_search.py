"""A search on a real server: its trials are ordinary ones, and it continues where it was killed."""

import json
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, running, the_run
from tests.present import present

pytestmark = pytest.mark.long

PLAN = """\
name = "searching"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "16MB" }
[workload]
scripts = ["sleeps.sql"]
[sweep]
SWEEP
[trial]
duration = "500ms"
repeats = 2
seed = 7
[search]
SEARCH
"""
PEAK = ("clients = [1, 4]", 'find = "peak"')
CAPACITY = ("clients = 4\nrate = [50, 6400]", 'find = "capacity"\nlatency = "p50 < 100ms"\nprecision = "50%"')


def write(folder: Path, sweep: str, search: str) -> Path:
    # more clients do more, and 4 of them 400 transactions a second, whatever the machine does meanwhile
    (folder / "sleeps.sql").write_text("SELECT pg_sleep(0.01);\n")
    path = folder / "searching.toml"
    text = PLAN.replace("SWEEP", sweep).replace("SEARCH", search)
    if "capacity" in search:
        # a machine that stands still for a third of a second must not miss the lowest rate's target
        text = text.replace("repeats = 2", "repeats = 3").replace("500ms", "1s")
    path.write_text(text)
    return path


def test_a_peak_is_found_again_behind_a_kill(warm_home: Home, tmp_path: Path) -> None:
    plan = write(tmp_path, *PEAK)
    with running(warm_home, tmp_path, plan) as process:
        process.kill()
        process.wait()
    folder = the_run(tmp_path)
    before = [trial.number for trial in folder.trials()]
    assert folder.manifest.search == []
    done = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path))
    assert done.returncode == ExitCode.OK, done.stderr
    folder = the_run(tmp_path)
    trials = folder.trials()
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert len(trials) > len(before)
    manifest = folder.manifest
    (found,) = manifest.search
    assert (manifest.outcome, manifest.trials_planned, found.trials) == (Outcome.FINISHED, len(trials), len(trials))
    by_clients = {clients: [t for t in trials if t.point.clients == clients] for clients in (1, 2, 4)}
    assert all(len(each) == 2 for each in by_clients.values())
    assert [trial.repeat for trial in by_clients[2]] == [1, 2]
    assert found.words in done.stderr
    assert found.words in done.stdout
    means = {each.point.clients: found.tps for each in trials if each.point == found.point}
    assert means
    again = pgdyno(warm_home, tmp_path, "run", "--resume", str(folder.path))
    assert again.returncode == ExitCode.STORE
    assert "all" in again.stderr


def test_the_capacity_of_a_server_that_sleeps_is_known(warm_home: Home, tmp_path: Path) -> None:
    done = pgdyno(warm_home, tmp_path, "run", str(write(tmp_path, *CAPACITY)), "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    folder = the_run(tmp_path)
    (found,) = folder.manifest.search
    assert present(found.met) < 400
    assert present(found.missed) > 200
    assert json.loads(done.stdout.splitlines()[-1])["failed"] == 0
    for trial in folder.trials():
        if trial.point.rate == present(found.met):
            assert present(present(present(trial.summary).latency_ns).p50) < 100e6
