"""Captures of what a real PostgreSQL logs: every statement that was sent, in the order of its session."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.records.capture import Values
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.unit.capture_log_sample import rows_of
from tests.waiting import wait_until

LOGGING = """
logging_collector = on
log_directory = 'log'
log_filename = 'pg.log'
log_destination = 'csvlog, jsonlog, stderr'
log_line_prefix = '%m [%p] %q%u@%d '
log_connections = on
log_disconnections = on
log_lock_waits = on
deadlock_timeout = 20ms
"""
DURATIONS = "log_min_duration_statement = 0\n"
STATEMENTS = "log_statement = all\nlog_duration = on\n"
SESSIONS = 3
FILES = ("pg.csv", "pg.json", "pg.log")

Sent = tuple[str, list[str | None] | None, str | None]
"""Text, parameters and error of a statement."""


@dataclass
class Session:
    number: int
    sent: list[Sent] = field(default_factory=list)

    def run(self, connection: psycopg.Connection[Any], sql: str, *values: object, sqlstate: str | None = None) -> None:
        """Sends `sql`: with `values` in the extended protocol, with `$1` for the first of them."""
        found = None
        try:
            connection.execute(sql.replace("$1", "%s").replace("$2", "%s").encode(), values or None)
        except psycopg.Error as error:
            found = error.sqlstate
        assert found == sqlstate
        parameters = [None if each is None else str(each) for each in values]
        self.sent.append((sql, parameters if values else None, sqlstate))


def _work(server: OwnServer, session: Session) -> None:
    with server.connect() as connection:
        number = session.number
        session.run(connection, f"SELECT 'session {number}'")
        for turn in range(8):
            # psycopg prepares a statement that it has sent five times
            session.run(connection, "SELECT * FROM t WHERE a = $1 AND b IS DISTINCT FROM $2", turn, None)
        session.run(connection, "SELECT 'a\n\tb''c', \"b\" FROM t /* x\n*/ -- y\nWHERE a < 0")
        session.run(connection, "INSERT INTO t VALUES ($1, $2)", 1000 + number, "it's \"ü\", $1 = 'x'\n")
        session.run(connection, "INSERT INTO t VALUES ($1, $2)", 1000 + number, "again", sqlstate="23505")
        session.run(connection, "SELEKT 1", sqlstate="42601")
        session.run(connection, "BEGIN")
        session.run(connection, f"UPDATE t SET b = '{number}' WHERE a = {1000 + number}")
        session.run(connection, "SAVEPOINT one")
        session.run(connection, "SELECT 1/0", sqlstate="22012")
        session.run(connection, "ROLLBACK TO SAVEPOINT one")
        # psycopg's own, after each rollback
        session.sent.append(("DEALLOCATE ALL", None, None))
        session.run(connection, "DECLARE c CURSOR FOR SELECT generate_series(1, 9)")
        session.run(connection, "FETCH 3 FROM c")
        session.run(connection, "COMMIT")
        session.run(connection, "BEGIN; SELECT 1; COMMIT")


VALUES: dict[str, object] = {
    "int4": -7, "int8": 2**40, "numeric": Decimal("-12345.6700"), "float8": 0.1, "bool": True,
    "text": "it's \"ü\", $1 = 'x'\n\\t, NULL", "bytea": b"\x00\xff'\\",
    "uuid": UUID("01234567-89ab-cdef-0123-456789abcdef"),
    "timestamptz": datetime(2026, 11, 26, 12, 30, 15, 250_000, tzinfo=UTC), "date": date(2026, 11, 26),
    "interval": timedelta(days=1, seconds=90), "int4[]": [1, 2, 70_000], "date[]": None,
}  # fmt: skip
"""By type; psycopg sends each as text with `%t`, and in binary with `%b`."""


def wait_for_a_lock(server: OwnServer) -> None:
    with server.connect() as one, server.connect() as other:
        one.execute("INSERT INTO t VALUES (1, 'x')")
        one.execute("BEGIN")
        one.execute("UPDATE t SET b = 'y' WHERE a = 1")
        thread = threading.Thread(target=lambda: other.execute("UPDATE t SET b = 'z' WHERE a = 1"))
        thread.start()
        log = server.data / "log" / "pg.log"
        wait_until(lambda: "still waiting for ShareLock" in log.read_text())
        one.execute("COMMIT")
        thread.join()


def send_values(server: OwnServer) -> None:
    for format_ in "tb":
        selected = ", ".join(f"%{format_}::{kind}" for kind in VALUES)
        with server.connect() as connection:
            for _ in range(7):
                # unprepared, and from the sixth on prepared
                connection.execute(f"SELECT {selected}".encode(), list(VALUES.values()))


@pytest.mark.parametrize("way", [DURATIONS, STATEMENTS], ids=["durations", "statements"])
def test_what_a_server_logs_is_captured(installed: Installation, tmp_path: Path, way: str) -> None:
    with running_server(installed, LOGGING) as server:
        server.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        # the log of the load alone: the file is new after the restart
        server.stop()
        shutil.rmtree(server.data / "log")
        server.configure(way)
        server.start()
        wait_for_a_lock(server)
        send_values(server)
        sessions = [Session(number) for number in range(SESSIONS)]
        with ThreadPoolExecutor(SESSIONS) as pool:
            list(pool.map(lambda each: _work(server, each), sessions))
        server.stop()
        for name in FILES:
            shutil.copy(server.data / "log" / name, tmp_path / name)
    for name in FILES:
        capture = capture_logs([tmp_path / name], tmp_path / f"{name}.capture", Options(values=Values.KEPT))
        assert (capture.sessions, capture.database) == (SESSIONS + 4, "postgres")
        assert capture.server_version == installed.version
        # those of the other loads: five, and seven of each form
        assert capture.calls == sum(len(each.sent) for each in sessions) + 5 + 2 * 7
        assert {each.reason for each in capture.left_out} <= {"background", "other-lines"}
        rows = rows_of(tmp_path / f"{name}.capture")
        of_sessions = [[row for row in rows if row["session"] == number] for number in range(capture.sessions)]
        waited = {row["sql"]: row["lock_wait_us"] for row in rows if row["lock_wait_us"] is not None}
        assert list(waited) == ["UPDATE t SET b = 'z' WHERE a = 1"]
        assert min(waited.values()) >= 20_000
        check_values(*of_sessions[2:4])
        last = sorted(of_sessions[4:], key=lambda rows: str(rows[1]["sql"]))
        for found, session in zip(last, sessions, strict=True):
            check_session(found, session)


def check_session(rows: list[dict[str, Any]], session: Session) -> None:
    """Asserts that every statement is there, in its order."""
    # the log of text has no codes, but the messages are known
    assert [(row["sql"], row["parameters"], row["sqlstate"]) for row in rows if row["sql"] is not None] == session.sent
    assert [rows[0]["kind"], rows[-1]["kind"]] == ["connect", "disconnect"]
    assert [row["at_us"] for row in rows] == sorted(row["at_us"] for row in rows)
    blocks = [row["sql"] for row in rows if row["transaction"] is not None]
    assert (blocks[0], blocks[-1], len(blocks)) == ("BEGIN", "COMMIT", 9)
    for row in rows[1:-1]:
        assert (row["us"] is None) == (row["sqlstate"] is not None), row["sql"]


def check_values(of_text: list[dict[str, Any]], of_binary: list[dict[str, Any]]) -> None:
    """Asserts that binary parameters are captured as the same values as text."""
    as_text, as_binary = (
        [row["parameters"] for row in rows if row["parameters"] is not None] for rows in (of_text, of_binary)
    )
    assert len(as_binary) == 7
    assert as_binary == as_text
    captured = dict(zip(VALUES, as_binary[0], strict=True))
    assert (captured["int4"], captured["text"]) == ("-7", VALUES["text"])
    assert (captured["bytea"], captured["int4[]"], captured["date[]"]) == ("\\x00ff275c", "{1,2,70000}", None)
