"""Logs as services and containers export them, without the wrapper; a statement whose text may be cut is left out."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pgdyno.capture.logs import log_blocks
from pgdyno.errors import UsageError
from tests.unit.capture_log_sample import WRITERS, Captured, Entry, captured, csvlog, done, formats, jsonlog

TEXTS = ["SELECT 1", "DELETE FROM cart\nWHERE id = 7", "\n  UPDATE cart\n  SET qty = 2", "SELECT 'last'"]
BEGIN = "2024-05-01 10:00:00.{:03} UTC [4711] app@shop "
ENTRIES = [f"duration: 1.0 ms  statement: {text}" for text in TEXTS] + ["duration: 0.1 ms  plan:"]
MESSAGES = [f"{BEGIN.format(number)}LOG:  {entry}".replace("\n", "\n\t") for number, entry in enumerate(ENTRIES)]
LINES = [line for message in MESSAGES for line in message.split("\n")]
ISO = "2024-05-01T10:00:00.{:06}"


def each_line(wrap: Callable[[int, str], str]) -> str:
    return "".join(wrap(number, line) + "\n" for number, line in enumerate(LINES))


def records(wrap: Callable[[int, str], object]) -> list[object]:
    return [wrap(number, message) for number, message in enumerate(MESSAGES)]


def json_lines(found: list[object]) -> str:
    return "".join(json.dumps(each) + "\n" for each in found)


def in_chunks(prefix: str, header: str, tab: str = "#011") -> str:
    """PostgreSQL's own messages to syslog."""
    lines = []
    for number, entry in enumerate(ENTRIES, 5):
        for part, line in enumerate(f"{prefix}LOG:  {entry}".split("\n"), 1):
            lines.append(f"{header}[{number}-{part}] " + (line if part == 1 else tab + line) + "\n")
    return "".join(lines)


def event(number: int, message: str) -> object:
    return {"timestamp": 1714557600000 + number, "message": message, "ingestionTime": 1714557601000}


def google(number: int, message: str) -> object:
    resource = {"type": "cloudsql_database", "labels": {"database_id": "project:main", "region": "us"}}
    stamp = f"2024-05-01T10:00:00.{number:03}Z"
    return {"insertId": f"s{number}", "logName": "projects/p", "resource": resource, "textPayload": message,
            "timestamp": stamp}  # fmt: skip


def azure(number: int, message: str) -> object:
    properties = {"timestamp": f"2024-05-01 10:00:00.{number:03} UTC", "processId": 4711, "errorLevel": "LOG"}
    return {"resourceId": "/SUBSCRIPTIONS/X", "category": "PostgreSQLLogs", "time": f"2024-05-01T10:00:0{number}Z",
            "properties": {**properties, "message": message}}  # fmt: skip


def journal(number: int, text: str) -> object:
    message = list(text.encode()) if "\t" in text else text
    return {"MESSAGE": message, "__REALTIME_TIMESTAMP": str(1714557600000000 + number), "_HOSTNAME": "db", "_PID": "1"}


def operator(number: int, _: str) -> object:
    record = {
        "log_time": f"2024-05-01 10:00:00.{number:03} UTC", "user_name": "app", "database_name": "shop",
        "process_id": "4711", "session_id": "663217f0.1267", "error_severity": "LOG", "sql_state_code": "00000",
        "message": ENTRIES[number], "detail": "", "query": "", "application_name": "", "backend_type": "client backend",
    }  # fmt: skip
    return {"level": "info", "ts": "2024-05-01T10:00:00Z", "logger": "postgres", "msg": "record", "record": record}


HEROKU = (
    'sql_error_code = 00000 time_ms = "2024-05-01 10:00:00.123 UTC" pid="4711" proc_start_time="2024-05-01 09:00:00'
    ' UTC" session_id="663217f0.1267" vtid="4/12" tid="0" log_line="4" database="shop" connection_source="[local]"'
    ' user="app" application_name="web: 1" '
)
WRAPPED = {
    "docker compose logs": each_line(lambda _, line: f"db-1  | {line}"),
    "docker compose logs, in colour": each_line(lambda _, line: f"\x1b[36mdb-1  | \x1b[0m{line}"),
    "docker compose logs -t": each_line(lambda n, line: f"db-1  | {ISO.format(n)}Z {line}"),
    "docker logs -t": each_line(lambda n, line: f"{ISO.format(n)}Z {line}"),
    "json-file": json_lines([{"log": f"{line}\n", "stream": "stderr", "time": ISO.format(0)} for line in LINES]),
    "json-file in parts": json_lines(
        [{"log": part, "stream": "stderr", "time": ISO.format(0)}
         for line in LINES for part in (line[:40], f"{line[40:]}\n")]
    ),
    "kubectl logs --prefix": each_line(lambda _, line: f"[pod/db-0/postgres] {line}"),
    "kubectl logs --prefix --timestamps": each_line(lambda n, line: f"[pod/db-0/postgres] {ISO.format(n)}Z {line}"),
    "CRI": each_line(lambda n, line: f"{ISO.format(n)}Z stderr P {line[:30]}\n{ISO.format(n)}Z stderr F {line[30:]}"),
    "CRI around an operator": "".join(f"{ISO.format(0)}Z stdout F {line}\n" for line in
                                      json_lines(records(operator)).splitlines()),
    "aws logs tail": "".join(f"{ISO.format(n)}+00:00 main.0 {message}\n" for n, message in enumerate(MESSAGES)),
    "CloudWatch's export": "".join(f"{ISO.format(n)}Z {message}\n" for n, message in enumerate(MESSAGES)),
    "get-log-events": json.dumps({"events": records(event), "nextForwardToken": "f/3"}, indent=4),
    "filter-log-events, compact": json.dumps({"events": records(event), "searchedLogStreams": []}),
    "Cloud SQL": json.dumps(records(google), indent=2),
    "Cloud SQL, a line each": json_lines(records(google)),
    "Azure": json_lines(records(azure)),
    "Azure, a list": json.dumps({"records": records(azure)}),
    "Azure, without a prefix": json_lines([azure(n, entry) for n, entry in enumerate(ENTRIES)]),
    "syslog": in_chunks("app@shop ", "May  1 10:00:00 db postgres[4711]: "),
    "syslog with its own prefix": in_chunks(BEGIN.format(7), "2024-05-01T10:00:00.5+00:00 db postgres[4711]: "),
    "syslog of RFC 5424": in_chunks("app@shop ", "<134>1 2024-05-01T10:00:00.123Z db postgres 4711 - - "),
    "syslog without parts": "".join(
        f"May  1 10:00:00 db postgres[4711]: [{n}] {message}\n".replace("\n\t", "#012#011")
        for n, message in enumerate(MESSAGES)
    ),
    "journald": each_line(lambda _, line: f"May 01 10:00:00 db postgres[1]: {line}"),
    "journald's JSON": json_lines([journal(n, line) for n, line in enumerate(LINES)]),
    "Heroku": in_chunks(HEROKU, "2024-05-01T10:00:00+00:00 app[postgres.9]: [DATABASE] ", "\t"),
    "Heroku in a terminal": in_chunks(HEROKU, "2024-05-01T10:00:00+00:00 app[postgres.9]: [DATABASE] ", "      "),
    "Heroku of old": in_chunks(" sql_error_code = 00000 ", "2024-05-01T10:00:00+00:00 app[postgres.9]: [GREEN] ", "\t"),
    "Heroku's drain": in_chunks(HEROKU, "343 <134>1 2024-05-01T10:00:00+00:00 host app postgres.9 - [GREEN] ", "\t"),
    "CloudNativePG": json_lines([{"level": "info", "logger": "barman", "msg": "x"}, *records(operator)]),
    "a jsonlog in another order": json_lines([
        {"pid": 5, "dbname": "shop", "error_severity": "LOG", "message": entry, "session_id": "663217f0.1267",
         "timestamp": "2024-05-01 10:00:00.000 UTC", "state_code": "00000"} for entry in ENTRIES
    ]),
    "a csvlog in a container": "".join(f"db-1 | {line}\n" for line in csvlog(TEXTS).splitlines()),
}  # fmt: skip


WORDS = [text.split() for text in TEXTS]
"""The texts without their blanks: a terminal shows other ones."""


def words(found: Captured) -> list[list[str]]:
    return [text.split() for text in found.texts]


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_is_taken_off_and_named(name: str, tmp_path: Path) -> None:
    found = captured(tmp_path, WRAPPED[name])
    assert words(found) == WORDS
    assert found.left_out.keys() <= {"other-source"}
    assert all("taken off" in str(note.message) for note in found.capture.notes)
    assert len(found.capture.notes) in (1, 2)


@pytest.mark.long_cases("half")
@pytest.mark.parametrize("part", ["half", "but the end"])
@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_log_that_is_cut_has_no_statement_that_is_cut(name: str, part: str, tmp_path: Path) -> None:
    lines = WRAPPED[name].splitlines(keepends=True)
    text = "".join(lines[: max(len(lines) // 2, 1)]) if part == "half" else WRAPPED[name][:-160]
    # too little to be a log, perhaps
    with suppress(UsageError):
        assert all(each in WORDS for each in words(captured(tmp_path, text)))


def test_lines_of_other_containers_are_left_out_and_places_are_those_in_the_file(tmp_path: Path) -> None:
    log = each_line(lambda n, line: f"db-1   | {line}" + ("\nweb-1  | GET /" if n == 1 else ""))
    found = captured(tmp_path, log)
    assert (found.texts, found.left_out) == (TEXTS, {"other-source": (1, "3")})
    lines = json_lines(records(google)).splitlines(keepends=True)
    lines[3] = lines[3].replace("'last'", "'last")
    assert captured(tmp_path, "".join(lines)).left_out["not-whole"] == (1, "4")


SYSLOG = "May  1 10:00:00 db postgres[4711]: "


def test_what_is_not_one_log_in_order_is_an_error(tmp_path: Path) -> None:
    for log, message, hint in (
        (each_line(lambda n, line: f"{'ab'[n % 2]}-1 | {line}"), "lines of several servers: a-1 and b-1", ""),
        (json.dumps(records(google)[::-1]), "the newest lines of the log come first", ""),
        (in_chunks("<app|shop> ", SYSLOG), "neither", ""),
        (each_line(lambda _, line: f"<<shipper>> password=secret {line}"),
         r"0\.log:1: .*'<<shipper>> password=\*\*\*\* 2024", "remove that text"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message) as caught:
            captured(tmp_path, log)
        assert hint in (caught.value.hint or "")


def test_messages_of_syslog_are_put_together_from_their_parts(tmp_path: Path) -> None:
    one, other = (in_chunks("app@shop ", SYSLOG.replace("4711", pid)).splitlines(True) for pid in ("4711", "4712"))
    found = captured(tmp_path, "".join(line for pair in zip(one, other, strict=True) for line in pair))
    assert sorted(words(found)) == sorted(WORDS * 2)
    assert words(captured(tmp_path, in_chunks("<app|shop> ", SYSLOG), prefix="<%u|%d> ")) == WORDS
    lines = in_chunks("app@shop ", SYSLOG).splitlines(keepends=True)
    del lines[4]
    found = captured(tmp_path, "".join(lines))
    assert words(found) == [WORDS[0], WORDS[1], WORDS[3]]
    assert found.left_out["not-whole"] == (1, "4")
    text = "SELECT " + " ".join(f"{number}," for number in range(1000)) + " 0"
    message, parts = f"app@shop LOG:  duration: 1.0 ms  statement: {text}", []
    while message:
        end = len(message) if len(message) <= 900 else message.rindex(" ", 0, 901)
        parts.append(message[:end])
        message = message[end:]
    log = "".join(f"{SYSLOG}[4-{part}] {line}\n" for part, line in enumerate(parts, 1))
    assert captured(tmp_path, log + in_chunks("app@shop ", SYSLOG)).texts[0] == text


SPACES = """\
2024-05-01 10:00:00.000 UTC [4711] app@shop LOG:  duration: 1.0 ms  statement: DELETE FROM cart
    WHERE id = 7
2024-05-01 10:00:00.050 UTC [4711] app@shop LOG:  duration: 2.0 ms  statement:{}
    UPDATE cart
       SET qty = 2
     WHERE id = 8
2024-05-01 10:00:00.100 UTC [4711] app@shop LOG:  duration: 1.0 ms  statement: SELECT 1
""".format(" ")


def log(*texts: str, end: str = "LOG:  duration: 0.1 ms  plan:\n") -> str:
    """Statements of a log of text as they are in the file; without an `end`, a statement is the last entry."""
    lines = [f"LOG:  duration: 1.0 ms  statement: {text}\n" for text in texts]
    return "".join(BEGIN.format(number) + line for number, line in enumerate([*lines, *([end] if end else [])]))


def test_lines_that_spaces_continue_are_part_of_the_statement_unless_the_log_has_tabs(tmp_path: Path) -> None:
    found = captured(tmp_path, SPACES + BEGIN.format(200) + "LOG:  disconnection: none\n")
    assert found.texts == [
        "DELETE FROM cart\n    WHERE id = 7",
        "\n    UPDATE cart\n       SET qty = 2\n     WHERE id = 8",
        "SELECT 1",
    ]
    assert found.left_out == {}
    found = captured(tmp_path, log("SELECT\n\t1", "SELECT 2\n  of another program", "SELECT 3"))
    assert (found.texts, found.left_out["not-whole"]) == (["SELECT\n1", "SELECT 3"], (1, "3"))


def test_the_last_statement_of_a_log_of_text_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = log("SELECT 1", "DELETE FROM cart\n\tWHERE id = 7", end="")
    first_line = whole[: whole.index("\n\t") + 1]
    for number, text in enumerate((whole, whole[:-1], whole[:-5], first_line, first_line[:-1], SPACES)):
        found = captured(tmp_path / str(number), text)
        assert found.left_out["not-whole"] == (1, "7" if "UPDATE" in text else "2")
        assert found.texts[0] in ("SELECT 1", "DELETE FROM cart\n    WHERE id = 7")
        assert not any("SELECT 1" in each or each.startswith("DELETE") for each in found.texts[1:])
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 200)
    first = log("SELECT 1", "SELECT 2", "SELECT 3", end="")
    found = captured(tmp_path, first, first.replace("10:00:00", "10:00:01"))
    assert found.texts == ["SELECT 1", "SELECT 2"] * 2
    assert found.left_out == {"not-whole": (2, "3")}


def logs_of(*statements: str) -> list[str]:
    """A log for each statement, among others and a minute after the one before: one capture is as good as many."""
    return [
        log("SELECT 1", f"DELETE FROM cart{each}", "SELECT 3").replace("10:00:00", f"10:{minute:02}:00")
        for minute, each in enumerate(statements)
    ]


MAY_BE_CUT = [
    "\ncp: no space left", "\nWHERE id = 7", "\n    WHERE id = 7\nAND qty = 2", "\n\tWHERE id = 7\n    AND qty = 2",
    "\n\tWHERE id = 7\nAND qty = 2", "\n\nWHERE id = 7", "\n    WHERE name = 'two\n    lines'",
    "\n    WHERE name = $$two\n    lines$$", '\n    WHERE "two\n    lines" = 1',
    "\n    WHERE name = 'two\n\n    lines'", "\n    WHERE name = 'begins", "\n    WHERE", " WHERE id IN (1, 2, ...",
    " WHERE id = 7 [Truncated...]", " WHERE id = 7…",
    f" WHERE id = 7{BEGIN.format(7)}LOG:  duration: 1.0 ms  statement: SELECT 2",
    f" WHERE id = 7{BEGIN.format(7)}ERROR:  division by zero",
]  # fmt: skip
WHOLE = [
    "\n\tWHERE id = 7\n\t\n\tAND qty = 2", "\n\tWHERE id = 7\n\n\tAND qty = 2", "\n    WHERE id = 7\n\n    AND qty = 2",
    "\n    WHERE id = 7 -- first line\n    AND qty = 2", "\n    WHERE id = 7 /* two\n    lines */ AND qty = 2",
    "\n\tWHERE name = 'two\n\tlines'", "\n\n",
    f"\n\tWHERE name = '\n\t{BEGIN.format(7)}LOG:  duration: 1.0 ms  statement: SELECT 2'",
    " WHERE name = 'LOG:  DETAIL:  ERROR:  '", " WHERE name = 'x' -- HINT:  none",
]  # fmt: skip


def test_what_may_be_cut_is_left_out_and_what_is_whole_is_captured(tmp_path: Path) -> None:
    found = captured(tmp_path, *logs_of(*MAY_BE_CUT))
    assert found.texts == ["SELECT 1", "SELECT 3"] * len(MAY_BE_CUT)
    assert found.left_out["not-whole"] == (len(MAY_BE_CUT), "2")
    found = captured(tmp_path, *logs_of(*WHOLE))
    whole = [f"DELETE FROM cart{each}".replace("\n\t", "\n").rstrip() for each in WHOLE]
    whole = [each.replace("10:00:00", f"10:{minute:02}:00") for minute, each in enumerate(whole)]
    assert found.texts == [text for each in whole for text in ("SELECT 1", each, "SELECT 3")]
    assert found.left_out == {}


def test_a_log_without_the_lines_that_continue_statements_is_refused(tmp_path: Path) -> None:
    """As `grep app@shop` leaves them: a statement that looks whole may lack its WHERE."""
    whole = log("DELETE FROM cart\n\tWHERE id = 7", "SELECT qty FROM\n\tcart", "SELECT 2")
    first_lines = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith("\t"))
    for text, message in (
        (first_lines, r"0\.log:2: the statement ends in its middle, and no line"),
        (log("DELETE FROM cart WHERE name = 'x", "SELECT 2"), r"0\.log:1: the statement ends in its middle"),
        (log("DELETE FROM cart", end=""),
         r"0\.log:1: no statement can be replayed; left out: 1 statements whose text"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            captured(tmp_path, text)
    assert len(captured(tmp_path, whole).texts) == 3


def test_lines_that_are_shortened_to_a_limit_are_left_out(tmp_path: Path) -> None:
    texts = [f"DELETE FROM cart WHERE id = {number} /*{'x' * 40 * number}*/ AND qty > 0" for number in range(40)]
    whole = log(*texts)
    assert len(captured(tmp_path, whole).texts) == 40
    found = captured(tmp_path / "cut", "".join(f"{line[:1023]}\n" for line in whole.splitlines()))
    assert found.texts == [each for each in texts if f"{each}\n" in whole and len(each) < 930]
    assert found.left_out["not-whole"][0] == 40 - len(found.texts)


PARAMETERS = [
    ("$1 = '7', $2 = 'a...b'", True), ("$1 = '7', $2 = NULL", True), ("$1 = '7...', $2 = 'a'", False),
    ("$1 = '7', $2 = 'abc...'", False), ("$1 = '7', $2 = 'ab", False), ("$1 = '7', ", False),
]  # fmt: skip


@formats
def test_parameters_that_may_be_cut_are_left_out(form: str, tmp_path: Path) -> None:
    query = "SELECT 1 FROM t WHERE a = $1 OR b = $2"
    log = [Entry(f"duration: 1.0 ms  execute <unnamed>: {query}", f"Parameters: {each}") for each, _ in PARAMETERS]
    found = captured(tmp_path, WRITERS[form](["SELECT 1", *log, "SELECT 3"]))
    assert found.columns("sql parameters") == [
        ("SELECT 1", None), (query, ["7", "a...b"]), (query, ["7", None]), ("SELECT 3", None),
    ]  # fmt: skip
    assert found.left_out["parameters-cut"] == (4, {"csvlog": "4", "jsonlog": "4", "stderr": "6"}[form])


@pytest.mark.parametrize("form", ["csvlog", "jsonlog"])
def test_a_file_that_is_cut_anywhere_has_no_statement_that_is_cut(form: str, tmp_path: Path) -> None:
    texts = ["SELECT 1", """DELETE FROM "cart" WHERE id = 7\n\tAND qty = 'x "y" z' -- all"""]
    whole = WRITERS[form]([texts[0], done(texts[1], ms=5)])
    ends = [*range(whole.index("\n") + 61, len(whole), 17), len(whole)]
    # of one server, each with a session of its own: a capture of many files takes hardly longer than one of one
    sessions = ([done(texts[0], pid=pid), done(texts[1], ms=5, pid=pid)] for pid in range(100, 999))
    files = [WRITERS[form](session)[:end] for session, end in zip(sessions, ends, strict=False)]
    found = captured(tmp_path, *files).texts
    assert found.count(texts[0]) == len(files)
    assert {*found} == {*texts}


def test_texts_of_errors_and_rows_that_may_be_cut_are_left_out_and_json_is_whole(tmp_path: Path) -> None:
    text = log("SELECT 1") + BEGIN.format(5) + "ERROR:  division by zero\n"
    text += BEGIN.format(5) + "STATEMENT:  DELETE FROM cart\nWHERE id = 1/0\n" + log("SELECT 3").replace(":00.", ":01.")
    found = captured(tmp_path, text)
    assert (found.texts, found.left_out["not-whole"]) == (["SELECT 1", "SELECT 3"], (1, "3"))
    rows = csvlog(["SELECT 1", 'DELETE FROM cart "c" WHERE id = 7', "SELECT 3"]).splitlines(True)
    cut = rows[1].index('""c') + 1
    for number, text in enumerate((rows[0] + rows[1][:cut] + "\n" + rows[2], rows[0] + rows[2] + rows[1][:cut])):
        found = captured(tmp_path / str(number), text)
        assert found.texts == ["SELECT 1", "SELECT 3"]
        assert sum(count for reason, (count, _) in found.left_out.items() if reason in ("cut", "not-whole")) == 1
    again = "".join(json.dumps(json.loads(line)) + "\n" for line in jsonlog(["SELECT 1", "SELECT 2"]).splitlines())
    assert captured(tmp_path, again).texts == ["SELECT 1", "SELECT 2"]
