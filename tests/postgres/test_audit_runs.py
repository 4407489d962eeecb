"""Rules of the audit on real runs: disturbances of one arm only, and standbys that fall behind."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode
from pgdyno.store import load_run
from pgdyno.targets import Home
from tests.postgres.runs import fast_plan, pgdyno, run_plan_text, the_run

FAILING = """\
DO $$ BEGIN
  IF current_setting('deadlock_timeout') = '2s' AND random() < 0.2 THEN
    RAISE EXCEPTION 'only here' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;
"""
MAINTAIN = """\
import psycopg
with psycopg.connect("", autocommit=True) as session:
    if session.execute("SHOW deadlock_timeout").fetchone() == ("2s",):
        session.execute("VACUUM pgbench_accounts")
        session.execute("ANALYZE pgbench_accounts")
"""


def found(home: Home, folder: Path, rule: str) -> list[dict[str, Any]]:
    done = pgdyno(home, folder, "audit", str(the_run(folder).path), "--json")
    return [each for each in json.loads(done.stdout) if each["rule"] == rule]


@pytest.mark.long
def test_errors_and_maintenance_of_one_arm(home: Home, tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text(FAILING)
    (tmp_path / "maintain.py").write_text(MAINTAIN)
    workload = 'scripts = ["own.sql"]\ndataset = "pgbench"\nscale = 1'
    event = f'[[event]]\nat = "1s"\ndo = {{ command = "{sys.executable} maintain.py" }}'
    trial = f'duration = "5s"\nrepeats = 2\n{event}'
    plan = fast_plan(workload, "clients = 2\nrate = 50", trial, targets="ab")
    words = [f'--set=target.{name}.settings.deadlock_timeout="{each}"' for name, each in (("a", "1s"), ("b", "2s"))]
    words += [f'--set=target.{name}.settings.autovacuum="off"' for name in "ab"]
    run_plan_text(home, tmp_path, plan, *words, code=ExitCode.INVALID)
    of_b = [trial.number for trial in the_run(tmp_path).trials() if trial.target == "b"]

    (failed,) = found(home, tmp_path, "errors-one-arm")
    assert (failed["severity"], failed["trials"]) == ("caution", of_b)
    assert "of the transactions failed at b" in failed["message"]
    vacuum, analyze = found(home, tmp_path, "maintenance-one-arm")
    for each, what in ((vacuum, "a vacuum by command"), (analyze, "an analyze by command")):
        assert (each["severity"], each["trials"]) == ("caution", of_b)
        assert each["message"].startswith(f"{what} ran in 2 of 2 trials of b")


WAL = "SELECT pg_logical_emit_message(true, 'filling', repeat('x', 1000000));\n"
"""A megabyte of WAL for next to no work."""
ON_STANDBY = """\
import os
import psycopg
port = os.environ["PGDYNO_REPLICA_PORTS"].split(":")[0]
with psycopg.connect(port=port, autocommit=True) as session:
    session.execute({statement!r})
    session.execute("SELECT pg_reload_conf()")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "statement", ["SELECT pg_wal_replay_pause()", "ALTER SYSTEM SET recovery_min_apply_delay = '1min'"]
)
def test_a_standby_that_does_not_replay_is_seen(home: Home, tmp_path: Path, statement: str) -> None:
    (tmp_path / "standby.py").write_text(ON_STANDBY.format(statement=statement))
    (tmp_path / "wal.sql").write_text(WAL)
    hook = f'[hooks]\nbefore_trial = ["{sys.executable}", "standby.py"]'
    length = f'duration = "8s"\n{hook}\n[target.a.replicas]\ncount = 1'
    workload = 'scripts = ["wal.sql"]\ndataset = "none"'
    plan = fast_plan(workload, "clients = 2\nrate = 10", length)
    run_plan_text(home, tmp_path, plan, '--set=target.a.settings.max_wal_size="4GB"', code=ExitCode.OK)
    (trial,) = the_run(tmp_path).trials()
    (lag,) = trial.replication
    (behind,) = found(home, tmp_path, "standby-lag")
    assert (behind["severity"], behind["trials"]) == ("caution", [1]), lag
    assert "of WAL left to replay at the end of 1 trial" in behind["message"]


NOTHING = """\
\\set aid random(900000, 999999)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SELECT bid, bbalance FROM pgbench_branches;
END;
"""


def test_a_statement_that_finds_nothing_is_named(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text(NOTHING)
    workload = 'scripts = ["own.sql"]\ndataset = "pgbench"\nscale = 1'
    sweep = 'clients = 2\nprotocol = ["simple", "prepared"]'
    trial = "transactions = 100\n[probe]\nenabled = false"
    done = run_plan_text(warm_home, tmp_path, fast_plan(workload, sweep, trial), code=ExitCode.OK)
    (finding,) = found(warm_home, tmp_path, "no-rows")
    assert (finding["id"], finding["parameters"]["line"], finding["parameters"]["executions"]) == ("no-rows", 3, 400)
    rows = [each.rows for each in load_run(the_run(tmp_path)).statements()]
    assert rows == [None, 0, 200, None] * 2
    listed = [line.split()[-4:-1] for line in done.stdout.splitlines() if line.startswith("own.sql  3")]
    assert [each for each in listed if each == ["200", "0", "0"]], done.stdout
