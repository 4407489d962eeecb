"""The catalogue's insert benchmark on real servers: its table keeps its rows, and each rate is served."""

from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO
from tests.postgres.own_servers import running_server
from tests.postgres.runs import environment, the_run
from tests.run_program import run_program

ROWS, WRITES, REMAINDER = 2000, 500, 100
SMALL = [f"workload.variables.rows={ROWS}", f"workload.variables.writes={WRITES}", "reset.consistency=counts"]
SHORT = [f"step.{number}.duration=1s" for number in range(6, 12)]
TRANSACTIONS = {"l.i0": ROWS / 100, "l.i1": WRITES * 4 / 5 / 50, "l.i2": WRITES / 5 / 5}


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--on", "dsn"]], ids=["embedded", "dsn"])
def test_the_table_keeps_its_rows(options: list[str], installed: Installation, home: Home, tmp_path: Path) -> None:
    sets = [word for each in [*SMALL, *SHORT, "trial.repeats=1"] for word in ("--set", each)]
    command = [str(PGDYNO), "run", "insert-benchmark", *options, *sets, "--no-preflight"]
    with running_server(installed, "") as server:
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        done = run_program(command, env=environment(home) | place, cwd=tmp_path)
    assert done.returncode == ExitCode.OK, done.stderr
    trials = the_run(tmp_path).trials()
    assert [trial.outcome for trial in trials] == [Outcome.FINISHED] * 15
    done_by_step = {trial.point.step: trial.summary for trial in trials if trial.summary is not None}
    for step, transactions in TRANSACTIONS.items():
        assert done_by_step[step].succeeded == transactions
    assert all(trial.summary is not None and trial.summary.failed == 0 for trial in trials)
    # inserts and deletes of all steps are equal
    last = trials[-1].consistency
    assert last is not None
    assert last.counts == {"public.pi1": ROWS + REMAINDER}
    # the queries, whose rate was not asked for, come first in the answer
    answer = " ".join(done.stdout.split()).rpartition("qr100, range, 1 client: ")[2]
    assert "qp1000, point, 1 client: " in answer
    assert answer.endswith("; and 6 more.")
