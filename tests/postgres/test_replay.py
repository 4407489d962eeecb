"""`pgdrive --replay` on a real server: order, protocols, errors, locks, and the ends of sessions and of the load."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.replay_sample import Sample, Statement, prepared, replay, replay_one, simple
from tests.postgres.servers import execute, value
from tests.postgres.test_abandoned_statements import Load

S = 1000
"""Milliseconds of a second."""


@pytest.fixture
def table(server: Server) -> Iterator[Server]:
    execute(
        server,
        "DROP TABLE IF EXISTS replayed",
        "CREATE TABLE replayed (id serial PRIMARY KEY, session int, n int, pid int)",
    )
    yield server
    execute(server, "DROP TABLE replayed")


def insert(session: int, n: int) -> str:
    return f"INSERT INTO replayed (session, n, pid) VALUES ({session}, {n}, pg_backend_pid())"


@pytest.mark.parametrize(("pace", "io"), [("1000", "epoll"), ("max", "io_uring")])
def test_sessions_have_their_order_and_connections(table: Server, tmp_path: Path, pace: str, io: str) -> None:
    sample = Sample()
    for session in range(20):
        start = session // 4 * S
        sample.session(start, start + S, *(simple(start + n, insert(session, n)) for n in range(50)))
    done = replay(table, tmp_path, sample, f"--pace={pace}", f"--io={io}", "-j", "2")
    assert (done.code, done.disagreements) == (0, {}), done.errors
    assert (done.replay["done"], done.replay["not_started"]) == (1000, 0)
    assert (done.end["succeeded"], done.events[0]["clients"]) == (1000, 4)
    order = "SELECT session, array_agg(n ORDER BY id) AS n, count(DISTINCT pid) AS pids FROM replayed GROUP BY 1"
    expected = "SELECT array_agg(n ORDER BY n) FROM generate_series(0, 49) AS n"
    assert value(table, f"SELECT count(*) FROM ({order}) s WHERE n = ({expected}) AND pids = 1") == 20
    assert value(table, "SELECT count(DISTINCT pid) FROM replayed") == 20


def test_prepared_statements_belong_to_their_session(table: Server, tmp_path: Path) -> None:
    sample = Sample(texts=[(0, "INSERT INTO replayed (session, n) VALUES ($1, $2)")])
    names = "SELECT count(*)::int FROM pg_prepared_statements WHERE name = 'put'"
    for session in range(3):
        put = {"at_us": session * 1000, "text": 0, "name": "put"}
        sample.session(
            session,
            session + 1,
            {**put, "params": [str(session), "1"], "rows": 1},
            {**put, "params": [str(session), None], "rows": 1},
            prepared(session, f"INSERT INTO replayed (session, n) SELECT 100, ({names}) + $1", "10"),
            simple(session, "DISCARD ALL"),
            {**put, "params": [str(session), "3"], "rows": 1},
            # the name gets another text
            prepared(session, "INSERT INTO replayed (session, n) VALUES (200, $1)", "7", name="put", rows=1),
        )
    done = replay(table, tmp_path, sample)
    assert (done.code, done.disagreements) == (0, {}), done.errors
    assert value(table, "SELECT count(*) FROM replayed WHERE session < 3 AND (n IS NULL OR n IN (1, 3))") == 9
    assert value(table, "SELECT array_agg(n) FROM replayed WHERE session = 100") == [11, 11, 11]
    assert value(table, "SELECT array_agg(n) FROM replayed WHERE session = 200") == [7, 7, 7]


def test_errors_end_nothing_and_are_compared_with_the_capture(table: Server, tmp_path: Path) -> None:
    sample = Sample(classes=["good", "bad"])
    sample.session(
        0,
        10,
        simple(1, "SELECT 1/0", error="22012"),
        simple(2, "SELECT 1/0", of=1),
        simple(3, "SELECT 1", error="22012"),
        simple(4, "SELECT 1/0", error="23505", of=1),
        simple(5, "BEGIN"),
        simple(5, insert(0, 1), block=True),
        simple(6, "SELECT missing", of=1, block=True),
        simple(6, insert(0, 2), block=True),
        prepared(7, insert(0, 3), name="a", block=True),
        simple(7, "ROLLBACK", block=True),
        prepared(8, insert(0, 4), name="a", rows=1),
        prepared(8, "UPDATE replayed SET n = $1", "5", rows=2),
    )
    done = replay(table, tmp_path, sample, "-r", "--verbose-errors")
    assert done.code == 0, done.errors
    assert done.disagreements == {
        "new_errors": 2, "missing_errors": 1, "other_errors": 1, "in_failed_transaction": 2, "different_rows": 1,
    }  # fmt: skip
    assert value(table, "SELECT array_agg(n) FROM replayed") == [5]
    # a transaction fails if one of its statements does what it had not done
    assert (done.end["succeeded"], done.end["failed"]) == (4, 3)
    errors = {error["sqlstate"]: error["count"] for error in done.end["errors"]}
    assert errors == {"22012": 2, "42703": 1}
    classes = {one["id"]: one for one in done.end["scripts"][0]["statements"]}
    assert (classes[0]["failures"], classes[1]["failures"]) == (2, 3)
    # each of the twelve statements was sent once, and two of the errors were captured, too
    assert (classes[0]["executions"], classes[1]["executions"]) == (7, 0)
    assert "number of disagreements with the capture: 7" in done.output
    assert " - number of new errors: 2" in done.output
    assert 'column "missing" does not exist' in done.errors


def test_errors_are_counted_by_sqlstate_and_message_of_which_there_is_a_limit(table: Server, tmp_path: Path) -> None:
    names = ["one", "other", "other", *(f"missing_{number}" for number in range(150))]
    statements = (simple(1, f"SELECT {name}") for name in names)
    errors = replay_one(table, tmp_path, *statements, simple(2, "SELECT 1/0")).end["errors"]
    counts = {(each["sqlstate"], each["message"]): each["count"] for each in errors}
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert (sum(counts.values()), len(counts)) == (154, 102)
    for expected in (
        ("42703", 'column "other" does not exist', 2),
        ("42703", 'column "one" does not exist', 1),
        ("42703", "(other messages)", 52),
        ("22012", "(other messages)", 1),
    ):
        assert counts[expected[:2]] == expected[2]


@pytest.mark.parametrize("make", [simple, prepared])
def test_copy_gets_the_captured_rows_or_none(table: Server, tmp_path: Path, make: Callable[..., Statement]) -> None:
    copy = "COPY replayed (session, n) FROM STDIN"
    rows = [f"1\t{n}" for n in range(1000)]
    done = replay_one(
        table,
        tmp_path,
        make(1, copy, copy=[*rows, "2\t\\N"], rows=1001),
        make(2, copy),
        make(3, copy, copy=["not a number"], error="22P02"),
        make(4, "COPY replayed TO STDOUT", rows=1001),
        make(5, insert(3, 1), rows=1),
    )
    assert (done.code, done.disagreements) == (0, {}), done.errors
    assert done.replay["copies_without_data"] == 1
    assert value(table, "SELECT count(*) FROM replayed") == 1002
    assert "number of COPY FROM STDIN without data: 1" in done.output


def test_statements_are_utf_8_in_a_database_of_another_encoding(server: Server, tmp_path: Path) -> None:
    execute(
        server,
        "DROP DATABASE IF EXISTS replay_latin WITH (FORCE)",
        "CREATE DATABASE replay_latin TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'",
    )
    execute(server, "CREATE TABLE names AS SELECT 'Müller' AS name", dbname="replay_latin")
    select = "SELECT FROM names WHERE name = "
    statements = simple(1, f"{select}'Müller'", rows=1), prepared(2, f"{select}$1", "Müller", rows=1)
    try:
        done = replay_one(server, tmp_path, *statements, options=["replay_latin"])
        assert (done.code, done.disagreements) == (0, {}), done.errors
    finally:
        execute(server, "DROP DATABASE replay_latin WITH (FORCE)")


def test_cursors_live_in_their_transaction(table: Server, tmp_path: Path) -> None:
    done = replay_one(
        table,
        tmp_path,
        simple(1, "BEGIN"),
        simple(1, "DECLARE c CURSOR FOR SELECT generate_series(1, 10)", block=True),
        simple(2, "FETCH 7 FROM c", rows=7, block=True),
        prepared(2, "FETCH ALL FROM c", rows=3, block=True),
        simple(3, "COMMIT", block=True),
        simple(4, "FETCH 1 FROM c", error="34000"),
        simple(5, "SELECT 1; SELECT generate_series(1, 3)", rows=3),
    )
    assert (done.code, done.disagreements) == (0, {}), done.errors
    assert done.end["succeeded"] == 3


def test_sessions_that_lock_in_another_order_never_hang(table: Server, tmp_path: Path) -> None:
    sample = Sample()
    lock = "SELECT pg_advisory_xact_lock(hashtext('replay'), {})"
    for first in (1, 2):
        sample.session(
            0,
            S,
            simple(0, "BEGIN"),
            simple(0, lock.format(first), block=True),
            simple(0, "SELECT pg_sleep(0.3)", block=True),
            simple(0, lock.format(3 - first), block=True),
            simple(900, "COMMIT", block=True),
        )
    done = replay(table, tmp_path, sample)
    assert done.code == 0, done.errors
    # one of the two is the victim, and its COMMIT rolls back
    assert done.disagreements == {"new_errors": 1}
    assert [error["sqlstate"] for error in done.end["errors"]] == ["40P01"]
    assert (done.end["succeeded"], done.end["failed"], done.replay["done"]) == (1, 1, 10)


def test_latency_counts_from_the_captured_start(table: Server, tmp_path: Path) -> None:
    sample = Sample(classes=["slow", "behind"])
    sample.session(0, 20, simple(1, "SELECT pg_sleep(0.3)"), simple(2, "SELECT 1", of=1))
    done = replay(table, tmp_path, sample)
    classes = {one["id"]: one for one in done.end["scripts"][0]["statements"]}
    assert classes[1]["latency_ns"]["min"] >= 290e6
    assert done.replay["lateness_ns"]["max"] >= 290e6
    assert done.replay["delayed_by_answer"] == 1
    without_pauses = replay(table, tmp_path, sample, "--pace=max")
    assert without_pauses.replay["lateness_ns"] is None
    assert without_pauses.end["succeeded"] == 2


def test_a_lost_connection_ends_its_session_alone(table: Server, tmp_path: Path) -> None:
    sample = Sample()
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    sample.session(0, 10, simple(1, insert(0, 1)), simple(2, end), simple(3, insert(0, 2)), simple(4, insert(0, 3)))
    sample.session(10, 20, simple(11, insert(1, 1)))
    done = replay(table, tmp_path, sample)
    assert done.code == 0, done.errors
    assert (done.replay["sessions_begun"], done.replay["sessions_lost"]) == (2, 1)
    assert (done.replay["done"], done.replay["not_started"]) == (2, 2)
    assert (done.end["lost"], done.end["clients_aborted"]) == (1, 0)
    assert value(table, "SELECT array_agg(session ORDER BY session) FROM replayed") == [0, 1]
    errors = [event for event in done.events if event["event"] == "error"]
    assert [(error["sqlstate"], error["consequence"]) for error in errors] == [("57P01", "reconnecting")]


def test_time_ends_a_replay_and_the_rest_is_not_started(table: Server, tmp_path: Path) -> None:
    sample = Sample()
    far = 3600 * S
    sample.session(0, far, simple(0, insert(0, 1)), simple(far, insert(0, 2)))
    sample.session(0, far, simple(0, "BEGIN"), simple(0, insert(1, 1), block=True), simple(far, "COMMIT", block=True))
    sample.session(far - 1, far, simple(far, insert(2, 1)))
    done = replay(table, tmp_path, sample, "-T", "1")
    assert done.code == 0, done.errors
    assert (done.replay["done"], done.replay["not_started"], done.replay["sessions_begun"]) == (3, 3, 2)
    # the open transaction is rolled back with its session
    assert (done.end["succeeded"], done.end["in_flight"], done.end["failed"]) == (1, 1, 0)
    assert value(table, "SELECT array_agg(session) FROM replayed") == [0]
    assert "number of statements: 3/6 (3 not started)" in done.output


@pytest.mark.parametrize("io", ["epoll", "io_uring"])
def test_an_interrupted_replay_leaves_no_statement_running(table: Server, tmp_path: Path, io: str) -> None:
    sample = Sample()
    for _ in range(3):
        sample.session(0, S, simple(0, "BEGIN"), simple(0, "SELECT pg_sleep(1800)", block=True), simple(1, "COMMIT"))
    sample.session(500 * S, 600 * S, simple(500 * S, "SELECT 1"))
    file, events = sample.write(tmp_path / "replay.jsonl"), tmp_path / "events.jsonl"
    with table.connect() as observer:
        load = Load(table.environment(), observer, f"--replay={file}", f"--events={events}", f"--io={io}")
        load.await_active(3)
        load.assert_signal_ends()
    end = json.loads(events.read_text().splitlines()[-1])
    assert (end["outcome"], end["replay"]["not_started"], end["in_flight"]) == ("interrupted", 4, 3)


@pytest.mark.long
def test_a_statement_that_waits_too_long_is_cancelled(table: Server, tmp_path: Path) -> None:
    done = replay_one(table, tmp_path, simple(1, "SELECT pg_sleep(1800)"), simple(2, insert(0, 1)))
    assert (done.code, done.disagreements) == (0, {"cancelled_waits": 1}), done.errors
    assert value(table, "SELECT count(*) FROM replayed") == 1


def test_a_replay_without_its_database_says_so(server: Server, tmp_path: Path) -> None:
    done = replay_one(server, tmp_path, simple(1, "SELECT 1"), options=["-d", "no_such_database"])
    assert done.code == 1
    assert 'database "no_such_database" does not exist' in done.errors


def test_check_reads_every_line_without_a_server(server: Server, tmp_path: Path) -> None:
    sample = Sample()
    sample.session(0, 10, simple(1, "SELECT 1"), simple(2, "SELECT 2"))
    assert replay(server, tmp_path, sample, "--check", "-p", "1").code == 0
    sample.sessions[0][2][1]["at_us"] = 5
    done = replay(server, tmp_path, sample, "--check", "-p", "1")
    assert done.code == 1
    file = tmp_path / "replay.jsonl"
    assert done.errors.splitlines() == [f"pgdrive: error: {file}:5: at_us goes back from 1000 to 5"]
    # a load reports the line when it reaches it, and its other sessions continue
    sample.session(10, 20, simple(11, "SELECT 3"))
    done = replay(server, tmp_path, sample)
    assert done.code == 2
    assert f"{file}:5: at_us goes back from 1000 to 5" in done.errors
