"""--auto-pipeline compared with one statement per round trip: same script and seed, same rows, errors and counts.

Rust's tests show what is sent together (client_tests/auto_pipeline.rs); these show that the server agrees.
"""

import json
import re
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.servers import execute, rows, value
from tests.postgres.test_pgdrive import drive, drive_events, loaded

__all__ = ["loaded"]

PROTOCOLS = ["simple", "extended", "prepared"]
WAYS: list[tuple[str, ...]] = [(), ("--auto-pipeline", "--io=epoll"), ("--auto-pipeline", "--io=io_uring")]
by_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def script(folder: Path, text: str) -> str:
    (folder / "script.sql").write_text(text)
    return f"--file={folder}/script.sql"


@pytest.mark.long_cases("simple", "extended")
@by_protocol
def test_tpcb_leaves_the_same_balances(loaded: Server, protocol: str) -> None:
    balances = "SELECT sum(abalance) - (SELECT sum(tbalance) FROM pgbench_tellers) FROM pgbench_accounts"
    before = value(loaded, balances)
    found = []
    for way in WAYS:
        # empties pgbench_history
        done = drive(loaded, "-M", protocol, "-c", "4", "-j", "2", "-t", "50", "--random-seed=7", *way)
        assert done.returncode == 0, done.stderr
        assert "number of transactions actually processed: 200/200" in done.stdout
        found.append(rows(loaded, "SELECT tid, bid, aid, delta FROM pgbench_history ORDER BY 1, 2, 3, 4"))
    assert len(found[0]) == 200
    assert found[0] == found[1] == found[2]
    assert value(loaded, balances) == before


# commands, separated by " / "; PUT inserts a row
SCRIPTS = {
    "rows wanted in the middle": r"\set a random(1, 1000) / BEGIN; / PUT(1, :a) RETURNING b AS stored \gset"
    r" / PUT(2, :stored + 1); / SELECT count(*) AS n, max(b) AS most FROM seen WHERE a = 1 \gset got_"
    r" / PUT(3, :got_n::int + :got_most::int); / END; / SELECT 7 AS x \aset / PUT(4, :x);",
    "copy": "BEGIN; / PUT(1, 1); / COPY seen FROM STDIN; / PUT(2, 2); / COPY seen TO STDOUT;"
    " / COPY (SELECT * FROM generate_series(1, 3000)) TO STDOUT; / PUT(3, 3); / END;",
    "empty statements": "; / BEGIN; / ; / PUT(1, 1); / ; / END; / ; / PUT(2, 2);",
    "every statement has rows": "BEGIN; / SELECT * FROM generate_series(1, 500);"
    " / INSERT INTO seen SELECT 1, i FROM generate_series(1, 50) i RETURNING *;"
    r" / UPDATE seen SET b = b + 1 WHERE a = 1 RETURNING *; / SELECT count(*) AS n FROM seen \gset / END;"
    " / PUT(2, :n) RETURNING a, b;",
    "savepoints and two blocks": "BEGIN; / PUT(1, 1); / SAVEPOINT s; / PUT(2, 2); / ROLLBACK TO SAVEPOINT s;"
    " / PUT(3, 3); / COMMIT AND CHAIN; / PUT(4, 4); / ROLLBACK; / -- comment"
    " / START TRANSACTION ISOLATION LEVEL SERIALIZABLE; / INSERT INTO seen SELECT 5, count(*) FROM seen; / COMMIT;",
    "a table of its own": "BEGIN; / CREATE TEMP TABLE mine (a int) ON COMMIT DROP; / INSERT INTO mine VALUES (1), (2);"
    " / INSERT INTO seen SELECT 1, sum(a) FROM mine; / END; / VACUUM seen;",
    "two thousand statements": " / ".join(
        ["BEGIN;", *(f"PUT({n % 9}, {n});" for n in range(1000)), "END;"]
        + [f"SELECT {n}, repeat('x', 100);" for n in range(1000)]
    ),
}
SIMPLE_ONLY = {
    "joined statements": r"BEGIN\; PUT(1, 1)\; END; / PUT(2, 2)\; SELECT 5 AS five \gset"
    r" / PUT(3, :five)\; PUT(4, 4); / BEGIN\; PUT(5, 5); / PUT(6, 6); / END;",
    "text of a variable": r"\set one 1 / SELECT 'COMMIT' AS how \gset / BEGIN; / PUT(1, :one); / :how; / PUT(2, 2);",
}
CASES = [(name, protocol) for name in SCRIPTS for protocol in PROTOCOLS] + [(name, "simple") for name in SIMPLE_ONLY]


@pytest.mark.long_cases("[two thousand statements-extended]", "[two thousand statements-simple]")
@pytest.mark.parametrize(("name", "protocol"), CASES)
def test_the_same_rows_come_of_a_script(server: Server, tmp_path: Path, name: str, protocol: str) -> None:
    text = (SCRIPTS | SIMPLE_ONLY)[name].replace(" / ", "\n")
    file = script(tmp_path, re.sub(r"PUT(\(.*?\))", r"INSERT INTO seen VALUES \1", text) + "\n")
    found = []
    for way in WAYS:
        execute(server, "DROP TABLE IF EXISTS seen", "CREATE TABLE seen (a int, b bigint)")
        done = drive(server, "-n", file, "-M", protocol, "-t", "3", "--random-seed=11", *way)
        assert done.returncode == 0, done.stderr
        assert "number of transactions actually processed: 3/3" in done.stdout
        found.append((rows(server, "SELECT * FROM seen ORDER BY seen::text"), done.stderr))
    assert found[0][0]
    assert found[0] == found[1] == found[2]


def create_once(server: Server) -> None:
    execute(server, "DROP TABLE IF EXISTS once, late", "CREATE TABLE once (a int PRIMARY KEY)")
    execute(server, "INSERT INTO once VALUES (1)", "CREATE TABLE late (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")


FAILURES = {
    "a unique violation in a block": "BEGIN;\nINSERT INTO once VALUES (2);\nINSERT INTO once VALUES (1);\nEND;\n",
    "a name that is unknown": "BEGIN;\nSELECT 1;\nSELECT * FROM nowhere;\nSELECT 2;\nEND;\n",
    "a constraint that waits for COMMIT": "BEGIN;\nINSERT INTO late VALUES (1);\nINSERT INTO late VALUES (1);\nEND;\n",
    "the last statement outside a block": "INSERT INTO once VALUES (3);\nINSERT INTO once VALUES (1);\n",
    "a lost connection": "BEGIN;\nINSERT INTO once VALUES (3);\nSELECT pg_terminate_backend(pg_backend_pid());\nEND;\n",
}


@by_protocol
@pytest.mark.parametrize("name", FAILURES)
def test_errors_are_the_same(server: Server, tmp_path: Path, name: str, protocol: str) -> None:
    file = script(tmp_path, FAILURES[name])
    found = []
    for way in WAYS:
        create_once(server)
        done = drive(server, "-n", file, "-M", protocol, "-t", "2", *way)
        assert done.returncode == 2, done.stderr
        found.append((rows(server, "TABLE once ORDER BY a"), rows(server, "TABLE late"), done.stderr))
    assert found[0] == found[1] == found[2]


@by_protocol
def test_an_error_is_counted_once_and_ends_only_its_block(server: Server, tmp_path: Path, protocol: str) -> None:
    create_once(server)
    file = script(tmp_path, "INSERT INTO once VALUES (1);\nINSERT INTO once VALUES (2);\n")
    done = drive(server, "-n", file, "-M", protocol, "-t", "1", "--auto-pipeline")
    assert done.returncode == 2
    assert "aborted in command 0" in done.stderr
    assert rows(server, "TABLE once ORDER BY a") == [(1,), (2,)]
    file = script(tmp_path, "BEGIN;\nINSERT INTO once VALUES (1);\nSELECT 1;\nSELECT 2;\nEND;\n")
    args = ("-n", file, "-M", protocol, "-t", "5", "--continue-on-error", "--auto-pipeline")
    done, events = drive_events(server, tmp_path, *args)
    assert done.returncode == 0, done.stderr
    end = events[-1]
    assert (end["failed"], end["succeeded"]) == (5, 0)
    assert [(error["sqlstate"], error["count"]) for error in end["errors"]] == [("23505", 5)]
    assert [statement["failures"] for statement in end["scripts"][0]["statements"]] == [0, 5, 0, 0, 0]


# asleep with their snapshots or locks, they get into each other's way on any machine
CONFLICTS = {
    "40001": "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT n FROM sums;\nSELECT pg_sleep(0.002);\n"
    "UPDATE sums SET n = n + 1 WHERE id = 1;\nSELECT 1;\nCOMMIT;\n",
    "40P01": "\\set a random(1, 3)\n\\set b random(1, 3)\nBEGIN;\nSET LOCAL deadlock_timeout = '5ms';\n"
    "UPDATE sums SET n = n + 1 WHERE id = :a;\nSELECT pg_sleep(0.002);\n"
    "UPDATE sums SET n = n + 1 WHERE id = :b;\nCOMMIT;\n",
}


@by_protocol
@pytest.mark.parametrize(("sqlstate", "updates"), [("40001", 1), ("40P01", 2)])
def test_conflicts_are_retried(server: Server, tmp_path: Path, sqlstate: str, updates: int, protocol: str) -> None:
    execute(server, "DROP TABLE IF EXISTS sums", "CREATE TABLE sums (id int PRIMARY KEY, n int)")
    execute(server, "INSERT INTO sums SELECT i, 0 FROM generate_series(1, 3) i")
    options = ("-c", "6", "-t", "15", "--max-tries=1000", "--auto-pipeline")
    done, events = drive_events(server, tmp_path, "-n", script(tmp_path, CONFLICTS[sqlstate]), "-M", protocol, *options)
    assert done.returncode == 0, done.stderr
    end = events[-1]
    assert end["retries"] > 0
    assert (end["succeeded"], end["failed"]) == (90, 0)
    assert {error["sqlstate"] for error in end["errors"]} == {sqlstate}
    assert value(server, "SELECT sum(n) FROM sums") == updates * 90


def test_the_mode_is_named_everywhere(loaded: Server, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    for way, name in zip(WAYS, ["explicit", "auto", "auto"], strict=True):
        done, events = drive_events(loaded, tmp_path, "-n", "-t", "5", "-r", f"--json={results}", *way)
        assert done.returncode == 0, done.stderr
        assert (events[0]["pipelining"], events[-1]["pipelining"]) == (name, name)
        assert json.loads(results.read_text())["pipelining"] == name
        assert ("pipelining: auto\n" in done.stdout) == (name == "auto")
        statements = events[-1]["scripts"][0]["statements"]
        assert [statement["executions"] for statement in statements] == [5] * 7
        latencies = re.findall(r"^ +([\d.]+) +0 (.*)$", done.stdout, flags=re.MULTILINE)
        assert [text for _, text in latencies][-1] == "END;"
        assert len(latencies) == 11
