"""`pgdyno gate --confirm` with real servers: a planted regression is measured again and confirmed."""

import json
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.store import list_runs
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno

PLAN = """\
name = "slower"
[target.a]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "16MB" }
[workload]
scripts = ["wait.sql"]
dataset = "none"
[sweep]
clients = 1
variables.ms = [2, 4]
[trial]
duration = "1s"
repeats = 6
[probe]
enabled = false
"""


@pytest.mark.long
def test_a_regression_is_confirmed_in_a_new_run(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "wait.sql").write_text("SELECT pg_sleep(:ms / 1000.0);\n")
    (tmp_path / "slower.toml").write_text(PLAN)
    done = pgdyno(warm_home, tmp_path, "run", "slower.toml", "--runs", "runs", "--quiet")
    assert done.returncode == ExitCode.OK, done.stderr
    gate = ("gate", "latest", "--by", "variables.ms", "--max-regression", "10%", "--runs", "runs", "--json")
    once = pgdyno(warm_home, tmp_path, *gate)
    assert once.returncode == ExitCode.REGRESSION, once.stderr
    confirmed = pgdyno(warm_home, tmp_path, *gate, "--confirm")
    assert confirmed.returncode == ExitCode.REGRESSION, confirmed.stderr
    answer = json.loads(confirmed.stdout)
    assert answer["gate"] == "regression"
    assert any("1 of 1 suspected regressions confirmed" in each for each in answer["notes"])
    assert len(list_runs(tmp_path / "runs")) == 2
