"""TPC-B's balances add up after every load, however it ended: what the engine counts as succeeded is in the database.

Each transaction adds one amount to an account, a teller and a branch, and writes it into the history: the four sums are
equal unless a transaction is applied partially, and the history has a row for every committed transaction.
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.cluster.postmaster import find_postmaster
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.load_recount import PGDRIVE, Load, run_load, start_load
from tests.postgres.conftest import FAST, MAJOR
from tests.postgres.servers import execute, rows, value
from tests.postgres.test_pgdrive import environment
from tests.present import present
from tests.run_program import run_program
from tests.waiting import PATIENCE_S, wait_until

DATABASE = "balances"
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
REPEATABLE_READ = {"PGOPTIONS": "-c default_transaction_isolation=repeatable\\ read"}


@dataclass
class Balances:
    """pgbench's tables, and the number of rows of the history at the last check."""

    server: Server
    database: str
    history: int = 0
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**environment(self.server), "PGDATABASE": self.database, **self.extra}

    def transactions(self) -> int:
        """Transactions that were committed since the last check."""
        return int(value(self.server, HISTORY, self.database)) - self.history

    def check(self) -> int:
        """Asserts that the balances add up after all sessions ended; returns the transactions since the last call."""
        wait_until(lambda: rows(self.server, SESSIONS, self.database) == [])
        (sums,) = rows(self.server, SUMS, self.database)
        since = self.transactions()
        self.history += since
        assert len(set(sums)) == 1, sums
        # an amount of zero is one of 10,001: sums of nothing would balance as well
        assert sums[0] != 0 or self.history == 0
        return since


def load_tables(server: Server, database: str, folder: Path) -> Balances:
    balances = Balances(server, database)
    run_program([PGDRIVE, "-i", "-s", "1", "-q"], env=balances.environment, cwd=folder, code=0)
    return balances


@pytest.fixture(scope="module")
def shared_balances(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balances]:
    execute(server, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    yield load_tables(server, DATABASE, tmp_path_factory.mktemp("balances"))
    execute(server, f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.fixture
def balances(shared_balances: Balances) -> Balances:
    shared_balances.extra = {}
    shared_balances.check()
    return shared_balances


def transactions(folder: Path, kind: str) -> tuple[str, ...]:
    """Returns the options for TPC-B as in pgbench, or as one pipeline."""
    if kind == "pipeline":
        file = folder / "pipeline.sql"
        file.write_text(PIPELINE)
        # a script of one's own does not ask for the scale
        return ("-n", "-s", "1", "-f", str(file))
    return ("-n", "-b", "tpcb-like")


NAMES = "kind", "protocol", "io"
WAYS = [
    ("plain", "simple", "epoll"),
    ("plain", "extended", "io_uring"),
    ("plain", "prepared", "io_uring"),
    ("pipeline", "extended", "epoll"),
    ("pipeline", "prepared", "io_uring"),
]
way = pytest.mark.parametrize(NAMES, WAYS, ids=["-".join(words) for words in WAYS])
some_ways = pytest.mark.parametrize(NAMES, WAYS[2:4], ids=["-".join(words) for words in WAYS[2:4]])


@pytest.mark.long_cases("epoll")
@way
@pytest.mark.parametrize("extra", [(), ("-R", "500", "-L", "5"), ("-C",)], ids=["closed", "rate", "connections"])
def test_after_a_load_that_ends(
    balances: Balances, tmp_path: Path, kind: str, protocol: str, io: str, extra: tuple[str, ...]
) -> None:
    args = (*transactions(tmp_path, kind), "-c", "8", "-j", "2", "-t", "12", "-M", protocol, f"--io={io}", *extra)
    load = run_load(balances.environment, tmp_path / "load", *args)
    assert load.exit_code == 0, load.stderr
    assert load.verify().succeeded == balances.check()


@way
def test_after_retries_under_contention(balances: Balances, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    # one branch, and everybody changes it
    balances.extra = REPEATABLE_READ
    args = (*transactions(tmp_path, kind), "-c", "16", "-j", "2", "-t", "8", "-M", protocol, f"--io={io}")
    load = run_load(balances.environment, tmp_path / "load", *args, "--max-tries=5", "--failures-detailed")
    assert load.exit_code == 0, load.stderr
    counts = load.verify()
    assert counts.retries > 0
    assert counts.succeeded == balances.check()


@some_ways
def test_after_a_signal(balances: Balances, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    number = signal.SIGINT if io == "epoll" else signal.SIGTERM
    args = (*transactions(tmp_path, kind), "-c", "8", "-j", "2", "-T", "60", "-M", protocol, f"--io={io}")
    running = start_load(balances.environment, tmp_path / "load", *args)
    wait_until(lambda: balances.transactions() > 50)
    running.process.send_signal(number)
    load = running.finish()
    assert load.exit_code == 128 + number
    assert load.end["outcome"] == "interrupted"
    assert "tps = " in load.stdout
    load.verify()
    check_history(load, balances.check())


def check_history(load: Load, committed: int) -> None:
    """All succeeded transactions are there; others were in flight, or were lost with their connection."""
    succeeded = load.end["succeeded"]
    assert 0 < succeeded <= committed <= succeeded + load.end["in_flight"] + load.ended_with_client


@some_ways
def test_after_the_engine_was_killed(balances: Balances, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    clients = 8
    args = (*transactions(tmp_path, kind), "-c", str(clients), "-j", "2", "-T", "60", "-M", protocol, f"--io={io}")
    running = start_load(balances.environment, tmp_path / "load", *args)
    running.wait_for_intervals(1)
    running.process.kill()
    running.process.communicate(timeout=PATIENCE_S)
    assert running.process.returncode == -signal.SIGKILL
    told = 0
    for line in (tmp_path / "load" / "events.jsonl").read_text().splitlines(keepends=True):
        # the last line may be cut
        if line.endswith("\n") and (event := json.loads(line))["event"] == "interval":
            told += sum(script["succeeded"] for script in event["scripts"])
    assert 0 < told <= balances.check()


@pytest.fixture(scope="module")
def fragile_books(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balances]:
    """Uses an own server, which may be killed. The system survives, so nothing needs to reach the disk."""
    spec = EmbeddedTarget(kind="embedded", version=MAJOR, settings={**FAST, "synchronous_commit": "on"})
    with open_target("fragile", spec, home=home, progress=SilentProgress()) as server:
        yield load_tables(server, server.dbname, tmp_path_factory.mktemp("fragile"))


@some_ways
def test_after_the_server_died(fragile_books: Balances, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    balances = fragile_books
    balances.check()
    args = (*transactions(tmp_path, kind), "-c", "8", "-j", "2", "-T", "60", "-M", protocol, f"--io={io}")
    running = start_load(balances.environment, tmp_path / "load", *args)
    wait_until(lambda: balances.transactions() > 50)
    postmaster = present(find_postmaster(balances.server.data_directory))
    # what `pg_ctl stop -m immediate` sends: no checkpoint, recovery at the next start
    postmaster.send(signal.SIGQUIT)
    load = running.finish()
    assert load.exit_code == 2
    load.verify()
    assert load.end["clients_aborted"] == 8
    assert "outages" not in load.end
    balances.server.restart()
    check_history(load, balances.check())
