"""TPC-C in plans: restored before every trial, checked after it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.prepare import Dataset
from pgdyno.programs import find_engine
from pgdyno.records import Outcome
from pgdyno.targets import Home, Server
from tests.postgres.runs import pgdyno, the_run
from tests.postgres.servers import embedded, execute, opened, preparer, value
from tests.present import present

SMALL = Dataset("tpcc", 1, profile="spec")

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "64MB" }
[workload]
name = "tpcc"
variant = "sql-pipelined"
[sweep]
clients = 4
rate = 100
[trial]
warmup = "0.2s"
duration = "1s"
repeats = 2
"""


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings={"fsync": "off", "shared_buffers": "64MB"}), "tpcc") as server:
        yield server


def run(server: Server) -> None:
    options = ["--workload=tpcc", "--tpcc-profile=spec", "--tpcc-pauses=off", "--client=4", "--transactions=50"]
    subprocess.run([find_engine().path, *options], env=server.environment(), capture_output=True, check=True)


def orders(server: Server) -> int:
    return int(value(server, "SELECT count(*) FROM orders"))


@pytest.mark.long
@pytest.mark.parametrize("method", ["template", "reload"])
def test_every_trial_begins_with_the_rows_of_the_load(server: Server, method: str) -> None:
    prepare = preparer(server, method=method, consistency="full")
    for _ in range(2):
        prepare.prepare(SMALL)
        assert orders(server) == 30_000
        run(server)
        assert orders(server) > 30_000
        checked = present(prepare.check())
        assert (checked.scope, checked.violations) == ("full", [])


@pytest.mark.long
def test_a_condition_that_is_broken_is_told(server: Server) -> None:
    prepare = preparer(server, method="template")
    prepare.prepare(SMALL)
    execute(server, "UPDATE warehouse SET w_ytd = w_ytd + 1")
    checked = present(prepare.check())
    assert checked.scope == "counts"
    (violation,) = checked.violations
    assert violation.startswith("condition 1 (")
    assert "warehouse 1: w_ytd is 300001.00" in violation
    execute(server, "ALTER TABLE district RENAME TO province")
    with pytest.raises(TargetError, match=r"cannot check TPC-C's consistency conditions: .*district"):
        prepare.check()


def test_a_plan_runs_it(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(PLAN)
    done = pgdyno(warm_home, tmp_path, "run", "small.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    trials = the_run(tmp_path).trials()
    assert len(trials) == 2
    for trial in trials:
        assert trial.outcome is Outcome.FINISHED
        assert present(trial.prepare).method == "template"
        assert present(trial.consistency).violations == []
        names = [script.name for script in present(trial.summary).scripts]
        assert names[:3] == ["New-Order", "New-Order rolled back", "Payment"]
