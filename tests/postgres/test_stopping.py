"""A run that stops when decided: its trials, its messages, and its continuation after an interruption."""

import signal
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home
from tests.json_schema import validated
from tests.postgres.runs import pgdyno, running, the_run
from tests.waiting import PATIENCE_S, wait_until

PLAN = """\
name = "stopping"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "16MB" }
[workload]
scripts = ["sleep.sql"]
dataset = "none"
[sweep]
clients = 1
variables.ms = [5, 25]
[trial]
duration = "500ms"
repeats = "6..9"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "sleep.sql").write_text("SELECT pg_sleep(:ms / 1000.0);\n")
    path = tmp_path / "stopping.toml"
    path.write_text(PLAN)
    return path


@pytest.mark.long
def test_a_clear_difference_is_decided_at_the_first_look(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: len(the_run(tmp_path).trial_paths()) >= 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    done = pgdyno(warm_home, tmp_path, "run", "--resume", "latest")
    assert done.returncode == ExitCode.OK, done.stderr
    assert "25 vs 5 at 1 client: -" in done.stderr
    assert "(slower), interval " in done.stderr
    assert "6 of at most 9 pairs" in done.stderr
    manifest = the_run(tmp_path).manifest
    assert "stopped after 6 of at most 9 repeats: decided" in manifest.notes
    assert manifest.stopping is not None
    assert (manifest.stopping.ended, manifest.stopping.by) == ("decided", "variables.ms")
    assert (manifest.outcome, manifest.trials_planned, len(manifest.order)) == (Outcome.FINISHED, 12, 18)
    assert len(the_run(tmp_path).trials()) == 12
    # everywhere the interval is the one that holds after stopping
    assert "stopped after 6 of at most 9 repeats: decided" in done.stdout
    compared = pgdyno(warm_home, tmp_path, "compare", "latest")
    assert "; stopped after 6 of at most 9 repeats: decided" in " ".join(compared.stdout.split())
    gated = validated("gate", pgdyno(warm_home, tmp_path, "gate", "latest", "--max-regression", "5%", "--json").stdout)
    assert gated["gate"] == "regression"
    assert gated["points"][0]["interval"]["look_level"] > gated["points"][0]["interval"]["level"]
    assert gated["stopping"]["ended"] == "decided"
    again = pgdyno(warm_home, tmp_path, "run", "--resume", "latest")
    assert again.returncode == ExitCode.STORE
    assert "all 12 trials are stored" in again.stderr
