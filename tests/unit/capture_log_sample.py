"""Small logs as PostgreSQL writes them, and what a capture of them has."""

import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.records.capture import STATEMENTS_FILE, Capture, Values
from pgdyno.store.duckdb_session import table_function

START = datetime(2026, 11, 23, 10, tzinfo=UTC)
KEPT = Options(values=Values.KEPT)


@dataclass(frozen=True)
class Entry:
    """One entry of a log."""

    message: str
    detail: str = ""
    query: str = ""
    severity: str = "LOG"
    sqlstate: str = "00000"
    database: str = "shop"
    user: str = "app"
    pid: int = 100
    started: int = 0
    """Seconds before START; with the process's number, it makes the session's ID."""
    ms: int | None = None
    """Milliseconds after START; None: the entry's number."""
    vxid: str = "3/0"
    backend: str = "client backend"

    @property
    def session(self) -> str:
        return f"{int(START.timestamp()) - self.started:x}.{self.pid:x}"


Log = Sequence[Entry | str]
"""Entries, and texts of statements that took 1 ms."""


def done(sql: str, took_ms: float = 1.0, **more: Any) -> Entry:  # noqa: ANN401 - fields of Entry
    return Entry(f"duration: {took_ms:.3f} ms  statement: {sql}", **more)


def error(sql: str, sqlstate: str, **more: Any) -> Entry:  # noqa: ANN401 - fields of Entry
    return Entry("it failed", query=sql, severity="ERROR", sqlstate=sqlstate, **more)


def _entries(log: Log) -> list[Entry]:
    return [done(each) if isinstance(each, str) else each for each in log]


def stamp(entry: Entry, number: int) -> str:
    at = START + timedelta(milliseconds=number if entry.ms is None else entry.ms)
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def csvlog(entries: Log, columns: int = 26) -> str:
    text = io.StringIO()
    for number, each in enumerate(_entries(entries)):
        started = f"{START - timedelta(seconds=each.started):%Y-%m-%d %H:%M:%S} UTC"
        # fmt: off
        row = [
            stamp(each, number), each.user, each.database, str(each.pid), "[local]", each.session, str(number + 1),
            "SELECT", started, each.vxid, "0", each.severity, each.sqlstate, each.message, each.detail, "", "", "", "",
            each.query, "", "", "psql", each.backend, "", "0",
        ]
        # fmt: on
        cells = (
            f'"{cell}"' if cell and place in (1, 2, 13, 14, 19) else cell
            for place, cell in enumerate(cell.replace('"', '""') for cell in row[:columns])
        )
        text.write(",".join(cells) + "\n")
    return text.getvalue()


def jsonlog(entries: Log) -> str:
    lines = []
    for number, each in enumerate(_entries(entries)):
        found = {
            "timestamp": stamp(each, number), "user": each.user, "dbname": each.database, "pid": each.pid,
            "session_id": each.session,
            "session_start": f"{START - timedelta(seconds=each.started):%Y-%m-%d %H:%M:%S} UTC", "vxid": each.vxid,
            "error_severity": each.severity, "state_code": each.sqlstate, "message": each.message,
            "detail": each.detail, "statement": each.query, "backend_type": each.backend,
        }  # fmt: skip
        lines.append(json.dumps({key: value for key, value in found.items() if value != ""}, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def stderr(log: Log, prefix: str = "{stamp} [{pid}] {user}@{database} ") -> str:
    """`prefix` has Python's placeholders: `{stamp} [{pid}] `.

    The last entry of such a log may be cut: one is added that has no statement.
    """
    entries, lines = _entries(log), []
    last = replace(entries[-1], message="duration: 0.001 ms  plan:", detail="", query="", severity="LOG")
    for number, each in enumerate([*entries, last]):
        begin = prefix.format(
            stamp=stamp(each, number), seconds=stamp(each, number)[:19] + " UTC", pid=each.pid, user=each.user,
            database=each.database, session=each.session, sqlstate=each.sqlstate, number=number + 1,
        )  # fmt: skip
        for part, text in ((each.severity, each.message), ("DETAIL", each.detail), ("STATEMENT", each.query)):
            if text:
                lines.append(f"{begin}{part}:  " + text.replace("\n", "\n\t"))
    return "\n".join(lines) + "\n"


WRITERS: dict[str, Callable[[Log], str]] = {"csvlog": csvlog, "jsonlog": jsonlog, "stderr": stderr}
formats = pytest.mark.parametrize("form", WRITERS)


@dataclass(frozen=True)
class Captured:
    """A capture and the rows of its table."""

    capture: Capture
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def statements(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] in ("simple", "extended")]

    @property
    def texts(self) -> list[str]:
        return [row["sql"] for row in self.statements]

    def columns(self, names: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names.split()) for row in self.statements]

    @property
    def left_out(self) -> Mapping[str, tuple[int, str]]:
        return {each.reason: (each.count, (each.first or "").rpartition(":")[2]) for each in self.capture.left_out}


def captured(folder: Path, *logs: str | bytes | Log, suffix: str = ".log", **options: Any) -> Captured:  # noqa: ANN401
    """Captures `logs`, one file each, in `folder`, new or with a capture; entries are those of a csvlog."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number, log in enumerate(logs):
        text = log if isinstance(log, str | bytes) else csvlog(log)
        path = folder / f"{number}{suffix}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    into = folder / "capture"
    shutil.rmtree(into, ignore_errors=True)
    capture = capture_logs(paths, into, replace(KEPT, **options))
    assert [each.name for each in into.iterdir()] == [STATEMENTS_FILE]
    return Captured(capture, rows_of(into))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    # a database for each call would take a tenth of a capture's time
    found = duckdb.execute(f"FROM {table_function('read_parquet', [folder / STATEMENTS_FILE])}")
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
