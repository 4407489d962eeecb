"""DuckDB's connections, without network access and with limited memory, and the names of files in its SQL."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import duckdb

_MEMORY_BYTES = min(2 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 4 // 5)


def connect(
    threads: int = 2, memory: str = f"{_MEMORY_BYTES >> 20}MiB", spill: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """Return an in-memory database without network access and with limited memory.

    `spill` is the folder for what does not fit into memory; None for DuckDB's default.
    """
    # imported here: most commands read no table
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "threads": threads,
        "memory_limit": memory,
    }
    if spill is not None:
        config["temp_directory"] = str(spill)
    connection = duckdb.connect(config=config)
    # a long query would draw one on standard output
    connection.execute("SET enable_progress_bar = false")
    return connection


@cache
def _database() -> duckdb.DuckDBPyConnection:
    database = connect()
    # it then removes the files that it wrote when memory was short
    atexit.register(database.close)
    return database


def session() -> duckdb.DuckDBPyConnection:
    """Return a session of a shared database, as creating one is slow. It creates only temporary tables."""
    return _database().cursor()


def fetch_row(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return the only row of a query that always has one, such as that of an aggregate."""
    (row,) = connection.execute(query, parameters).fetchall()
    return tuple(row)


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ---- files ----

_WILDCARD = re.compile(r"[*?\[]")
_EXACT = "hive_partitioning = false"
"""DuckDB would take a folder such as `clients=99` for a column, which hides the column of that name in the files."""


def file_name(path: Path) -> str:
    """Return the name by which DuckDB writes the file `path`."""
    # DuckDB takes a first ~ for the home folder, wherever the user's shell kept it
    return f"./{path}" if str(path).startswith("~") else str(path)


def file_pattern(path: Path) -> str:
    """Return the pattern that matches the file `path` only: DuckDB takes a name for a pattern when it reads."""
    name = file_name(path)
    # DuckDB splits a pattern at backslashes, too, and takes one that matches no file for a name
    return name if "\\" in name else _escape_wildcards(name)


def table_function(
    function: Literal["read_parquet", "read_csv", "read_json"], paths: Iterable[Path], options: str = ""
) -> str:
    """Return SQL that reads the files `paths`, and no others, with further `options` of `function`."""
    files = ", ".join(quote_text(file_pattern(path)) for path in paths)
    return f"{function}([{files}], {', '.join(filter(None, (_EXACT, options)))})"


def reading_below(location: str, pattern: str) -> str:
    """Return SQL for a user's own DuckDB that reads the Parquet files that match `pattern` below `location`."""
    files = quote_text(f"{_escape_wildcards(location)}/{pattern}")
    return f"read_parquet({files}, {_EXACT})" if "=" in location else files


def _escape_wildcards(name: str) -> str:
    return _WILDCARD.sub(r"[\g<0>]", name)
