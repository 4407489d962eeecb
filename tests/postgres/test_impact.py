"""`pgdyno impact` on real servers: what an operation costs, and what is left after a fault."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode
from pgdyno.store import load_run
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.json_schema import validated
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.runs import pgdyno, pgdyno_process, the_run
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

QUICK = ("--clients", "2", "--rate", "100", "--warmup", "0s", "--repeats", "1", "--json", "--quiet")
DEBIAN = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="module")
def theirs() -> Iterator[OwnServer]:
    """The server of a user: PostgreSQL 15 of Debian, with a table and a role that owns nothing."""
    with running_server(Installation(DEBIAN, "15", 15, "Debian"), "", "app") as server:
        rows = "SELECT i AS a, i % 7 AS b FROM generate_series(1, 50000) i"
        rights = "CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader"
        server.execute(f"CREATE TABLE t AS {rows}", rights, dbname="app")
        yield server


def impact(home: Home, folder: Path, *options: str) -> tuple[Any, int, str]:
    """The answer, the exit code and what was printed on standard error."""
    (folder / "q.sql").write_text("SELECT b, pg_sleep(0.005) FROM t LIMIT 1;\n")
    done = pgdyno(home, folder, "impact", *QUICK, *options)
    printed = done.stdout.splitlines()
    return validated("impact", printed[-1]) if printed else None, done.returncode, done.stderr


def on(server: OwnServer, user: str = "postgres") -> list[str]:
    return ["--dsn", server.dsn("app", user, "127.0.0.1"), "--script", "q.sql", "--yes"]


def indexes(server: OwnServer) -> list[str]:
    found = server.rows("SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 't'::regclass", "app")
    return [name for (name,) in found]


def is_busy(server: OwnServer, statement: str) -> bool:
    busy = f"SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE '{statement}%'"
    return server.rows(busy, "app") != []


@pytest.mark.long
@pytest.mark.parametrize("server", [("--bin", str(DEBIAN)), ("--version", "18")], ids=["15", "18"])
def test_an_index_stalls_writers_and_is_undone(warm_home: Home, tmp_path: Path, server: tuple[str, str]) -> None:
    operation = "CREATE INDEX i ON pgbench_accounts (bid, filler); SELECT pg_sleep(0.5)"
    one = f"BEGIN; {operation}; COMMIT"
    options = (*server, "--script", "simple-update", "--scale", "1", "--do", one, "--undo", "DROP INDEX i")
    found, code, error = impact(warm_home, tmp_path, *options)
    assert code == ExitCode.OK, error
    cost = present(found["impact"])
    assert (cost["pairs"], cost["stall_shown"], cost["stall_wait"]) == (1, True, "Lock:relation")
    assert 0.4 < cost["stall_s"] <= cost["seconds"] + 0.2
    assert 0.5 < cost["alone_s"] < 60
    assert found["answer"][-1].endswith("n = 1")
    run = load_run(the_run(tmp_path))
    with_it, without = run.trials
    assert [each.events[0].is_control for each in (with_it, without)] == [False, True]
    # the load ended long before trial.duration, and nothing of it counts as interrupted
    assert present(present(with_it.summary).measured_s) < 100
    assert found["answer"][-1] in pgdyno(warm_home, tmp_path, "show", "latest").stdout
    assert "operation-wide" in (tmp_path / "pgdyno-runs" / run.manifest.run / "report.html").read_text()


def test_an_operation_on_a_server_of_the_user(theirs: OwnServer, home: Home, tmp_path: Path) -> None:
    done = ("--do", "CREATE INDEX CONCURRENTLY i ON t (b)", "--undo", "DROP INDEX i")
    found, code, error = impact(home, tmp_path, *on(theirs), *done)
    assert code == ExitCode.OK, error
    assert found["answer"][-1].startswith("CREATE INDEX CONCURRENTLY takes ")
    assert indexes(theirs) == []
    asked, code, error = impact(home, tmp_path, *on(theirs)[:-1], *done)
    assert (asked, code) == (None, ExitCode.USAGE)
    assert "confirm with --yes" in error


@pytest.mark.long
def test_a_backup_is_removed(home: Home, tmp_path: Path) -> None:
    found, code, error = impact(home, tmp_path, "--bin", str(DEBIAN), "--scale", "1", "--do", "backup")
    assert code == ExitCode.OK, error
    assert present(found["impact"])["operation"] == "pg_basebackup"
    run = the_run(tmp_path)
    assert "bytes" in present(run.trials()[0].events[0].message)
    assert list(run.path.rglob("backup")) == []


def test_a_backup_on_a_full_disk_loses_nothing(theirs: OwnServer, home: Home, tmp_path: Path) -> None:
    runs = tmp_path / "small"
    runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(runs)], check=True)
    try:
        found, code, _ = impact(home, tmp_path, *on(theirs), "--do", "backup", "--runs", str(runs))
        assert code == ExitCode.TRIALS_FAILED
        assert "No space left on device" in found["failures"][0]["message"], found["failures"]
        assert list(runs.rglob("backup")) == []
        (trial,) = load_run(Path(found["run"])).trials
        assert present(trial.summary).succeeded
    finally:
        subprocess.run(["umount", str(runs)], check=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("operation", "user", "said", "left"),
    [
        ("--do CREATE INDEX i ON none (b)|--undo DROP INDEX i", "postgres", ["does not exist (42P01)"], []),
        ("--do CREATE INDEX i ON t (b)|--undo DROP INDEX i", "reader", ["must be owner of table t (42501)"], []),
        ("--do SELECT pg_sleep(600)|--limit 1s", "postgres", ["canceled after 1s, its limit"], []),
        ("--do CREATE INDEX kept ON t (b)|--undo DROP INDEX other", "postgres",
         ["left on the server: what sql did, because undo failed: ", 'index "other" does not exist (42704)'], ["kept"]),
    ],
)  # fmt: skip
def test_an_operation_that_fails(
    theirs: OwnServer, home: Home, tmp_path: Path, operation: str, user: str, said: list[str], left: list[str]
) -> None:
    words = [word for option in operation.split("|") for word in option.split(" ", 1)]
    found, code, _ = impact(home, tmp_path, *on(theirs, user), *words)
    assert code == ExitCode.TRIALS_FAILED
    assert [each for each in said if each not in found["failures"][0]["message"]] == []
    if not left:
        assert (found["trials"], found["impact"]) == (1, None)
        assert found["answer"] == ["no answer: no pair of trials finished"]
    assert indexes(theirs) == left
    assert not is_busy(theirs, "SELECT pg_sleep")
    theirs.execute("DROP INDEX IF EXISTS kept", dbname="app")


@pytest.mark.long
@pytest.mark.parametrize("undo", [True, False])
def test_ctrl_c_cancels_and_undoes(theirs: OwnServer, home: Home, tmp_path: Path, undo: bool) -> None:
    (tmp_path / "q.sql").write_text("SELECT b, pg_sleep(0.005) FROM t LIMIT 1;\n")
    statement = "CREATE INDEX CONCURRENTLY slow ON t (b)"
    options = [*on(theirs), "--do", statement, *(["--undo", "DROP INDEX slow"] if undo else [])]
    with pgdyno_process(home, tmp_path, "impact", *QUICK[:-2], "--no-preflight", *options) as running:
        with theirs.connect("app") as blocker, blocker.transaction():
            # CONCURRENTLY waits for the end of older transactions, and undo for the table
            blocker.execute("UPDATE t SET b = b WHERE a = 1")
            wait_until(lambda: is_busy(theirs, statement) or running.poll() is not None)
            running.send_signal(signal.SIGINT)
            wait_until(lambda: not is_busy(theirs, statement))
        running.wait(PATIENCE_S)
    error = (tmp_path / "said").read_text()
    assert running.returncode == ExitCode.INTERRUPTED, error
    assert not is_busy(theirs, statement)
    assert indexes(theirs) == ([] if undo else ["slow"])
    assert ("left INVALID index slow" in error) is not undo
    theirs.execute("DROP INDEX IF EXISTS slow", dbname="app")
