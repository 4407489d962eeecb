"""Rows into Parquet files, through DuckDB.

Columns are handed over as typed lists, which is a dozen times faster than a statement a row, and keeps
blobs as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import duckdb

from pgdyno.store.storing import storing
from pgdyno.store.tables import TABLES, Row, columns


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that fetches nothing from the network."""
    return duckdb.connect(config={"autoinstall_known_extensions": False, "threads": 2})


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return connect()


def reader() -> duckdb.DuckDBPyConnection:
    """A session of a database that is kept: making one takes longer than reading a small table. It makes no tables."""
    return _database().cursor()


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
    connection.execute(
        f"COPY (SELECT {lists}) TO {quoted(str(path))} (FORMAT parquet, COMPRESSION zstd)",
        {name: [getattr(each, name) for each in rows] for name in types},
    )


def quoted(text: str) -> str:
    """`text` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
