"""Rows into Parquet files, through DuckDB.

Columns are handed over as typed lists, which is a dozen times faster than a statement a row, and keeps
blobs as bytes.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb

from pgdyno.errors import StoreError
from pgdyno.store.bounded import DAMAGED, check_regular
from pgdyno.store.storing import storing
from pgdyno.store.tables import TABLES, Row, columns, required

MOST_ROWS: Mapping[str, int] = MappingProxyType(
    {
        "intervals": 500_000,
        "histograms": 500_000,
        "events": 500_000,
        "statements": 20_000,
        "settings": 20_000,
        "server_statements": 20_000,
    }
)
"""Of a trial's table: 24 hours of five scripts have 432,000 intervals."""
MOST_SAMPLES = 20_000_000
"""Of a trial's other tables, those of probes: an hour is a million rows."""
ROWS_FREE, ROWS_A_BYTE, SAMPLES_A_BYTE = 10_000, 4, 20
"""A file has at most so many rows, and more for each of its bytes: one that has more was made to fill the memory.
Seconds in which nothing happened are 0.12 rows a byte, events that are all alike 0.7, samples that are so 6."""
MOST_READ, MOST_READ_BYTES = 2_000_000, 1 << 30
"""Rows that one question brings into memory, and what is text in them."""
LONGEST_TEXT = 1 << 20
"""Bytes of a value that is text or a histogram."""
_AT_ONCE = 256
_NONE = object()
_MEMORY_BYTES = min(2 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 4 // 5)


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that fetches nothing from the network, and takes a part of the memory only."""
    memory = f"{_MEMORY_BYTES >> 20}MiB"
    return duckdb.connect(config={"autoinstall_known_extensions": False, "threads": 2, "memory_limit": memory})


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return connect()


def reader() -> duckdb.DuckDBPyConnection:
    """A session of a database that is kept: making one takes longer than reading a small table. It makes no tables."""
    return _database().cursor()


def stored(paths: Sequence[Path], options: str = "") -> str:
    """SQL that reads `paths`, tables of trials, with further `options` of read_parquet.

    Raises StoreError for a link, for what is no regular file, and for more rows than a table has.
    """
    for path in paths:
        with storing("read", path):
            found = path.lstat()
            check_regular(path, found)
            rows, other = _described(str(path), found.st_mtime_ns, found.st_size)
        if other is not None:
            raise StoreError(f"cannot read {path}: {other}", hint=DAMAGED)
        a_byte = ROWS_A_BYTE if path.stem in MOST_ROWS else SAMPLES_A_BYTE
        most = min(MOST_ROWS.get(path.stem, MOST_SAMPLES), ROWS_FREE + a_byte * found.st_size)
        if rows > most:
            raise StoreError(
                f"cannot read {path}: {rows:,} rows in {found.st_size:,} bytes, and at most {most:,} are read",
                hint=f"{DAMAGED}; DuckDB reads larger tables",
            )
    # listed by name: a pattern would find what is not whole, too
    files = f"read_parquet([{', '.join(quoted(str(path)) for path in paths)}]{options})"
    if not paths or "value" not in columns(TABLES[paths[0].stem]):
        return files
    # of samples; the other columns stay as they are, so that files are searched by them
    return f"(SELECT * REPLACE ({_sound('value', 'DOUBLE', is_needed=True)} AS value) FROM {files})"  # noqa: S608


@lru_cache(maxsize=16_384)
def _described(path: str, _changed_ns: int, _size: int) -> tuple[int, str | None]:
    """Rows of the file, and which of its columns has another type than the table's; by its footer alone."""
    with reader() as connection:
        found = connection.execute("SELECT num_rows FROM parquet_file_metadata(?)", [path]).fetchone()
        described = connection.execute(f"DESCRIBE FROM read_parquet({quoted(path)})").fetchall()
    types = columns(TABLES[Path(path).stem])
    # a column without any value has no type
    wrong = [(name, is_type) for name, is_type, *_ in described if is_type not in (types.get(name, is_type), '"NULL"')]
    other = f"column {wrong[0][0]} is {wrong[0][1]}, not {types[wrong[0][0]]}" if wrong else None
    return int(found[0]) if found else 0, other


def fetched_rows(
    found: duckdb.DuckDBPyConnection, path: Path, trials: Container[int] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Rows of a result, a few at a time.

    Raises StoreError, which names `path`, when they are too many to hold; where `trials` are given, also when the
    first column is another number.
    """
    rows = size = 0
    while some := found.fetchmany(_AT_ONCE):
        rows += len(some)
        other = next((row[0] for row in some if row[0] not in trials), _NONE) if trials is not None else _NONE
        if other is not _NONE:
            raise StoreError(
                f"cannot read {path}: a table has rows of trial {other}, which is not there",
                hint=DAMAGED,
            )
        size += sum(len(value) for row in some for value in row if isinstance(value, str | bytes))
        if rows > MOST_READ or size > MOST_READ_BYTES:
            raise StoreError(
                f"cannot read {path}: more than {MOST_READ:,} rows, or {MOST_READ_BYTES >> 20:,} MiB of text in them",
                hint="ask of fewer trials at once, or with DuckDB",
            )
        yield from some


def sound(row: type[Row]) -> str:
    """SQL of the columns of `row`, each of its type; a value that is no figure, or too long, is an error."""
    needed = required(row)
    return ", ".join(
        f"{_sound(name, sql_type, is_needed=name in needed)} AS {name}" for name, sql_type in columns(row).items()
    )


def _sound(name: str, sql_type: str, *, is_needed: bool) -> str:
    value = f"{name}::{sql_type}"
    if is_needed:
        value = f"if({value} IS NULL, error('{name} has a row without a value'), {value})"
    if sql_type == "DOUBLE":
        wrong = f"error('{name} has a value that is no figure')"
        return f"if(NOT isfinite({value}) OR abs({value}) > 1e20, {wrong}, {value})"
    if sql_type in ("VARCHAR", "BLOB"):
        size = f"octet_length({value})" if sql_type == "BLOB" else f"strlen({value})"
        return f"if({size} > {LONGEST_TEXT}, error('{name} has a value of more than 1 MiB'), {value})"
    return value


_empty: dict[str, bytes] = {}
"""Files of tables without rows: most of an imported trial's, and each always the same."""


def write_tables(folder: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    """Writes `<name>.parquet` into `folder` for each of `tables`, empty ones too. Raises StoreError."""
    filled = {name: rows for name, rows in tables.items() if rows or name not in _empty}
    for name in tables.keys() - filled.keys():
        path = folder / f"{name}.parquet"
        with storing("write", path):
            path.write_bytes(_empty[name])
    if not filled:
        return
    with connect() as connection:
        for name, rows in filled.items():
            path = folder / f"{name}.parquet"
            with storing("write", path):
                _write(connection, path, TABLES[name], rows)
                if not rows:
                    _empty[name] = path.read_bytes()


def _write(connection: duckdb.DuckDBPyConnection, path: Path, row: type[Row], rows: Sequence[Row]) -> None:
    types = columns(row)
    lists = ", ".join(f'unnest(${name}::{sql_type}[]) AS "{name}"' for name, sql_type in types.items())
    try:
        connection.execute(
            f"COPY (SELECT {lists}) TO {quoted(str(path))} (FORMAT parquet, COMPRESSION zstd)",
            {name: [getattr(each, name) for each in rows] for name in types},
        )
    except (RuntimeError, UnicodeError, OverflowError) as error:
        # what DuckDB raises for a value that it cannot take over from Python, such as half of a character
        raise StoreError(f"cannot write {path}: a value is not of its column's type: {error}") from error


def quoted(text: str) -> str:
    """`text` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
