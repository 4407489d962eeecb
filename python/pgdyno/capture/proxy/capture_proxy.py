"""Reads what `pgdrive --proxy --record` writes: a line of JSON for each statement, and for the ends of sessions."""

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from pgdyno.capture.left_out import Losses
from pgdyno.capture.logs.capture_logs import Left, Options, Progress, capture_events
from pgdyno.capture.logs.log_blocks import JSON_BYTES, Block, load_pieces
from pgdyno.capture.logs.log_events import OWN_NAMES, OWN_STATEMENT, of_others
from pgdyno.capture.parser import require_parser
from pgdyno.records.capture import Capture, Source
from pgdyno.records.secret_values import CREDENTIAL_IN_STRING
from pgdyno.store.duckdb_session import quote_text, table_function
from pgdyno.store.safe_files import store_errors

BLOCK_BYTES = 16 << 20
_BINARY = b'{"oid":'
"""Begins a binary value; within a text, the quote would have a backslash."""
_COLUMNS = {
    "line": "BIGINT", "kind": "VARCHAR", "session": "VARCHAR", "at": "BIGINT", "us": "BIGINT", "database": "VARCHAR",
    "user": "VARCHAR", "application": "VARCHAR", "sql": "VARCHAR", "name": "VARCHAR", "parameters": "VARCHAR[]",
    "rows": "BIGINT", "sqlstate": "VARCHAR", "answer": "VARCHAR[]", "answer_columns": "VARCHAR[]", "copy": "VARCHAR[]",
    "copy_bytes": "BIGINT", "reason": "VARCHAR",
}  # fmt: skip
# a statement that failed before the server asked for its rows is as complete as one that it refused later
_EVENT = rf"""
SELECT line, "at" + coalesce(us, 0) AS logged_us, session AS key, NULL::BIGINT AS pid,
       CASE WHEN kind = 'connect' THEN "at" END AS started, NULL::BIGINT AS process_number,
       CASE WHEN kind = 'done' AND us IS NULL THEN 'sent' ELSE kind END AS kind, us, database, name, sql, parameters,
       false AS has_shortened, NULL::VARCHAR AS doubt,
       coalesce(regexp_matches(array_to_string(parameters, ' '), {quote_text(CREDENTIAL_IN_STRING)}), false)
           AS has_credentials,
       sqlstate, NULL::BIGINT AS lock_us, rows, answer, answer_columns, copy,
       CASE WHEN copy_bytes IS NULL AND regexp_matches(sql, '(?is)^\s*copy\b.*\bfrom\s+stdin\b') THEN 0
            ELSE copy_bytes END AS copy_bytes,
       regexp_matches(application, '^{OWN_NAMES}') OR coalesce(regexp_matches(sql, {quote_text(OWN_STATEMENT)}), false)
           AS is_own,
       CASE {{others}} ELSE reason END AS reason
FROM (SELECT *, "user" AS role FROM {{source}})
"""
_LEFT = """
SELECT reason, count(*) FILTER (kind NOT IN ('connect', 'disconnect')), min(line) FROM event
WHERE reason IN ('other-user', 'other-application') GROUP BY reason
UNION ALL
SELECT 'copy-rows', count(*), min(line) FROM event WHERE copy_bytes > 0 AND {without} HAVING count(*) > 0
"""


class RecordFile:
    """A file of records."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.size_bytes = path.stat().st_size
        self._others = of_others(options.user, options.application) or "WHEN false THEN NULL"
        self._without = "copy IS NULL" if options.values == "kept" else "true"

    def blocks(self, losses: Losses) -> Iterator[Block]:
        """Yield whole lines with their numbers; a last one that is cut is added to `losses`. Raises StoreError."""
        line, rest = 1, b""
        with store_errors("read", self.path, None), self.path.open("rb") as file:
            while chunk := file.read(BLOCK_BYTES):
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    lines = whole.split(b"\n")
                    data = b"\n".join(_numbered(number, each) for number, each in enumerate(lines, line))
                    yield Block(data, len(lines), line, file.tell())
                    line += len(lines)
        if rest:
            losses.add("cut", self.path, line)

    def load(self, cursor: duckdb.DuckDBPyConnection, block: Block, file: Path) -> tuple[list[Left], str | None]:
        """Fill the table `event` of `cursor` by way of `file`; return what is left out, and no version."""
        longest = max(map(len, block.data.split(b"\n"))) + 1024
        columns = ", ".join(f'"{name}": {quote_text(kind)}' for name, kind in _COLUMNS.items())
        options = f"format='newline_delimited', compression='none', columns={{{columns}}}"
        source = table_function("read_json", [file], f"{options}, maximum_object_size={max(longest, 1 << 20)}")
        query = _EVENT.format(others=self._others, source=source)
        load_pieces(cursor, "event", query, block.data, JSON_BYTES, file)
        left = cursor.execute(_LEFT.format(without=self._without)).fetchall()
        cursor.execute("DELETE FROM event WHERE reason IN ('other-user', 'other-application')")
        return [(str(reason), int(count), int(line)) for reason, count, line in left if count], None


def capture_records(
    path: Path, into: Path, options: Options, progress: Callable[[Progress], None] = lambda _: None
) -> Capture:
    """Write `capture.parquet` into the folder `into` from the records in `path`, and return what it has.

    Raises UsageError if they have no statement, StoreError.
    """
    require_parser()
    found = capture_events([RecordFile(path, options)], Losses([path]), into, options, progress)
    return found.model_copy(update={"source": Source.PROXY})


def _numbered(number: int, line: bytes) -> bytes:
    if _BINARY in line:
        line = _with_text(json.loads(line))
    return b'{"line":%d,%b' % (number, line[1:])


def _with_text(record: dict[str, Any]) -> bytes:
    """Return the record with the text of its binary values."""
    is_malformed = record.get("sqlstate") in _MALFORMED
    for key in ("parameters", "answer"):
        try:
            values: list[Any] = record.get(key, [])
            if values:
                record[key] = [_text_of(each, is_malformed) if isinstance(each, dict) else each for each in values]
        except ValueError:
            del record[key]
            if key == "answer":
                del record["answer_columns"]
            else:
                record["reason"] = "binary"
    return json.dumps(record, ensure_ascii=False).encode()


_SIZES = {700: 4, 701: 8, 1082: 4, 1083: 8, 1114: 8, 1184: 8, 1186: 16, 1266: 12, 2950: 16}
"""Bytes of the types whose size is fixed: float4 and float8, dates and times, UUID."""
_MALFORMED = ("22P03", "08P01")
"""SQLSTATEs with which the server refuses binary values."""


def _text_of(value: dict[str, Any], is_malformed: bool) -> str:
    if is_malformed:
        raise ValueError("the server could not read it")
    return _text(value["oid"], value["hex"])


@lru_cache(maxsize=65_536)
def _text(oid: int, hexadecimal: str) -> str:
    """Return the text of a binary value. Raises ValueError if its type is unknown, or has no such value."""
    transformer, data = Transformer(), bytes.fromhex(hexadecimal)
    # psycopg's loaders in C read as many bytes as the type has
    if psycopg.adapters.types.get(oid) is None or len(data) != _SIZES.get(oid, len(data)):
        raise ValueError(f"no value of type {oid}")
    try:
        value = transformer.get_loader(oid, Format.BINARY).load(data)
        if isinstance(value, UUID):
            return str(value)
        text = transformer.get_dumper(value, PyFormat.TEXT).dump(value)
    except (psycopg.Error, ValueError, TypeError, OverflowError, IndexError) as error:
        raise ValueError(str(error)) from error
    return "" if text is None else bytes(text).decode()
