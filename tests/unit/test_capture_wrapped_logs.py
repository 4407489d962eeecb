"""Logs as services, containers and log daemons export them: the wrapper is taken off, and named."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from tests.unit.capture_log_sample import Captured, captured, csvlog

TEXTS = ["SELECT 1", "DELETE FROM cart\nWHERE id = 7", "\n  UPDATE cart\n  SET qty = 2", "SELECT 'last'"]
BEGIN = "2024-05-01 10:00:00.{:03} UTC [4711] app@shop LOG:  "
ENTRIES = [f"duration: 1.0 ms  statement: {text}" for text in TEXTS] + ["duration: 0.1 ms  plan:"]
MESSAGES = [BEGIN.format(number) + entry.replace("\n", "\n\t") for number, entry in enumerate(ENTRIES)]
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
    "syslog with its own prefix": in_chunks(BEGIN[:-6].format(7), "2024-05-01T10:00:00.5+00:00 db postgres[4711]: "),
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
