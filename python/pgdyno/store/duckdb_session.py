"""DuckDB's connections: without network access, and with limited memory."""

from __future__ import annotations

import atexit
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

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
    """Return a session of a shared database, because creating one is slower than reading a small table. It creates only
    temporary tables.
    """
    return _database().cursor()


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
