"""Writes the replay file of a capture (docs/reference/replay-file.md), which pgdrive reads.

The rows of `capture.parquet` pass through in their order, some thousand at a time: memory grows with the number of
sessions and of shared texts, not with that of statements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pgdyno.capture.key_columns import chains
from pgdyno.capture.key_links import find_links, use_places
from pgdyno.capture.parser import require_parser
from pgdyno.errors import StoreError
from pgdyno.records.capture import STATEMENTS_FILE, Capture, as_reported
from pgdyno.store.duckdb_session import connect, fetch_row, table_function
from pgdyno.store.safe_files import open_new, store_errors

if TYPE_CHECKING:
    import duckdb

VERSION = 1
"""Version of the replay file that this code writes."""
MEMORY = "400MiB"
"""DuckDB's limit; beyond it, grouping the texts spills to disk."""
MOST_SHARED, MOST_SHARED_BYTES = 100_000, 64 << 20
"""Texts that stand in the file once, the most frequent first: pgdrive and pgdyno keep them in memory."""
_AT_ONCE = 4096
_WITH_TEXT = "kind IN ('simple', 'extended')"
_OF_PROXY = {"answer": "VARCHAR[][]", "answer_columns": "VARCHAR[]", "copy": "VARCHAR[]"}
_BOUNDS = "SELECT session, min(at_us), max(at_us) FROM captured GROUP BY session ORDER BY session"
_ROWS = """
SELECT session, seq, at_us, statement, sql, transaction,
       {'name': nullif(name, ''), 'params': CASE WHEN kind = 'extended' THEN coalesce(parameters, []) END,
        'us': us, 'error': sqlstate, 'rows': rows, 'copy': copy}
FROM captured
"""
_DAMAGED = "write the capture again with pgdyno capture"

_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_Line = dict[str, Any]
_Text = tuple[str, int]
"""A text and its class."""


def write_replay_file(
    folder: Path,
    capture: Capture,
    into: Path,
    at_rows: Callable[[int], None] = lambda _rows: None,
    *,
    in_order: bool = False,
) -> None:
    """Write the replay file of the capture in `folder` to `into`; a file that cannot be completed is removed.

    With `in_order`, statements that make keys of one table wait for each other, and sessions for the last ones that
    ended before. `at_rows` is called with the number of rows so far; its exceptions end the work. Raises StoreError,
    and UsageError if the parser is needed and missing.
    """
    if in_order:
        require_parser()
    statements = folder / STATEMENTS_FILE
    with store_errors("replay", statements):
        try:
            # one thread keeps the order of the file and needs the least memory
            with open_new(into) as file, connect(1, MEMORY, into.with_name(f"{into.name}.spilled")) as connection:
                read_captured(connection, statements)
                _write(connection, capture, file, statements, at_rows, in_order)
        except BaseException:
            into.unlink(missing_ok=True)
            raise


def read_captured(connection: duckdb.DuckDBPyConnection, statements: Path) -> None:
    """Create the view `captured` of a capture's table, with the columns that captures of a log do not have."""
    table = table_function("read_parquet", [statements])
    names = {row[0] for row in connection.execute(f"DESCRIBE FROM {table}").fetchall()}
    missing = [f"NULL::{kind} AS {name}" for name, kind in _OF_PROXY.items() if name not in names]
    connection.execute(f"CREATE VIEW captured AS SELECT {', '.join(['*', *missing])} FROM {table}")


def _write(
    connection: duckdb.DuckDBPyConnection,
    capture: Capture,
    file: BinaryIO,
    statements: Path,
    at_rows: Callable[[int], None],
    in_order: bool,
) -> None:
    count, sessions, last_class, longest_us = fetch_row(
        connection,
        f"SELECT count(*) FILTER ({_WITH_TEXT}), count(DISTINCT session), max(statement), coalesce(max(us), 0) "
        "FROM captured",
    )
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
    links = find_links(connection, chains(capture.statements) if in_order else None, capture.references)
    head |= {"slots": links.slots, "ambiguous": links.ambiguous} if links.slots or links.ambiguous else {}
    _put(file, head)
    reported, numbers = as_reported(capture)
    for number, each in enumerate(reported.statements):
        _put(file, {"class": number, "sql": each.text})
    shared = _shared_texts(connection)
    for (text, of), number in shared.items():
        _put(file, {"text": number, "of": numbers[of], "sql": text})
    for line in _session_lines(connection, shared, numbers, statements, links.lines(), at_rows):
        _put(file, line)


def _put(file: BinaryIO, line: _Line) -> None:
    file.write(_TO_JSON(line).encode() + b"\n")


def _shared_texts(connection: duckdb.DuckDBPyConnection) -> dict[_Text, int]:
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
    links: Iterator[tuple[Any, ...]],
    at_rows: Callable[[int], None],
) -> Iterator[_Line]:
    """Yield the lines of every session. Raises StoreError if the rows are not in the order of a capture."""
    bounds = connection.cursor().execute(_BOUNDS)
    rows = _rows(connection.execute(_ROWS), at_rows)
    link = next(links, None)
    for session, of_session in groupby(rows, key=itemgetter(0)):
        expected, before_us, end_us = bounds.fetchone() or (None, 0, 0)
        if session != expected:
            raise StoreError(f"cannot replay {statements}: its sessions are not in order", hint=_DAMAGED)
        yield {"session": session, "at_us": before_us, "until_us": end_us}
        block: int | None = None
        for _, seq, at_us, of, text, transaction, others in of_session:
            if at_us < before_us:
                raise StoreError(f"cannot replay {statements}: session {session} is not in order", hint=_DAMAGED)
            before_us = at_us
            # a row at an end of the session
            if of is None:
                continue
            linked: _Line = {}
            if link is not None and link[:2] == (session, seq):
                linked = _linked(text, others["params"], others["copy"], *link[2:])
                link = next(links, None)
            # a text with places of slots is its own
            is_own = any(not parameter for _, parameter, *_ in linked.get("uses", ()))
            known = None if is_own else shared.get((text, of))
            line: _Line = {"at_us": at_us}
            line |= {"of": numbers[of], "sql": text} if known is None else {"text": known}
            line |= {key: value for key, value in others.items() if value is not None} | linked
            if transaction is not None and transaction == block:
                line["block"] = True
            block = transaction
            yield line
        yield {"end": end_us}


def _linked(
    sql: str,
    parameters: Sequence[str | None] | None,
    copy: Sequence[str] | None,
    gives: Sequence[Sequence[str | None]] | None,
    uses: Sequence[Sequence[int]] | None,
    after: Sequence[int] | None,
    done: int | None,
) -> _Line:
    line: _Line = {"uses": use_places(sql, parameters, copy, uses)} if uses else {}
    if gives:
        given = ([*map(int, filter(None, each[:3])), *filter(None, each[3:])] for each in gives)
        line["gives"] = sorted(given, key=lambda each: each[2])
    return line | ({"after": sorted(after)} if after else {}) | ({"done": done} if done is not None else {})


def _rows(found: duckdb.DuckDBPyConnection, at_rows: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
    count = 0
    while some := found.fetchmany(_AT_ONCE):
        yield from some
        count += len(some)
        at_rows(count)
