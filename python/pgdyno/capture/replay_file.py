"""Writes the replay file of a capture (docs/reference/replay-file.md), which pgdrive reads.

The rows of `capture.parquet` pass through in their order, some thousand at a time: memory grows with the number of
sessions and of shared texts, not with that of statements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pgdyno.errors import StoreError
from pgdyno.records.capture import STATEMENTS_FILE, Capture, as_reported
from pgdyno.store.parquet import quoted
from pgdyno.store.safe_files import open_new, storing

if TYPE_CHECKING:
    import duckdb

VERSION = 1
"""Of the file that this code writes."""
MEMORY = "400MiB"
"""DuckDB's limit; beyond it, grouping the texts spills to disk."""
MOST_SHARED, MOST_SHARED_BYTES = 100_000, 64 << 20
"""Texts that stand in the file once, the most frequent first: pgdrive and pgdyno keep them in memory."""
_AT_ONCE = 4096
_WITH_TEXT = "kind IN ('simple', 'extended')"
_DAMAGED = "write the capture again with pgdyno capture"

_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_Line = dict[str, Any]
_Text = tuple[str, int]
"""A text and its class."""


def write_replay_file(
    folder: Path, capture: Capture, into: Path, at_rows: Callable[[int], None] = lambda _rows: None
) -> None:
    """Write the replay file of the capture in `folder` to `into`; a file that cannot be completed is removed.

    `at_rows` is called with the number of rows so far; its exceptions end the work. Raises StoreError.
    """
    statements = folder / STATEMENTS_FILE
    with storing("replay", statements):
        try:
            with open_new(into) as file, _opened(statements, into) as connection:
                _write(connection, capture, file, statements, at_rows)
        except BaseException:
            into.unlink(missing_ok=True)
            raise


def _opened(statements: Path, into: Path) -> duckdb.DuckDBPyConnection:
    """Return a database whose view `captured` is the file, in its order."""
    # imported here: most plans replay nothing
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        # one thread keeps the order of the file and needs the least memory
        "threads": 1,
        "memory_limit": MEMORY,
        "temp_directory": str(into.with_name(f"{into.name}.spilled")),
    }
    connection = duckdb.connect(config=config)
    # a long query would draw one where Python runs a command or a notebook
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"CREATE VIEW captured AS FROM read_parquet({quoted(str(statements))})")
    return connection


def _write(
    connection: duckdb.DuckDBPyConnection,
    capture: Capture,
    file: BinaryIO,
    statements: Path,
    at_rows: Callable[[int], None],
) -> None:
    counted = connection.execute(
        f"SELECT count(*) FILTER ({_WITH_TEXT}), count(DISTINCT session), max(statement), coalesce(max(us), 0) "
        "FROM captured"
    ).fetchone()
    assert counted is not None
    count, sessions, last_class, longest_us = counted
    if last_class is not None and last_class >= len(capture.statements):
        raise StoreError(f"cannot replay {statements}: it has classes that capture.json lacks", hint=_DAMAGED)
    head = {
        "format": "pgdyno-replay",
        "version": VERSION,
        "sessions": sessions,
        "most_sessions": capture.most_sessions,
        "statements": count,
        "span_us": capture.span_us,
        "longest_us": longest_us,
    }
    _put(file, head)
    reported, numbers = as_reported(capture)
    for number, each in enumerate(reported.statements):
        _put(file, {"class": number, "sql": each.text})
    shared = _shared_texts(connection)
    for (text, of), number in shared.items():
        _put(file, {"text": number, "of": numbers[of], "sql": text})
    for line in _session_lines(connection, shared, numbers, statements, at_rows):
        _put(file, line)


def _put(file: BinaryIO, line: _Line) -> None:
    file.write(_TO_JSON(line).encode() + b"\n")


def _shared_texts(connection: duckdb.DuckDBPyConnection) -> dict[_Text, int]:
    """Return the texts that occur more than once, with their numbers."""
    found = connection.execute(
        # of texts that occur once, only a hash is kept
        f"""WITH often AS (
            SELECT hash(sql, statement) AS key, count(*) AS uses FROM captured WHERE {_WITH_TEXT}
            GROUP BY key HAVING uses > 1 ORDER BY uses DESC, key LIMIT {MOST_SHARED})
        SELECT sql, statement FROM captured JOIN often ON hash(sql, statement) = key WHERE {_WITH_TEXT}
        GROUP BY sql, statement HAVING count(*) > 1 ORDER BY count(*) DESC, sql"""
    )
    shared: dict[_Text, int] = {}
    size = 0
    while some := found.fetchmany(_AT_ONCE):
        for text, of in some:
            size += len(text)
            if size > MOST_SHARED_BYTES:
                return shared
            shared[text, of] = len(shared)
    return shared


def _session_lines(
    connection: duckdb.DuckDBPyConnection,
    shared: dict[_Text, int],
    numbers: Sequence[int],
    statements: Path,
    at_rows: Callable[[int], None],
) -> Iterator[_Line]:
    """Yield the lines of every session. Raises StoreError if the rows are not in the order of a capture."""
    bounds = connection.execute(
        "SELECT session, min(at_us) AS first, max(at_us) AS last FROM captured GROUP BY session ORDER BY session"
    ).fetchnumpy()
    place = -1
    session: int | None = None
    before_us, block = 0, None
    rows = 0
    found = connection.execute(
        "SELECT session, at_us, us, kind, statement, sql, name, parameters, transaction, sqlstate, rows FROM captured"
    )
    while some := found.fetchmany(_AT_ONCE):
        for number, at_us, us, kind, of, text, name, parameters, transaction, sqlstate, affected in some:
            if number != session:
                if session is not None:
                    yield {"end": int(bounds["last"][place])}
                place += 1
                if place >= len(bounds["session"]) or number != bounds["session"][place]:
                    raise StoreError(f"cannot replay {statements}: its sessions are not in order", hint=_DAMAGED)
                session, before_us, block = number, int(bounds["first"][place]), None
                yield {"session": number, "at_us": before_us, "until_us": int(bounds["last"][place])}
            if at_us < before_us:
                raise StoreError(f"cannot replay {statements}: session {number} is not in order", hint=_DAMAGED)
            before_us = at_us
            if kind in ("connect", "disconnect"):
                continue
            line = _statement_line(shared, numbers, at_us, us, kind, of, text, name, parameters, sqlstate, affected)
            if transaction is not None and transaction == block:
                line["block"] = True
            block = transaction
            yield line
        rows += len(some)
        at_rows(rows)
    if session is not None:
        yield {"end": int(bounds["last"][place])}


def _statement_line(
    shared: dict[_Text, int],
    numbers: Sequence[int],
    at_us: int,
    us: int | None,
    kind: str,
    of: int,
    text: str,
    name: str | None,
    parameters: list[str | None] | None,
    sqlstate: str | None,
    rows: int | None,
) -> _Line:
    known = shared.get((text, of))
    line: _Line = {"at_us": at_us}
    line |= {"of": numbers[of], "sql": text} if known is None else {"text": known}
    if kind == "extended":
        line |= {"name": name} if name else {}
        line["params"] = parameters or []
    reported = (("us", us), ("error", sqlstate), ("rows", rows))
    return line | {key: value for key, value in reported if value is not None}
