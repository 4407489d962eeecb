"""Statements, sessions and transactions from small logs of every format."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.capture.logs.log_prefix import COMMON, LinePrefix, recognise_prefix
from pgdyno.capture.logs.log_times import logged_time_us
from pgdyno.errors import UsageError
from pgdyno.records.capture import UNKNOWN_SQLSTATE, Source, Values
from tests.present import present
from tests.unit.capture_log_sample import START, WRITERS, Entry, Log, captured, csvlog, done, error, formats, stderr

pytestmark = pytest.mark.slow

QUERY = "SELECT * FROM t WHERE a = $1 AND b = $2"
DETAIL = "Parameters: $1 = '1', $2 = 'it''s $3 = ''x'''"
AUTHORIZED = Entry("connection authorized: user=app database=shop")
DISCONNECTION = Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]")
LOAD: Log = [
    Entry("connection received: host=[local]", user="", database="", backend="not initialized"),
    AUTHORIZED,
    done("BEGIN", vxid="3/7"),
    Entry(f"duration: 0.100 ms  parse <unnamed>: {QUERY}", vxid="3/7"),
    Entry(f"duration: 0.200 ms  bind <unnamed>: {QUERY}", DETAIL, vxid="3/7"),
    Entry(f"duration: 0.300 ms  execute <unnamed>: {QUERY}", DETAIL, vxid="3/7"),
    done("INSERT INTO t\nVALUES ('a \"b\"\n\tc', 'ü')", 2.5, vxid="3/7"),
    "COMMIT",
    error("INSERT INTO t VALUES (1)", "23505", vxid="3/9"),
    Entry("checkpoint starting: time", user="", database="", pid=7, vxid="", backend="checkpointer"),
    replace(DISCONNECTION, ms=20),
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
    "jsonlog": WRITERS["jsonlog"](LOAD),
    "stderr of Debian": stderr(LOAD, "{stamp} [{pid}] {user}@{database} "),
    "stderr of initdb": stderr(LOAD, "{stamp} [{pid}] "),
    "stderr of RDS, whole seconds": stderr(LOAD, "{seconds}:127.0.0.1(5):{user}@{database}:[{pid}]:"),
    "stderr of pgBadger, whole seconds": stderr(
        LOAD, "{seconds} [{pid}]: [{number}-1] user={user},db={database},app=psql,client=::1 "
    ),
    "stderr of Azure, whole seconds": stderr(LOAD, "{seconds}-{session}-"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_the_same_statements(name: str, tmp_path: Path) -> None:
    found = captured(tmp_path, FORMATS[name])
    expected = EXPECTED
    if name.startswith("stderr"):
        expected = [row if row[6] is None else (*row[:6], UNKNOWN_SQLSTATE) for row in EXPECTED]
    assert [tuple(row[column] for column in COLUMNS) for row in found.rows] == [row[1:] for row in expected]
    assert [row["seq"] for row in found.rows] == list(range(len(expected)))
    capture = found.capture
    assert capture.has_whole_seconds is ("whole seconds" in name)
    if not capture.has_whole_seconds:
        assert [row["at_us"] // 1000 for row in found.rows] == [row[0] for row in expected]
    assert (capture.source, capture.values, capture.database) == (Source.LOG, Values.KEPT, "shop")
    assert (capture.began, capture.calls, capture.sessions, capture.most_sessions) == (START, 5, 1, 1)
    assert capture.transactions == 2
    assert {"background", "other-lines"} & found.left_out.keys()


def test_classes_have_counts_and_times_and_statements_name_them(tmp_path: Path) -> None:
    log = [done(f"SELECT {number}", number + 1) for number in range(100)]
    refused = [error(f"SELEKT '{name}', 17", "42601") for name in "ab"]
    found = captured(tmp_path, [*log, error("SELECT 5", "57014"), "SELECT a FROM t", *refused])
    classes = found.capture.statements
    # a text that the parser refuses is a class of its own
    assert [(each.text, each.calls, each.errors, each.fingerprint is None) for each in classes] == [
        ("SELECT $1", 101, 1, False),
        ("SELEKT $1, $2", 2, 2, True),
        ("SELECT a FROM t", 1, 0, False),
    ]
    assert (classes[0].total_us, classes[0].p50_us, classes[0].p99_us) == (5_050_000, 50_000, 99_000)
    assert [row["statement"] for row in found.statements] == [*[0] * 101, 2, 1, 1]
    # without durations
    found = captured(tmp_path, [Entry("statement: SELECT 1"), Entry("statement: SELECT 2")])
    assert [each.total_us for each in found.capture.statements] == [None]


# ---- how a server logs ----

WAITS = "process 100 {} ShareLock on transaction {} after {} ms"


def test_statements_have_what_the_server_logs_of_them(tmp_path: Path) -> None:
    cases: list[tuple[Log, str, list[tuple[object, ...]]]] = [
        (
            [Entry("statement: SELECT 1", ms=5), Entry("duration: 3.000 ms", ms=8),
             Entry(f"execute S_1: {QUERY}", "parameters: $1 = '7', $2 = NULL", ms=9),
             Entry("duration: 0.500 ms", ms=10), Entry("statement: SELECT 1/0", ms=11),
             error("SELECT 1/0", "22012", ms=12), Entry("statement: SELECT 2", ms=13)],
            "at_us us sql sqlstate name parameters",
            [(0, 3000, "SELECT 1", None, None, None), (4000, 500, QUERY, None, "S_1", ["7", None]),
             (6000, None, "SELECT 1/0", "22012", None, None), (8000, None, "SELECT 2", None, None, None)],
        ),
        (
            [Entry("statement: SELECT 1"), error("SELEKT 2", "42601"), Entry("statement: SELECT 3")],
            "sql sqlstate",
            [("SELECT 1", None), ("SELEKT 2", "42601"), ("SELECT 3", None)],
        ),
        (
            [done("SELECT 1", ms=0), Entry(f"duration: 10.000 ms  parse <unnamed>: {QUERY}", ms=20),
             Entry(f"duration: 20.000 ms  bind <unnamed>: {QUERY}", DETAIL, ms=40),
             Entry(f"execute <unnamed>: {QUERY}", DETAIL, ms=40), Entry("duration: 1.000 ms", ms=41)],
            "us at_us",
            [(1000, 0), (31_000, 10_000)],
        ),
        ([Entry("statement: SELECT 1"), Entry("duration: 1.000 ms"), Entry("statement: SELECT 2")], "us",
         [(1000,), (None,)]),
        (
            ["SELECT 1", Entry(WAITS.format("still waiting for", 5, 1000.1), query="UPDATE"),
             Entry(WAITS.format("acquired", 5, 2345.678), query="UPDATE"), done("UPDATE t SET a = 1", 2400, ms=5000),
             Entry(WAITS.format("still waiting for", 6, 1000.2), ms=6000),
             error("UPDATE t SET a = 2", "57014", ms=7000)],
            "lock_wait_us",
            [(None,), (2_345_678,), (1_000_200,)],
        ),
        (
            ["COPY t FROM STDIN", "BEGIN", "COPY t FROM STDIN", "COMMIT", "BEGIN", "COPY t FROM '/tmp/x'", "SELECT 1"],
            "sql left_out",
            [("BEGIN", None), ("COMMIT", "copy-data"), ("BEGIN", None), ("SELECT 1", "copy-file")],
        ),
    ]  # fmt: skip
    for log, columns, expected in cases:
        assert captured(tmp_path, log).columns(columns) == expected


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    cases: list[tuple[Log, list[str], dict[str, tuple[int, str]]]] = [
        (["SELECT 1", Entry(f"duration: 1.0 ms  execute a: {QUERY}")], ["SELECT 1"], {"no-parameters": (1, "2")}),
        (
            [Entry("duration: 1.0 ms  execute <unnamed>/C_1: SELECT a FROM t"),
             Entry("duration: 1.0 ms  execute fetch from <unnamed>/C_1: SELECT a FROM t"), "FETCH 10 FROM c"],
            ["SELECT a FROM t", "FETCH 10 FROM c"],
            {"portal-fetch": (1, "2")},
        ),
        (["SELECT 1", "COMMIT", "SELECT 2"], ["SELECT 1", "COMMIT", "SELECT 2"], {"no-begin": (1, "2")}),
        (
            ["SELECT 1", Entry("received replication command: IDENTIFY_SYSTEM", pid=5, backend="walsender"),
             Entry("automatic vacuum of table t", pid=6, database="", backend="autovacuum worker"),
             Entry("temporary file: path x, size 1", query="SELECT 1"),
             error("SELECT 1", "22012", pid=9, backend="parallel worker")],
            ["SELECT 1"],
            {"background": (2, "3"), "replication": (1, "2"), "other-lines": (1, "4")},
        ),
        (
            ["SELECT 1", done("SELECT pg_sleep(60)", 60_000, pid=5), done("SELECT 2", 900, pid=6)],
            ["SELECT 1", "SELECT 2"],
            {"began-before": (1, "2")},
        ),
        (["SELECT 1", error("SELECT 2 FROM", "42601"), "SELECT 3"], ["SELECT 1", "SELECT 2 FROM", "SELECT 3"], {}),
    ]  # fmt: skip
    for log, texts, left_out in cases:
        found = captured(tmp_path, log)
        assert (found.texts, found.left_out) == (texts, left_out)


def test_errors_have_the_values_of_their_bind_and_the_codes_of_frequent_messages(tmp_path: Path) -> None:
    bind = Entry(f"duration: 0.100 ms  bind S_1: {QUERY}", DETAIL)
    found = captured(tmp_path, [bind, error(QUERY, "22012"), error(QUERY, "42P01")])
    assert found.columns("kind name parameters sqlstate") == [("extended", "S_1", ["1", "it's $3 = 'x'"], "22012")]
    assert found.left_out["no-parameters"] == (1, "3")
    codes = {
        'duplicate key value violates unique constraint "t_pkey"': "23505",
        'relation "x" does not exist at character 15': "42P01",
        'syntax error at or near "SELEKT"': "42601",
        "canceling statement due to statement timeout": "57014",
        "canceling statement due to lock timeout": "55P03",
        "something of an extension": UNKNOWN_SQLSTATE,
    }
    log = stderr([Entry(message, query="SELECT 1", severity="ERROR") for message in codes])
    assert captured(tmp_path, log).columns("sqlstate") == [(code,) for code in codes.values()]


def test_plans_say_how_many_rows(tmp_path: Path) -> None:
    plans = (
        ("Query Text: x\nSeq Scan on t  (cost=0.0..1.0 rows=9 width=4) (actual time=0.1..0.2 rows=2.00 loops=1)", 2),
        ("Query Text: x\nLimit  (cost=0.0..1.0 rows=9 width=4) (actual rows=7 loops=1)", 7),
        ('{\n "Query Text": "x",\n "Plan": {\n "Node Type": "Result",\n "Actual Rows": 3,\n "Actual Loops": 1}}', 3),
        ("Query Text: x\nUpdate on t  (cost=0.0..1.0 rows=9 width=4) (actual time=0.1..0.2 rows=0 loops=1)", None),
        ("Query Text: x\nSeq Scan on t  (cost=0.0..1.0 rows=9 width=4)", None),
    )
    log = [each for plan, _ in plans for each in (Entry(f"duration: 1.0 ms  plan:\n{plan}"), "SELECT 1", "SELECT 1")]
    assert captured(tmp_path, log).columns("rows") == [(each,) for _, rows in plans for each in (rows, None)]


# ---- transactions ----

TRANSACTIONS: list[tuple[Log, list[int | None]]] = [
    (["BEGIN", "SELECT 1", "COMMIT", "SELECT 2"], [0, 0, 0, None]),
    (["START TRANSACTION", "SAVEPOINT a", "ROLLBACK TO a", "END", "BEGIN WORK", "ABORT"], [0, 0, 0, 0, 1, 1]),
    (["begin", "COMMIT AND CHAIN", "SELECT 1", "ROLLBACK"], [0, 0, 1, 1]),
    (["BEGIN; SELECT 1; COMMIT", "SELECT 2"], [None, None]),
    (["SELECT 1; BEGIN", "SELECT 2", "COMMIT; SELECT 3", "SELECT 4"], [0, 0, 0, None]),
    (["BEGIN", "PREPARE TRANSACTION 'a'", "COMMIT PREPARED 'a'"], [0, 0, None]),
    (["BEGIN", "BEGIN", "SELECT 1", "/* x */ COMMIT", "SELECT 2"], [0, 0, 0, 0, None]),
    (["BEGIN", "COMMIT; BEGIN", "SELECT 1", "END", "SELECT 2"], [0, 0, 1, 1, None]),
    (["BEGIN", "COMMIT; BEGIN; SELECT 1; COMMIT", "SELECT 2"], [0, 0, None]),
    # statements that fail leave the transaction as the server does
    (["SELECT 1", error("COMMIT AND CHAIN", "25P01"), "SELECT 2"], [None, None, None]),
    (["BEGIN", error("COMMIT AND CHAIN", "23503"), "SELECT 2"], [0, 0, None]),
    (["BEGIN", error("COMMIT", "23503"), "SELECT 2"], [0, 0, None]),
    (["BEGIN", error("SELECT 1/0; COMMIT", "22012"), "SELECT 2"], [0, 0, 0]),
    (["BEGIN", error("COMMIT; SELECT 1/0", "22012"), "SELECT 2"], [0, 0, None]),
    (["BEGIN", error("BEGIN", "25P02"), "SELECT 2"], [0, 0, 0]),
    (["SELECT 1", error("BEGIN; SELECT 1/0", "22012"), "SELECT 2"], [None, 0, 0]),
    (["SELECT 1", error("BEGIN; SELECT 1/0; COMMIT", "22012"), "SELECT 2"], [None, 0, 0]),
    (["SELECT 1", error("BEGIN; SELEKT; COMMIT", "42601"), "SELECT 2"], [None, None, None]),
    (["SELECT 1", error("SELECT 1/0; BEGIN", "22012"), "SELECT 2"], [None, None, None]),
    (["SELECT 1", error("BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000"), "SELECT 2"], [None, None, None]),
]


def test_transactions_are_blocks_of_their_sessions(tmp_path: Path) -> None:
    """Each row is a session: one capture of all of them takes hardly longer than one of one."""
    log = [
        replace(done(each) if isinstance(each, str) else each, pid=100 + number, ms=100 * number + place)
        for number, (statements, _) in enumerate(TRANSACTIONS)
        for place, each in enumerate(statements)
    ]
    found = captured(tmp_path, log)
    sessions: list[list[int | None]] = [[] for _ in TRANSACTIONS]
    for session, transaction in found.columns("session transaction"):
        sessions[session].append(transaction)
    for (statements, expected), blocks in zip(TRANSACTIONS, sessions, strict=True):
        assert blocks == expected, statements
    assert found.left_out == {}


@formats
def test_a_part_of_a_log_is_captured(form: str, tmp_path: Path) -> None:
    for span, expected in (
        (("2026-11-23 10:00:01", None), ["SELECT 1", "SELECT 2", "SELECT 3"]),
        (("2026-11-23T10:00:01.500", "2026-11-23 10:00:02"), ["SELECT 2"]),
        (("2026-11-23 11:00:02 CET", "2026-11-23 05:00:03 EST"), ["SELECT 2", "SELECT 3"]),
        ((None, "2026-11-23 10:00"), ["SELECT 0"]),
    ):
        log = WRITERS[form]([done(f"SELECT {number}", ms=1000 * number) for number in range(4)])
        found = captured(tmp_path, log, span_us=tuple(None if each is None else logged_time_us(each) for each in span))
        assert (found.texts, found.left_out) == (expected, {})


@pytest.mark.parametrize("text", ["yesterday", "10:00", "2026-13-01 10:00", "2026-11-23"])
def test_what_is_no_time_of_a_log_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it as the log does"):
        logged_time_us(text)


# ---- sessions ----


def test_sessions_are_in_the_order_of_their_start_and_statements_in_that_of_the_log(tmp_path: Path) -> None:
    log = [
        done("SELECT 'b'", pid=2, ms=50),
        done("SELECT 'a'", pid=1, ms=60),
        replace(DISCONNECTION, pid=2, ms=60),
        done("SELECT 'a2'", pid=1, ms=59),
        done("SELECT 'c'", pid=3, started=-1, ms=1500),
        # one that only connects is part of the load
        replace(AUTHORIZED, pid=4, ms=1600),
        replace(DISCONNECTION, pid=4, ms=1601),
    ]
    found = captured(tmp_path, log)
    assert found.columns("session sql") == [(0, "SELECT 'b'"), (1, "SELECT 'a'"), (1, "SELECT 'a2'"), (2, "SELECT 'c'")]
    for session in range(4):
        times = [row["at_us"] for row in found.rows if row["session"] == session]
        assert times == sorted(times)
    assert [row["kind"] for row in found.rows if row["session"] == 3] == ["connect", "disconnect"]
    assert (found.capture.sessions, found.capture.most_sessions) == (4, 2)
    # a process number that is used again
    received = Entry("connection received: host=[local]", database="[unknown]", user="[unknown]")
    again: Log = ["SELECT 1", DISCONNECTION, received, AUTHORIZED, "SELECT 2", received, "SELECT 3"]
    found = captured(tmp_path, stderr(again))
    assert found.columns("session sql") == [(0, "SELECT 1"), (1, "SELECT 2"), (2, "SELECT 3")]


# ---- what is chosen ----


def test_the_statements_of_the_database_that_is_chosen_or_the_only_known_one_are_captured(tmp_path: Path) -> None:
    found = captured(tmp_path, ["SELECT 1", "SELECT 2", done("SELECT 3", database="wiki", pid=5)], database="wiki")
    assert (found.texts, found.capture.database) == (["SELECT 3"], "wiki")
    assert found.left_out == {"other-database": (2, "1")}
    log: list[Entry | str] = [
        done("SELECT 1", pid=4), Entry("connection received: host=[local]"), AUTHORIZED, "SELECT 2",
        Entry("connection received: host=[local]", pid=5),
        Entry("password authentication failed", severity="FATAL", sqlstate="28P01", pid=5),
    ]  # fmt: skip
    found = captured(tmp_path, stderr(log, "{stamp} [{pid}] "))
    assert (found.capture.database, found.texts, found.capture.sessions) == ("shop", ["SELECT 1", "SELECT 2"], 2)
    log += [Entry("connection authorized: user=app database=wiki", pid=6), done("SELECT 3", pid=6)]
    found = captured(tmp_path / "other", stderr(log, "{stamp} [{pid}] "), database="shop")
    assert (found.texts, found.left_out["other-database"]) == (["SELECT 2"], (2, "1"))


@formats
def test_of_others_and_of_what_writes_nothing_is_left(form: str, tmp_path: Path) -> None:
    log: Log = ["SELECT 1", "UPDATE t SET a = 1", done("SELECT 2", user="other", pid=101), "SELECT a FROM t FOR UPDATE"]
    found = captured(tmp_path, WRITERS[form](log), user="app", only_reads=True)
    assert (found.texts, found.left_out) == (["SELECT 1"], {"other-user": (1, "3"), "writes": (2, "2")})


OWN: list[Log] = [
    ["SET /* pgdyno */ default_transaction_read_only = on", "SELECT 2"],
    ["SHOW lock_timeout", "\n    SELECT /* pgdyno */ 'active'"],
    [Entry("connection authorized: user=a database=b application_name=pgdyno capture"), "A"],
    [Entry("connection authorized: user=a database=b application_name=pgprobe SSL enabled"), "A"],
    ["select /* pgdyno */ (pid = 7)::int4", "set application_name = 'pgdrive'"],
    ["BEGIN", "EXECUTE pgprobe_3"],
]


def test_pgdynos_own_sessions_are_left_out_where_the_log_has_no_application_names(tmp_path: Path) -> None:
    log = [done("SELECT 1")]
    for pid, entries in enumerate(OWN, 200):
        log += [
            replace(done(each) if isinstance(each, str) else each, pid=pid, ms=5000 + 2 * pid + place)
            for place, each in enumerate(entries)
        ]
    found = captured(tmp_path, stderr(log))
    assert (found.texts, found.left_out) == (["SELECT 1"], {})
    assert found.capture.span_us < 1_000_000


# ---- prefixes and times ----


@pytest.mark.parametrize("text", COMMON)
def test_each_usual_prefix_is_recognised(text: str) -> None:
    values = {
        "m": "2026-11-23 10:00:00.123 CET", "t": "2026-11-23 10:00:00 CET", "p": "123", "r": "10.0.0.1(4321)",
        "h": "10.0.0.1", "u": "app", "d": "shop", "a": "psql", "l": "7", "e": "00000", "c": "6b048515.1996", "x": "0",
        "s": "2026-11-23 09:59:00 CET", "v": "3/12", "q": "",
    }  # fmt: skip
    line = re.sub("%([a-z])", lambda match: values[match[1]], text) + "LOG:  duration: 1.0 ms  statement: SELECT 1"
    found = present(recognise_prefix(f"{line}\n" * 3))
    # the first of several that say the same of such a line
    groups = LinePrefix.parse(text).groups
    header, own = (present(re.match(each.first_line(), line)) for each in (found, LinePrefix.parse(text)))
    assert {name: header[found.groups.index(name) + 1] for name in groups} == {
        name: own[groups.index(name) + 1] for name in groups
    }


def test_a_prefix_may_be_given_and_verbose_errors_have_their_code(tmp_path: Path) -> None:
    log = stderr(["SELECT 1", error("SELECT 2", "22012")], "<{sqlstate}|{pid}|{database}> {stamp} ")
    found = captured(tmp_path, log, prefix="<%e|%p|%d> %m ")
    assert found.columns("sql sqlstate") == [("SELECT 1", None), ("SELECT 2", "22012")]
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
    assert captured(tmp_path, log).columns("sql sqlstate") == [("SELECT 1", None), ("SELECT 1/0", "22012")]


UNKNOWN_PREFIX = stderr(["SELECT 1"], "<{sqlstate}|{pid}|{database}> {stamp} ")
TWO_DATABASES = csvlog(["SELECT 1", "SELECT 2", done("SELECT 3", database="wiki", pid=5)])


def test_a_choice_that_the_log_does_not_allow_is_an_error(tmp_path: Path) -> None:
    for log, options, message, hint in (
        (csvlog([Entry("duration: 0.500 ms")]), {}, "1 time of a statement without its text",
         "log_min_duration_statement = 0"),
        (TWO_DATABASES, {}, r"shop \(2 statements\), wiki \(1 statement\)", "--database"),
        (csvlog(["SELECT 1"]), {"database": "wiki"}, "no statement in the database wiki", "it has: shop"),
        (UNKNOWN_PREFIX, {}, r"0\.log:1: ", "--prefix"),
        (UNKNOWN_PREFIX, {"prefix": "%p "}, "has no time", ""),
        (UNKNOWN_PREFIX, {"prefix": "%m "}, "does not identify sessions", ""),
        (UNKNOWN_PREFIX, {"prefix": "%m [%p] %Z "}, "%Z is unknown", ""),
        (stderr(LOAD, "{stamp} [{pid}] "), {"user": "app"}, "no statement is left; left out: 4 ", ""),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message) as caught:
            captured(tmp_path, log, **options)
        assert hint in (caught.value.hint or "")


def test_times_have_the_zone_of_the_log_and_the_end_of_summer_time_is_no_step(tmp_path: Path) -> None:
    for zone, hour in (("UTC", 10), ("CET", 9), ("+0530", 4), ("-03", 13), ("EST", 15), ("WIB", 3), ("EAT", 7)):
        assert logged_time_us(f"2026-11-23 10:00:00.000 {zone}") // 3_600_000_000 % 24 == hour
    for summer, winter in (("CEST", "CET"), ("IDT", "IST"), ("ACDT", "ACST"), ("HDT", "HST")):
        before = csvlog([done("SELECT 1", ms=3_599_000)]).replace("UTC", summer)
        found = captured(tmp_path, before + csvlog([done("SELECT 2", ms=2_000)]).replace("UTC", winter))
        assert (found.columns("at_us"), found.left_out) == ([(0,), (2_999_000,)], {})
