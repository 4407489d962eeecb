"""Statements, sessions and transactions from small logs of every format."""

import gzip
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.capture.logs.log_prefix import COMMON, LinePrefix, recognise_prefix
from pgdyno.capture.logs.log_times import logged_time_us
from pgdyno.errors import UsageError
from pgdyno.records.capture import UNKNOWN_SQLSTATE, Source, Values
from tests.present import present
from tests.unit.capture_log_sample import KEPT, START, Entry, captured, csvlog, done, error, jsonlog, rows_of, stderr

pytestmark = pytest.mark.slow

QUERY = "SELECT * FROM t WHERE a = $1 AND b = $2"
DETAIL = "Parameters: $1 = '1', $2 = 'it''s $3 = ''x'''"
LOAD = [
    Entry("connection received: host=[local]", user="", database="", backend="not initialized"),
    Entry("connection authorized: user=app database=shop"),
    done("BEGIN", vxid="3/7"),
    Entry(f"duration: 0.100 ms  parse <unnamed>: {QUERY}", vxid="3/7"),
    Entry(f"duration: 0.200 ms  bind <unnamed>: {QUERY}", DETAIL, vxid="3/7"),
    Entry(f"duration: 0.300 ms  execute <unnamed>: {QUERY}", DETAIL, vxid="3/7"),
    done("INSERT INTO t\nVALUES ('a \"b\"\n\tc', 'ü')", 2.5, vxid="3/7"),
    done("COMMIT"),
    error("INSERT INTO t VALUES (1)", "23505", vxid="3/9"),
    Entry("checkpoint starting: time", user="", database="", pid=7, vxid="", backend="checkpointer"),
    Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]", ms=20),
]
EXPECTED = [
    (0, "connect", None, None, None, None, None),
    (1, "simple", 1000, "BEGIN", None, 0, None),
    (4, "extended", 600, QUERY, ["1", "it's $3 = 'x'"], 0, None),
    (4, "simple", 2500, "INSERT INTO t\nVALUES ('a \"b\"\n\tc', 'ü')", None, 0, None),
    (6, "simple", 1000, "COMMIT", None, 0, None),
    (8, "simple", None, "INSERT INTO t VALUES (1)", None, None, "23505"),
    (20, "disconnect", None, None, None, None, None),
]
"""Start in ms, kind, µs, text, parameters, transaction, error."""
COLUMNS = ("kind", "us", "sql", "parameters", "transaction", "sqlstate")
FORMATS = {
    "csvlog": csvlog(LOAD),
    "csvlog of 13": csvlog(LOAD, 24),
    "csvlog of 9.6": csvlog(LOAD, 23),
    "jsonlog": jsonlog(LOAD),
    "stderr of Debian": stderr(LOAD, "{stamp} [{pid}] {user}@{database} "),
    "stderr of RDS": stderr(LOAD, "{seconds}:127.0.0.1(5):{user}@{database}:[{pid}]:"),
    "stderr of pgBadger": stderr(
        LOAD, "{seconds} [{pid}]: [{number}-1] user={user},db={database},app=psql,client=::1 "
    ),
    "stderr of Azure": stderr(LOAD, "{seconds}-{session}-"),
    "stderr of initdb": stderr(LOAD, "{stamp} [{pid}] "),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_the_same_statements(name: str, tmp_path: Path) -> None:
    found = captured(tmp_path, FORMATS[name])
    expected = EXPECTED
    if name.startswith("stderr"):
        expected = [row if row[6] is None else (*row[:6], UNKNOWN_SQLSTATE) for row in EXPECTED]
    assert [tuple(row[column] for column in COLUMNS) for row in found.rows] == [row[1:] for row in expected]
    assert [row["seq"] for row in found.rows] == list(range(len(expected)))
    if "%t" not in name and name in ("csvlog", "csvlog of 13", "csvlog of 9.6", "jsonlog", "stderr of Debian"):
        assert [row["at_us"] // 1000 for row in found.rows] == [row[0] for row in expected]
    capture = found.capture
    assert (capture.source, capture.values, capture.database) == (Source.LOG, Values.KEPT, "shop")
    assert (capture.began, capture.calls, capture.sessions, capture.most_sessions) == (START, 5, 1, 1)
    assert capture.transactions == 2
    assert {"background", "other-lines"} & found.left_out.keys()


def test_classes_have_counts_and_times(tmp_path: Path) -> None:
    log = [done(f"SELECT {number}", number + 1) for number in range(100)]
    log += [error("SELECT 5", "57014"), done("SELECT a FROM t")]
    classes = captured(tmp_path, csvlog(log)).capture.statements
    assert [(each.text, each.calls, each.errors) for each in classes] == [
        ("SELECT $1", 101, 1),
        ("SELECT a FROM t", 1, 0),
    ]
    assert (classes[0].total_us, classes[0].p50_us, classes[0].p99_us) == (5_050_000, 50_000, 99_000)
    assert classes[0].fingerprint is not None


def test_statements_name_their_class(tmp_path: Path) -> None:
    found = captured(tmp_path, csvlog([done("SELECT 1"), done("UPDATE t SET a = 2"), done("UPDATE t SET a = 'x'")]))
    texts = [found.capture.statements[row["statement"]].text for row in found.statements]
    assert texts == ["SELECT $1", "UPDATE t SET a = $1", "UPDATE t SET a = $1"]


def test_a_text_that_the_parser_refuses_is_a_class_of_its_own(tmp_path: Path) -> None:
    log = [error("SELEKT 'a', 17", "42601"), error("SELEKT 'b', 18", "42601")]
    (found,) = captured(tmp_path, csvlog(log)).capture.statements
    assert (found.text, found.fingerprint, found.calls, found.errors) == ("SELEKT $1, $2", None, 2, 2)


# ---- how a server logs ----


def test_statements_that_are_logged_before_they_run_take_the_duration_that_follows(tmp_path: Path) -> None:
    log = [
        Entry("statement: SELECT 1", ms=5),
        Entry("duration: 3.000 ms", ms=8),
        Entry(f"execute S_1: {QUERY}", "parameters: $1 = '7', $2 = NULL", ms=9),
        Entry("duration: 0.500 ms", ms=10),
        Entry("statement: SELECT 1/0", ms=11),
        Entry("division by zero", query="SELECT 1/0", severity="ERROR", sqlstate="22012", ms=12),
        Entry("statement: SELECT 2", ms=13),
    ]
    rows = captured(tmp_path, csvlog(log)).statements
    assert [(row["at_us"] // 1000, row["us"], row["sql"], row["sqlstate"]) for row in rows] == [
        (0, 3000, "SELECT 1", None),
        (4, 500, QUERY, None),
        (6, None, "SELECT 1/0", "22012"),
        (8, None, "SELECT 2", None),
    ]
    assert (rows[1]["name"], rows[1]["parameters"]) == ("S_1", ["7", None])


def test_statements_without_durations_have_no_time(tmp_path: Path) -> None:
    found = captured(tmp_path, csvlog([Entry("statement: SELECT 1"), Entry("statement: SELECT 2")]))
    assert [row["us"] for row in found.statements] == [None, None]
    assert [each.total_us for each in found.capture.statements] == [None]


def test_the_error_of_a_text_that_the_parser_refuses_is_its_own(tmp_path: Path) -> None:
    log = [Entry("statement: SELECT 1"), error("SELEKT 2", "42601"), Entry("statement: SELECT 3")]
    rows = captured(tmp_path, csvlog(log)).statements
    assert [(row["sql"], row["sqlstate"]) for row in rows] == [
        ("SELECT 1", None), ("SELEKT 2", "42601"), ("SELECT 3", None),
    ]  # fmt: skip


def test_a_statement_that_is_logged_before_it_runs_has_the_times_of_its_parse_and_bind(tmp_path: Path) -> None:
    log = [
        done("SELECT 1", ms=0),
        Entry(f"duration: 10.000 ms  parse <unnamed>: {QUERY}", ms=20),
        Entry(f"duration: 20.000 ms  bind <unnamed>: {QUERY}", DETAIL, ms=40),
        Entry(f"execute <unnamed>: {QUERY}", DETAIL, ms=40),
        Entry("duration: 1.000 ms", ms=41),
    ]
    _, row = captured(tmp_path, csvlog(log)).statements
    assert (row["us"], row["at_us"]) == (31_000, 10_000)


def test_times_without_texts_are_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 time of a statement without its text") as caught:
        captured(tmp_path, csvlog([Entry("duration: 0.500 ms")]))
    assert "log_min_duration_statement = 0" in (caught.value.hint or "")


def test_the_error_of_a_prepared_statement_has_the_values_of_its_bind(tmp_path: Path) -> None:
    log = [Entry(f"duration: 0.100 ms  bind S_1: {QUERY}", DETAIL), error(QUERY, "22012"), error(QUERY, "42P01")]
    found = captured(tmp_path, csvlog(log))
    (row,) = found.statements
    assert (row["kind"], row["name"], row["parameters"], row["sqlstate"]) == (
        "extended", "S_1", ["1", "it's $3 = 'x'"], "22012",
    )  # fmt: skip
    assert found.left_out["no-parameters"] == (1, "3")


def test_values_that_the_server_does_not_log_are_missed(tmp_path: Path) -> None:
    found = captured(tmp_path, csvlog([done("SELECT 1"), Entry(f"duration: 1.0 ms  execute a: {QUERY}")]))
    assert found.left_out == {"no-parameters": (1, "2")}


def test_lock_waits_are_of_the_statement_that_waited(tmp_path: Path) -> None:
    log = [
        done("SELECT 1"),
        Entry("process 100 still waiting for ShareLock on transaction 5 after 1000.100 ms", query="UPDATE"),
        Entry("process 100 acquired ShareLock on transaction 5 after 2345.678 ms", query="UPDATE"),
        done("UPDATE t SET a = 1", 2400, ms=5000),
        Entry("process 100 still waiting for ShareLock on transaction 6 after 1000.200 ms", ms=6000),
        error("UPDATE t SET a = 2", "57014", ms=7000),
    ]
    rows = captured(tmp_path, csvlog(log)).statements
    assert [row["lock_wait_us"] for row in rows] == [None, 2_345_678, 1_000_200]


@pytest.mark.parametrize(
    ("plan", "rows"),
    [
        ("Query Text: x\nSeq Scan on t  (cost=0.0..1.0 rows=9 width=4) (actual time=0.1..0.2 rows=2.00 loops=1)", 2),
        ("Query Text: x\nLimit  (cost=0.0..1.0 rows=9 width=4) (actual rows=7 loops=1)", 7),
        ('{\n "Query Text": "x",\n "Plan": {\n "Node Type": "Result",\n "Actual Rows": 3,\n "Actual Loops": 1}}', 3),
        ("Query Text: x\nUpdate on t  (cost=0.0..1.0 rows=9 width=4) (actual time=0.1..0.2 rows=0 loops=1)", None),
        ("Query Text: x\nSeq Scan on t  (cost=0.0..1.0 rows=9 width=4)", None),
    ],
)
def test_plans_say_how_many_rows(plan: str, rows: int | None, tmp_path: Path) -> None:
    log = [Entry(f"duration: 1.000 ms  plan:\n{plan}"), done("SELECT a FROM t"), done("SELECT a FROM t")]
    assert [row["rows"] for row in captured(tmp_path, csvlog(log)).statements] == [rows, None]


def test_further_rows_of_a_portal_are_left_out_and_fetch_is_not(tmp_path: Path) -> None:
    log = [
        Entry("duration: 1.0 ms  execute <unnamed>/C_1: SELECT a FROM t"),
        Entry("duration: 1.0 ms  execute fetch from <unnamed>/C_1: SELECT a FROM t"),
        done("FETCH 10 FROM c"),
    ]
    found = captured(tmp_path, csvlog(log))
    assert found.texts == ["SELECT a FROM t", "FETCH 10 FROM c"]
    assert [row["name"] for row in found.statements] == ["", None]
    assert found.left_out == {"portal-fetch": (1, "2")}


@pytest.mark.parametrize(
    ("message", "sqlstate"),
    [
        ('duplicate key value violates unique constraint "t_pkey"', "23505"),
        ('relation "x" does not exist at character 15', "42P01"),
        ('syntax error at or near "SELEKT"', "42601"),
        ("canceling statement due to statement timeout", "57014"),
        ("canceling statement due to lock timeout", "55P03"),
        ("something of an extension", UNKNOWN_SQLSTATE),
    ],
)
def test_logs_of_text_have_the_codes_of_frequent_errors(message: str, sqlstate: str, tmp_path: Path) -> None:
    log = stderr([Entry(message, query="SELECT 1", severity="ERROR")], "{stamp} [{pid}] ")
    assert [row["sqlstate"] for row in captured(tmp_path, log).statements] == [sqlstate]


# ---- transactions ----


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["BEGIN", "SELECT 1", "COMMIT", "SELECT 2"], [0, 0, 0, None]),
        (["START TRANSACTION", "SAVEPOINT a", "ROLLBACK TO a", "END", "BEGIN WORK", "ABORT"], [0, 0, 0, 0, 1, 1]),
        (["begin", "COMMIT AND CHAIN", "SELECT 1", "ROLLBACK"], [0, 0, 1, 1]),
        (["BEGIN; SELECT 1; COMMIT", "SELECT 2"], [None, None]),
        (["SELECT 1; BEGIN", "SELECT 2", "COMMIT; SELECT 3", "SELECT 4"], [0, 0, 0, None]),
        (["BEGIN", "PREPARE TRANSACTION 'a'", "COMMIT PREPARED 'a'"], [0, 0, None]),
        (["BEGIN", "BEGIN", "SELECT 1", "/* x */ COMMIT", "SELECT 2"], [0, 0, 0, 0, None]),
        (["BEGIN", "COMMIT; BEGIN", "SELECT 1", "END", "SELECT 2"], [0, 0, 1, 1, None]),
        (["BEGIN", "COMMIT; BEGIN; SELECT 1; COMMIT", "SELECT 2"], [0, 0, None]),
    ],
)
def test_transactions_are_blocks(statements: list[str], expected: list[int | None], tmp_path: Path) -> None:
    found = captured(tmp_path, csvlog([done(each) for each in statements]))
    assert [row["transaction"] for row in found.statements] == expected
    assert found.left_out == {}


@pytest.mark.parametrize(
    ("first", "failed", "sqlstate", "expected"),
    [
        ("SELECT 1", "COMMIT AND CHAIN", "25P01", [None, None, None]),
        ("BEGIN", "COMMIT AND CHAIN", "23503", [0, 0, None]),
        ("BEGIN", "COMMIT", "23503", [0, 0, None]),
        ("BEGIN", "SELECT 1/0; COMMIT", "22012", [0, 0, 0]),
        ("BEGIN", "COMMIT; SELECT 1/0", "22012", [0, 0, None]),
        ("BEGIN", "BEGIN", "25P02", [0, 0, 0]),
        ("SELECT 1", "BEGIN; SELECT 1/0", "22012", [None, 0, 0]),
        ("SELECT 1", "BEGIN; SELECT 1/0; COMMIT", "22012", [None, 0, 0]),
        ("SELECT 1", "BEGIN; SELEKT; COMMIT", "42601", [None, None, None]),
        ("SELECT 1", "SELECT 1/0; BEGIN", "22012", [None, None, None]),
        ("SELECT 1", "BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000", [None, None, None]),
    ],
)
def test_statements_that_fail_leave_the_transaction_as_the_server_does(
    first: str, failed: str, sqlstate: str, expected: list[int | None], tmp_path: Path
) -> None:
    found = captured(tmp_path, csvlog([done(first), error(failed, sqlstate), done("SELECT 2")]))
    assert [row["transaction"] for row in found.statements] == expected
    assert found.left_out == {}


def test_a_transaction_says_that_a_statement_of_it_was_left_out(tmp_path: Path) -> None:
    texts = ["COPY t FROM STDIN", "BEGIN", "COPY t FROM STDIN", "COMMIT", "BEGIN", "COPY t FROM '/tmp/x'", "SELECT 1"]
    found = captured(tmp_path, csvlog([done(each) for each in texts]))
    expected = [("BEGIN", None), ("COMMIT", "copy-data"), ("BEGIN", None), ("SELECT 1", "copy-file")]
    assert [(row["sql"], row["left_out"]) for row in found.statements] == expected


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (("2026-11-23 10:00:01", None), ["SELECT 1", "SELECT 2", "SELECT 3"]),
        (("2026-11-23T10:00:01.500", "2026-11-23 10:00:02"), ["SELECT 2"]),
        (("2026-11-23 11:00:02 CET", "2026-11-23 05:00:03 EST"), ["SELECT 2", "SELECT 3"]),
        ((None, "2026-11-23 10:00"), ["SELECT 0"]),
    ],
)
@pytest.mark.parametrize("form", [csvlog, jsonlog, lambda entries: stderr(entries, "{stamp} [{session}] {database} ")])
def test_a_part_of_a_log_is_captured(
    form: Callable[[list[Entry]], str], span: tuple[str | None, str | None], expected: list[str], tmp_path: Path
) -> None:
    entries = [done(f"SELECT {number}", ms=1000 * number) for number in range(4)]
    first, last = (None if each is None else logged_time_us(each) for each in span)
    prefix = "%m [%c] %d " if form not in (csvlog, jsonlog) else None
    options = replace(KEPT, span_us=(first, last), prefix=prefix)
    found = captured(tmp_path, form(entries), options=options)
    assert [row["sql"] for row in found.statements] == expected
    assert found.left_out == {}


@pytest.mark.parametrize("text", ["yesterday", "10:00", "2026-13-01 10:00", "2026-11-23"])
def test_what_is_no_time_of_a_log_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it as the log does"):
        logged_time_us(text)


def test_a_transaction_without_its_begin_is_counted(tmp_path: Path) -> None:
    found = captured(tmp_path, csvlog([done("SELECT 1"), done("COMMIT"), done("SELECT 2")]))
    assert found.left_out == {"no-begin": (1, "2")}
    assert found.capture.calls == 3


# ---- sessions ----


def test_sessions_are_in_the_order_of_their_start_and_statements_in_that_of_the_log(tmp_path: Path) -> None:
    log = [
        done("SELECT 'b'", pid=2, ms=50),
        done("SELECT 'a'", pid=1, ms=60),
        Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]", pid=2, ms=60),
        done("SELECT 'a2'", pid=1, ms=59),
        done("SELECT 'c'", pid=3, started=-1, ms=1500),
    ]
    found = captured(tmp_path, csvlog(log))
    assert [(row["session"], row["sql"]) for row in found.statements] == [
        (0, "SELECT 'b'"), (1, "SELECT 'a'"), (1, "SELECT 'a2'"), (2, "SELECT 'c'"),
    ]  # fmt: skip
    for session in range(3):
        times = [row["at_us"] for row in found.rows if row["session"] == session]
        assert times == sorted(times)
    assert (found.capture.sessions, found.capture.most_sessions) == (3, 2)


def test_a_process_number_that_is_used_again_is_another_session(tmp_path: Path) -> None:
    log = [
        done("SELECT 1"),
        Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]"),
        Entry("connection received: host=[local]", database="[unknown]", user="[unknown]"),
        Entry("connection authorized: user=app database=shop"),
        done("SELECT 2"),
        Entry("connection received: host=[local]", database="[unknown]", user="[unknown]"),
        done("SELECT 3"),
    ]
    found = captured(tmp_path, stderr(log, "{stamp} [{pid}] {user}@{database} "))
    assert [(row["session"], row["sql"]) for row in found.statements] == [
        (0, "SELECT 1"), (1, "SELECT 2"), (2, "SELECT 3"),
    ]  # fmt: skip


def test_files_are_read_in_the_order_of_their_first_time_and_compressed_ones_too(tmp_path: Path) -> None:
    first, second = tmp_path / "b.csv.gz", tmp_path / "a.csv"
    first.write_bytes(gzip.compress(csvlog([done("SELECT 1", ms=0), done("SELECT 2", ms=1)]).encode()))
    second.write_text(csvlog([done("SELECT 3", ms=2)]))

    capture_logs([second, first, second], tmp_path / "capture", KEPT)
    assert [row["sql"] for row in rows_of(tmp_path / "capture") if row["sql"]] == ["SELECT 1", "SELECT 2", "SELECT 3"]


def test_a_session_that_only_connects_is_part_of_the_load(tmp_path: Path) -> None:
    log = [
        done("SELECT 1"),
        Entry("connection received: host=[local]", user="", database="", pid=5),
        Entry("connection authorized: user=app database=shop", pid=5),
        Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]", pid=5),
    ]
    found = captured(tmp_path, csvlog(log))
    assert [row["kind"] for row in found.rows if row["session"] == 1] == ["connect", "disconnect"]


# ---- what is chosen ----


def test_several_databases_need_a_choice(tmp_path: Path) -> None:
    log = csvlog([done("SELECT 1"), done("SELECT 2"), done("SELECT 3", database="wiki", pid=5)])
    with pytest.raises(UsageError, match=r"shop \(2 statements\), wiki \(1 statement\)") as caught:
        captured(tmp_path, log)
    assert "--database" in (caught.value.hint or "")
    found = captured(tmp_path, log, options=replace(KEPT, database="wiki"))
    assert (found.texts, found.capture.database) == (["SELECT 3"], "wiki")
    assert found.left_out == {"other-database": (2, "1")}


def test_a_session_of_an_unknown_database_is_of_the_only_known_one(tmp_path: Path) -> None:
    log = [
        done("SELECT 1", pid=4),
        Entry("connection received: host=[local]"),
        Entry("connection authorized: user=app database=shop"),
        done("SELECT 2"),
        Entry("connection received: host=[local]", pid=5),
        Entry("password authentication failed", severity="FATAL", sqlstate="28P01", pid=5),
    ]
    found = captured(tmp_path, stderr(log, "{stamp} [{pid}] "))
    assert (found.capture.database, found.texts, found.capture.sessions) == ("shop", ["SELECT 1", "SELECT 2"], 2)
    other = tmp_path / "other"
    other.mkdir()
    log += [Entry("connection authorized: user=app database=wiki", pid=6), done("SELECT 3", pid=6)]
    found = captured(other, stderr(log, "{stamp} [{pid}] "), options=replace(KEPT, database="shop"))
    assert (found.texts, found.left_out["other-database"]) == (["SELECT 2"], (2, "1"))


def test_a_database_that_the_log_does_not_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no statement in the database wiki") as caught:
        captured(tmp_path, csvlog([done("SELECT 1")]), options=replace(KEPT, database="wiki"))
    assert caught.value.hint == "it has: shop"


def test_lines_of_other_processes_are_counted(tmp_path: Path) -> None:
    log = [
        done("SELECT 1"),
        Entry("received replication command: IDENTIFY_SYSTEM", pid=5, backend="walsender"),
        Entry("automatic vacuum of table t", pid=6, database="", backend="autovacuum worker"),
        Entry("temporary file: path x, size 1", query="SELECT 1"),
        error("SELECT 1", "22012", pid=9, backend="parallel worker"),
    ]
    found = captured(tmp_path, csvlog(log))
    assert found.texts == ["SELECT 1"]
    assert found.left_out == {"background": (2, "3"), "replication": (1, "2"), "other-lines": (1, "4")}


@pytest.mark.parametrize(
    "own",
    [
        [done("SET /* pgdyno */ default_transaction_read_only = on", pid=9), done("SELECT 2", pid=9)],
        [done("SHOW lock_timeout", pid=9), done("\n    SELECT /* pgdyno */ 'active'", pid=9)],
        [Entry("connection authorized: user=a database=b application_name=pgdyno capture", pid=9), done("A", pid=9)],
        [
            Entry("connection authorized: user=a database=b application_name=pgprobe SSL enabled", pid=9),
            done("A", pid=9),
        ],
        [done("select /* pgdyno */ (pid = 7)::int4", pid=9), done("set application_name = 'pgdrive'", pid=9)],
        [done("BEGIN", pid=9), done("EXECUTE pgprobe_3", pid=9)],
    ],
    ids=["a setting", "a sample", "a connection", "the probe connects", "a pooler", "the probe"],
)
def test_pgdynos_own_sessions_are_left_out_where_the_log_has_no_application_names(
    own: list[Entry], tmp_path: Path
) -> None:
    log = [done("SELECT 1"), *(replace(each, ms=ms) for ms, each in enumerate(own, 5000))]
    found = captured(tmp_path, stderr(log, "{stamp} [{pid}] {user}@{database} "))
    assert found.texts == ["SELECT 1"]
    assert not found.left_out
    assert found.capture.span_us < 1_000_000


# ---- prefixes ----


@pytest.mark.parametrize("text", COMMON)
def test_each_usual_prefix_is_recognised(text: str) -> None:
    values = {
        "m": "2026-11-23 10:00:00.123 CET", "t": "2026-11-23 10:00:00 CET", "p": "123", "r": "10.0.0.1(4321)",
        "h": "10.0.0.1", "u": "app", "d": "shop", "a": "psql", "l": "7", "e": "00000", "c": "6b048515.1996", "x": "0",
        "s": "2026-11-23 09:59:00 CET", "v": "3/12", "q": "",
    }  # fmt: skip
    line = text
    for letter, value in values.items():
        line = line.replace(f"%{letter}", value)
    found = present(recognise_prefix(f"{line}LOG:  duration: 1.0 ms  statement: SELECT 1\n" * 3))
    # the first of several that say the same of such a line
    groups = LinePrefix.of(text).groups
    header = re.match(found.first_line(), f"{line}LOG:  duration: 1.0 ms  statement: SELECT 1")
    own = present(re.match(LinePrefix.of(text).first_line(), f"{line}LOG:  duration: 1.0 ms  statement: SELECT 1"))
    assert {name: present(header)[found.groups.index(name) + 1] for name in groups} == {
        name: own[groups.index(name) + 1] for name in groups
    }


@pytest.mark.parametrize(
    ("name", "expected"), [("stderr of RDS", True), ("stderr of Debian", False), ("csvlog", False)]
)
def test_a_log_without_milliseconds_says_so(name: str, expected: bool, tmp_path: Path) -> None:
    assert captured(tmp_path, FORMATS[name]).capture.has_whole_seconds is expected


def test_another_prefix_is_given(tmp_path: Path) -> None:
    log = stderr([done("SELECT 1"), error("SELECT 2", "22012")], "<{sqlstate}|{pid}|{database}> {stamp} ")
    with pytest.raises(UsageError, match=r"0\.log:1: ") as caught:
        captured(tmp_path, log)
    assert "--prefix" in (caught.value.hint or "")
    found = captured(tmp_path, log, options=replace(KEPT, prefix="<%e|%p|%d> %m "))
    assert [(row["sql"], row["sqlstate"]) for row in found.statements] == [("SELECT 1", None), ("SELECT 2", "22012")]


@pytest.mark.parametrize(
    ("prefix", "words"),
    [("%p ", "has no time"), ("%m ", "does not identify sessions"), ("%m [%p] %Z ", "%Z is unknown")],
)
def test_a_prefix_that_says_too_little_is_an_error(prefix: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        captured(tmp_path, stderr([done("SELECT 1")], "{stamp} [{pid}] "), options=Options(prefix=prefix))


def test_verbose_errors_have_their_code(tmp_path: Path) -> None:
    log = "".join(
        f"2026-11-23 10:00:00.000 UTC [5] {line}\n"
        for line in (
            "LOG:  00000: duration: 1.000 ms  statement: SELECT 1",
            "LOCATION:  exec_simple_query, postgres.c:1361",
            "ERROR:  22012: division by zero",
            "LOCATION:  int4div, int.c:846",
            "STATEMENT:  SELECT 1/0",
            "LOG:  00000: checkpoint starting: time",
        )
    )
    rows = captured(tmp_path, log).statements
    assert [(row["sql"], row["sqlstate"]) for row in rows] == [("SELECT 1", None), ("SELECT 1/0", "22012")]


@pytest.mark.parametrize(
    ("zone", "hour"), [("UTC", 10), ("CET", 9), ("+0530", 4), ("-03", 13), ("EST", 15), ("WIB", 3), ("EAT", 7)]
)
def test_the_beginning_of_a_capture_knows_the_zone_of_the_log(zone: str, hour: int, tmp_path: Path) -> None:
    assert captured(tmp_path, csvlog([done("SELECT 1")]).replace("UTC", zone)).capture.began.hour == hour


@pytest.mark.parametrize(("summer", "winter"), [("CEST", "CET"), ("IDT", "IST"), ("ACDT", "ACST"), ("HDT", "HST")])
def test_the_end_of_summer_time_is_no_step_of_the_clock(summer: str, winter: str, tmp_path: Path) -> None:
    before = csvlog([done("SELECT 1", ms=3_599_000)]).replace("UTC", summer)
    after = csvlog([done("SELECT 2", ms=2_000)]).replace("UTC", winter)
    found = captured(tmp_path, before + after)
    assert found.left_out == {}
    assert [row["at_us"] for row in found.statements] == [0, 2_999_000]


@pytest.mark.parametrize(
    "format_of", [csvlog, jsonlog, lambda load: stderr(load, "{stamp} [{pid}] {user}@{database} ")]
)
def test_of_others_and_of_what_writes_nothing_is_left(format_of: Callable[[list[Entry]], str], tmp_path: Path) -> None:
    load = [
        done("SELECT 1"),
        done("UPDATE t SET a = 1"),
        done("SELECT 2", user="other", pid=101),
        done("SELECT a FROM t FOR UPDATE"),
    ]
    options = replace(KEPT, user="app", only_reads=True)
    found = captured(tmp_path, format_of(load), options=options)
    assert [row["sql"] for row in found.statements] == ["SELECT 1"]
    assert found.left_out == {"other-user": (1, "3"), "writes": (2, "2")}


def test_a_log_without_users_cannot_choose_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no statement is left; left out: 4 "):
        captured(tmp_path, stderr(LOAD, "{stamp} [{pid}] "), options=replace(KEPT, user="app"))
