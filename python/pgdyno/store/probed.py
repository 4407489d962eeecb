"""Loads a probe's samples into the tables `series`, `waits` and `server_statements`, through DuckDB; those of standbys
into separate tables.

An hour has a million rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdyno.records import PlacedLines
from pgdyno.store.parquet import connect, quoted
from pgdyno.store.storing import storing
from pgdyno.store.tables import (
    Row,
    SeriesRow,
    ServerStatementRow,
    StandbySeriesRow,
    StandbyWaitRow,
    WaitRow,
    columns,
)

_MOST_BYTES = 64 << 20
"""Limit for a line: a server with thousands of processes has long ones."""

_COLUMNS = {
    "event": "VARCHAR",
    "t_us": "BIGINT",
    "wall_us": "BIGINT",
    "span_us": "BIGINT",
    "source": "VARCHAR",
    "since_us": "BIGINT",
    "rows": 'STRUCT(labels JSON, "values" MAP(VARCHAR, DOUBLE), backend_type VARCHAR, wait_type VARCHAR,'
    " wait VARCHAR, query_id BIGINT, sessions INTEGER, text VARCHAR)[]",
}

_SERIES = """
    SELECT {trial} AS trial, {times}, span_us, if(source = 'probe', {own}, source) AS source,
           unnest(map_keys(row."values")) AS metric, coalesce(row.labels::VARCHAR, '{{}}') AS labels,
           unnest(map_values(row."values")) AS value
    FROM (SELECT t_us, wall_us, span_us, source, unnest(rows) AS row FROM {lines} WHERE event = 'sample')
"""
_WAITS = """
    SELECT {trial} AS trial, {times}, row.backend_type AS backend_type,
           row.wait_type AS wait_type, row.wait AS wait, row.query_id AS query_id,
           coalesce(row.sessions, 0) AS sessions
    FROM (SELECT t_us, wall_us, unnest(CASE WHEN len(rows) = 0 THEN [NULL] ELSE rows END) AS row
          FROM {lines} WHERE event = 'waits')
"""
_OF_STATEMENTS = {
    "exec_time_ms": "exec_time",
    "plan_time_ms": "plan_time",
    "read_time_ms": "read_time",
    "write_time_ms": "write_time",
    "wal_bytes": "wal",
}
"""Columns whose names differ from the metric's, because they include the unit."""
_FIGURES = [name for name in columns(ServerStatementRow) if columns(ServerStatementRow)[name] == "DOUBLE"]
_STATEMENTS = """
    SELECT {trial} AS trial, {since} AS since_us, {until} AS until_us,
           (row.labels->>'query_id')::BIGINT AS query_id, row.labels->>'user' AS "user",
           row.labels->>'database' AS database, row.text AS text, {figures}
    FROM (SELECT t_us, since_us, unnest(rows) AS row FROM {lines} WHERE event = 'statements')
"""
_TABLES: dict[str, tuple[type[Row], str]] = {
    "series": (SeriesRow, _SERIES),
    "waits": (WaitRow, _WAITS),
    "server_statements": (ServerStatementRow, _STATEMENTS),
}
_OF_STANDBYS: dict[str, tuple[type[Row], str]] = {
    "standby_series": (StandbySeriesRow, f"SELECT *, {{standby}} AS standby FROM ({_SERIES})"),  # noqa: S608
    "standby_waits": (StandbyWaitRow, f"SELECT *, {{standby}} AS standby FROM ({_WAITS})"),  # noqa: S608
}


def write_probed(folder: Path, trial: int, files: Sequence[PlacedLines]) -> None:
    """Write the tables of `trial` into `folder`. A truncated line is left out. Raises StoreError."""
    _write(folder, trial, _TABLES, [file for file in files if file.standby is None])
    standbys = [file for file in files if file.standby is not None]
    if standbys:
        _write(folder, trial, _OF_STANDBYS, standbys)


def _write(folder: Path, trial: int, tables: Mapping[str, tuple[type[Row], str]], files: Sequence[PlacedLines]) -> None:
    if not files:
        return
    with connect() as connection:
        for name, (row, query) in tables.items():
            path = folder / f"{name}.parquet"
            typed = ", ".join(f'"{column}"::{sql_type} AS "{column}"' for column, sql_type in columns(row).items())
            rows = " UNION ALL ".join(_rows(query, trial, file) for file in files)
            with storing("write", path):
                connection.sql(rows).project(typed).write_parquet(str(path), compression="zstd")


def _rows(query: str, trial: int, file: PlacedLines) -> str:
    placed, since = (f"({each} * {file.rate!r} + {file.offset_us!r})" for each in ("t_us", "since_us"))
    wall = "wall_us" if file.epoch_us is None else f"round({placed} + {file.epoch_us})::BIGINT"
    return query.format(
        trial=trial,
        times=f"round({placed})::BIGINT AS t_us, {wall} AS wall_us",
        own=quoted(file.own_source),
        standby=quoted(file.standby or ""),
        lines=_source(file.path),
        since=f"round({since})::BIGINT",
        until=f"round({placed})::BIGINT",
        figures=", ".join(f"row.\"values\"['{_OF_STATEMENTS.get(name, name)}'] AS {name}" for name in _FIGURES),
    )


def _source(path: Path) -> str:
    types = ", ".join(f"{name}: {quoted(sql_type)}" for name, sql_type in _COLUMNS.items())
    return (
        f"read_json({quoted(str(path))}, format = 'newline_delimited', columns = {{{types}}},"
        f" ignore_errors = true, maximum_object_size = {_MOST_BYTES})"
    )
