"""--auto-pipeline compared with one statement per round trip: same script and seed, same rows, errors and counts."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.test_pgdrive import drive, drive_events, loaded, value

__all__ = ["loaded"]

PROTOCOLS = ["simple", "extended", "prepared"]
WAYS: list[tuple[str, ...]] = [(), ("--auto-pipeline", "--io=epoll"), ("--auto-pipeline", "--io=io_uring")]
Write = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Write:
    def write(text: str) -> str:
        path = tmp_path / "script.sql"
        path.write_text(text)
        return str(path)

    return write


def run(server: Server, sql: str) -> None:
    with server.connect() as connection:
        connection.execute(sql.encode())
        connection.commit()


def rows(server: Server, table: str) -> list[tuple[object, ...]]:
    with server.connect() as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY {table}::text".encode()).fetchall()


def history(server: Server) -> list[tuple[object, ...]]:
    with server.connect() as connection:
        query = b"SELECT tid, bid, aid, delta FROM pgbench_history ORDER BY 1, 2, 3, 4"
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tpcb_leaves_the_same_books(loaded: Server, protocol: str) -> None:
    balances = "SELECT sum(abalance) - (SELECT sum(tbalance) FROM pgbench_tellers) FROM pgbench_accounts"
    before = value(loaded, balances)
    found = []
    for way in WAYS:
        # empties pgbench_history
        args = ("-M", protocol, "-c", "4", "-j", "2", "-t", "50", "--random-seed=7", *way)
        done = drive(loaded, *args)
        assert done.returncode == 0, done.stderr
        assert "number of transactions actually processed: 200/200" in done.stdout
        found.append(history(loaded))
    assert len(found[0]) == 200
    assert found[0] == found[1] == found[2]
    assert value(loaded, balances) == before


SCRIPTS = {
    "rows wanted in the middle": """\
        \\set a random(1, 1000)
        BEGIN;
        INSERT INTO seen VALUES (1, :a) RETURNING b AS stored \\gset
        INSERT INTO seen VALUES (2, :stored + 1);
        SELECT count(*) AS n, max(b) AS most FROM seen WHERE a = 1 \\gset got_
        INSERT INTO seen VALUES (3, :got_n::int + :got_most::int);
        END;
        SELECT 7 AS x \\aset
        INSERT INTO seen VALUES (4, :x);
        """,
    "branches": """\
        \\set a random(1, 1000)
        INSERT INTO seen VALUES (1, :a);
        \\if :a % 2
        INSERT INTO seen VALUES (2, :a);
        \\elif :a % 4
        INSERT INTO seen VALUES (3, :a);
        \\else
        INSERT INTO seen VALUES (4, :a);
        \\endif
        INSERT INTO seen VALUES (5, :a);
        """,
    "copy": """\
        BEGIN;
        INSERT INTO seen VALUES (1, 1);
        COPY seen FROM STDIN;
        INSERT INTO seen VALUES (2, 2);
        COPY seen TO STDOUT;
        COPY (SELECT * FROM generate_series(1, 3000)) TO STDOUT;
        INSERT INTO seen VALUES (3, 3);
        END;
        """,
    "empty statements": """\
        ;
        BEGIN;
        ;
        INSERT INTO seen VALUES (1, 1);
        ;
        END;
        ;
        INSERT INTO seen VALUES (2, 2);
        """,
    "every statement has rows": """\
        BEGIN;
        SELECT * FROM generate_series(1, 500);
        INSERT INTO seen SELECT 1, i FROM generate_series(1, 50) i RETURNING *;
        UPDATE seen SET b = b + 1 WHERE a = 1 RETURNING *;
        SELECT count(*) AS n FROM seen \\gset
        END;
        INSERT INTO seen VALUES (2, :n) RETURNING a, b;
        """,
    "savepoints and two blocks": """\
        BEGIN;
        INSERT INTO seen VALUES (1, 1);
        SAVEPOINT s;
        INSERT INTO seen VALUES (2, 2);
        ROLLBACK TO SAVEPOINT s;
        INSERT INTO seen VALUES (3, 3);
        COMMIT AND CHAIN;
        INSERT INTO seen VALUES (4, 4);
        ROLLBACK;
        /* a comment */ START TRANSACTION ISOLATION LEVEL SERIALIZABLE;
        INSERT INTO seen SELECT 5, count(*) FROM seen;
        COMMIT;
        """,
    "a table of its own": """\
        BEGIN;
        CREATE TEMP TABLE mine (a int) ON COMMIT DROP;
        INSERT INTO mine VALUES (1), (2);
        INSERT INTO seen SELECT 1, sum(a) FROM mine;
        END;
        VACUUM seen;
        """,
    "a pipeline of its own": """\
        INSERT INTO seen VALUES (1, 1);
        \\startpipeline
        BEGIN;
        INSERT INTO seen VALUES (2, 2);
        COMMIT;
        \\endpipeline
        INSERT INTO seen VALUES (3, 3);
        """,
    "pauses": """\
        INSERT INTO seen VALUES (1, 1);
        \\sleep 1 ms
        \\setshell x expr 40 + 2
        INSERT INTO seen VALUES (2, :x);
        """,
    "two thousand statements": "BEGIN;\n"
    + "".join(f"INSERT INTO seen VALUES ({n % 9}, {n});\n" for n in range(1000))
    + "END;\n"
    + "".join(f"SELECT {n}, repeat('x', 100);\n" for n in range(1000)),
}
SIMPLE_ONLY = {
    "joined statements": """\
        BEGIN\\; INSERT INTO seen VALUES (1, 1)\\; END;
        INSERT INTO seen VALUES (2, 2)\\; SELECT 5 AS five \\gset
        INSERT INTO seen VALUES (3, :five)\\; INSERT INTO seen VALUES (4, 4);
        BEGIN\\; INSERT INTO seen VALUES (5, 5);
        INSERT INTO seen VALUES (6, 6);
        END;
        """,
    "text that is a variable": """\
        \\set one 1
        SELECT 'COMMIT' AS how \\gset
        BEGIN;
        INSERT INTO seen VALUES (1, :one);
        :how;
        INSERT INTO seen VALUES (2, 2);
        """,
}
CASES = [(name, protocol) for name in SCRIPTS for protocol in PROTOCOLS]
CASES = [case for case in CASES if case != ("a pipeline of its own", "simple")]
CASES += [(name, "simple") for name in SIMPLE_ONLY]


@pytest.mark.long_cases("[two thousand statements-extended]", "[two thousand statements-simple]")
@pytest.mark.parametrize(("name", "protocol"), CASES)
def test_the_same_rows_come_of_a_script(server: Server, script: Write, name: str, protocol: str) -> None:
    file = script((SCRIPTS | SIMPLE_ONLY)[name].replace(" " * 8, ""))
    found = []
    for way in WAYS:
        run(server, "DROP TABLE IF EXISTS seen; CREATE TABLE seen (a int, b bigint)")
        done = drive(server, "-n", "-f", file, "-M", protocol, "-t", "3", "--random-seed=11", *way)
        assert done.returncode == 0, done.stderr
        assert "number of transactions actually processed: 3/3" in done.stdout
        found.append((rows(server, "seen"), done.stderr))
    assert found[0][0]
    assert found[0] == found[1] == found[2]


FAILURES = {
    "a unique violation in a block": "BEGIN;\nINSERT INTO once VALUES (2);\nINSERT INTO once VALUES (1);\nEND;\n",
    "a name that is unknown": "BEGIN;\nSELECT 1;\nSELECT * FROM nowhere;\nSELECT 2;\nEND;\n",
    "a constraint that waits for COMMIT": "BEGIN;\nINSERT INTO late VALUES (1);\nINSERT INTO late VALUES (1);\nEND;\n",
    "the last statement outside a block": "INSERT INTO once VALUES (3);\nINSERT INTO once VALUES (1);\n",
    "rows that are not one": "INSERT INTO once VALUES (3);\nSELECT generate_series(1, 2) AS x \\gset\nSELECT 1;\n",
    "a command": "INSERT INTO once VALUES (3);\n\\set x 1 / 0\nINSERT INTO once VALUES (4);\n",
    "a block left open": "BEGIN;\nINSERT INTO once VALUES (3);\n",
    "a lost connection": "BEGIN;\nINSERT INTO once VALUES (3);\nSELECT pg_terminate_backend(pg_backend_pid());\nEND;\n",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", FAILURES)
def test_errors_are_the_same(server: Server, script: Write, name: str, protocol: str) -> None:
    file = script(FAILURES[name])
    found = []
    for way in WAYS:
        run(server, "DROP TABLE IF EXISTS once, late; CREATE TABLE once (a int PRIMARY KEY)")
        run(server, "INSERT INTO once VALUES (1); CREATE TABLE late (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        done = drive(server, "-n", "-f", file, "-M", protocol, "-t", "2", *way)
        assert done.returncode == 2, done.stderr
        found.append((rows(server, "once"), rows(server, "late"), done.stderr))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_outside_a_block_lets_those_behind_it_run(server: Server, script: Write, protocol: str) -> None:
    run(server, "DROP TABLE IF EXISTS once; CREATE TABLE once (a int PRIMARY KEY); INSERT INTO once VALUES (1)")
    file = script("INSERT INTO once VALUES (1);\nINSERT INTO once VALUES (2);\n")
    done = drive(server, "-n", "-f", file, "-M", protocol, "-t", "1", "--auto-pipeline")
    assert done.returncode == 2
    assert "aborted in command 0" in done.stderr
    assert rows(server, "once") == [(1,), (2,)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_errors_passed_over_are_counted_once(server: Server, script: Write, tmp_path: Path, protocol: str) -> None:
    run(server, "DROP TABLE IF EXISTS once; CREATE TABLE once (a int PRIMARY KEY); INSERT INTO once VALUES (1)")
    file = script("BEGIN;\nINSERT INTO once VALUES (1);\nSELECT 1;\nSELECT 2;\nEND;\n")
    args = ("-n", "-f", file, "-M", protocol, "-t", "5", "--continue-on-error", "--auto-pipeline")
    done, events = drive_events(server, tmp_path, *args)
    assert done.returncode == 0, done.stderr
    end = events[-1]
    assert (end["failed"], end["succeeded"]) == (5, 0)
    assert [(error["sqlstate"], error["count"]) for error in end["errors"]] == [("23505", 5)]
    assert [statement["failures"] for statement in end["scripts"][0]["statements"]] == [0, 5, 0, 0, 0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_retries_after_serialization_failures(server: Server, script: Write, tmp_path: Path, protocol: str) -> None:
    run(server, "DROP TABLE IF EXISTS sums; CREATE TABLE sums (id int PRIMARY KEY, n int)")
    run(server, "INSERT INTO sums VALUES (1, 0)")
    file = script(
        # asleep with their snapshots, they get into each other's way on any machine
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT n FROM sums;\nSELECT pg_sleep(0.002);\n"
        "UPDATE sums SET n = n + 1;\nSELECT 1;\nCOMMIT;\n"
    )
    args = ("-n", "-f", file, "-M", protocol, "-c", "8", "-t", "20", "--max-tries=1000", "--auto-pipeline")
    done, events = drive_events(server, tmp_path, *args)
    assert done.returncode == 0, done.stderr
    end = events[-1]
    assert end["retries"] > 0
    assert (end["succeeded"], end["failed"]) == (160, 0)
    assert value(server, "SELECT n FROM sums") == 160
    assert {error["sqlstate"] for error in end["errors"]} <= {"40001"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_retries_after_deadlocks(server: Server, script: Write, tmp_path: Path, protocol: str) -> None:
    run(server, "DROP TABLE IF EXISTS sums; CREATE TABLE sums (id int PRIMARY KEY, n int)")
    run(server, "INSERT INTO sums SELECT i, 0 FROM generate_series(1, 3) i")
    file = script(
        "\\set a random(1, 3)\n\\set b random(1, 3)\nBEGIN;\nSET LOCAL deadlock_timeout = '5ms';\n"
        "UPDATE sums SET n = n + 1 WHERE id = :a;\nSELECT pg_sleep(0.002);\n"
        "UPDATE sums SET n = n + 1 WHERE id = :b;\nCOMMIT;\n"
    )
    args = ("-n", "-f", file, "-M", protocol, "-c", "6", "-t", "15", "--max-tries=1000", "--auto-pipeline")
    done, events = drive_events(server, tmp_path, *args)
    assert done.returncode == 0, done.stderr
    end = events[-1]
    assert end["retries"] > 0
    assert {error["sqlstate"] for error in end["errors"]} == {"40P01"}
    assert value(server, "SELECT sum(n) FROM sums") == 2 * end["succeeded"] == 180


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
