"""TPC-B's balances add up after loads that were cut: what the engine counts as succeeded is in the database.

Each transaction adds one amount to an account, a teller and a branch, and writes it into the history: the four sums are
equal unless a transaction is applied partially, and the history has a row for every committed transaction.
test_counting.py has the counts of loads that end by themselves or by a signal.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.postmaster import find_postmaster
from tests.load_recount import PGDRIVE, Running, start_load
from tests.postgres.conftest import FAST
from tests.postgres.servers import embedded, opened, rows, value
from tests.postgres.test_pgdrive import environment
from tests.present import present
from tests.run_program import run_program
from tests.waiting import PATIENCE_S, wait_until

SUMS = """
SELECT (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
       (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
"""
SESSIONS = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
HISTORY = "SELECT count(*) FROM pgbench_history"
PIPELINE = r"""
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
SELECT pg_sleep(0.0005);
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
\endpipeline
"""
CLIENTS = 8
ways = pytest.mark.parametrize(
    ("kind", "protocol", "io"), [("plain", "prepared", "io_uring"), ("pipeline", "extended", "epoll")]
)


def committed(server: Server) -> int:
    """Asserts that the balances add up after all sessions ended; returns the transactions."""
    wait_until(lambda: rows(server, SESSIONS) == [])
    (sums,) = rows(server, SUMS)
    assert len(set(sums)) == 1, sums
    # an amount of zero is one of 10,001: sums of nothing would balance as well
    assert sums[0] != 0
    return int(value(server, HISTORY))


@pytest.fixture(scope="module")
def fragile(home: Home) -> Iterator[Server]:
    """A server that may be killed. The system survives, so nothing needs to reach the disk."""
    with opened(home, embedded(settings={**FAST, "synchronous_commit": "on"}), "fragile") as server:
        yield server


@pytest.fixture
def balances(fragile: Server) -> Server:
    run_program([PGDRIVE, "-i", "-q"], env=environment(fragile), code=0)
    return fragile


def start(server: Server, folder: Path, kind: str, protocol: str, io: str) -> Running:
    script = folder / "pipeline.sql"
    script.write_text(PIPELINE)
    # a script of one's own does not ask for the scale
    script_options = ("-s", "1", "-f", str(script)) if kind == "pipeline" else ("-b", "tpcb-like")
    args = ("-n", *script_options, "-c", str(CLIENTS), "-j", "2", "-T", "60", "-M", protocol, f"--io={io}")
    return start_load(environment(server), folder / "load", *args)


@ways
def test_after_the_engine_was_killed(balances: Server, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    running = start(balances, tmp_path, kind, protocol, io)
    running.wait_for_intervals(1)
    running.process.kill()
    running.process.communicate(timeout=PATIENCE_S)
    assert running.process.returncode == -signal.SIGKILL
    counted = 0
    for line in (tmp_path / "load" / "events.jsonl").read_text().splitlines(keepends=True):
        # the last line may be cut
        if line.endswith("\n") and (event := json.loads(line))["event"] == "interval":
            counted += sum(script["succeeded"] for script in event["scripts"])
    assert 0 < counted <= committed(balances)


@ways
def test_after_the_server_died(balances: Server, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    running = start(balances, tmp_path, kind, protocol, io)
    wait_until(lambda: value(balances, HISTORY) > 50)
    # what `pg_ctl stop -m immediate` sends: no checkpoint, recovery at the next start
    present(find_postmaster(balances.data_directory)).send(signal.SIGQUIT)
    load = running.finish()
    assert load.exit_code == 2
    load.verify()
    assert load.end["clients_aborted"] == CLIENTS
    assert "outages" not in load.end
    balances.restart()
    # all succeeded transactions are there; others were in flight, or were lost with their connection
    succeeded = load.end["succeeded"]
    assert 0 < succeeded <= committed(balances) <= succeeded + load.end["in_flight"] + load.ended_with_client
