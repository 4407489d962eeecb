"""A probe's samples as the tables `series`, `waits`, `server_statements`, and those of standbys; read within stretches.

An hour has a million rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.records import PlacedLines
from pgdyno.store.duckdb_session import connect, file_name, quote_text, session, table_function
from pgdyno.store.parquet import fetched_rows, table_query
from pgdyno.store.safe_files import store_errors
from pgdyno.store.trial_tables import (
    Row,
    SeriesRow,
    ServerStatementRow,
    StandbySeriesRow,
    StandbyWaitRow,
    WaitRow,
    columns,
)

if TYPE_CHECKING:
    import duckdb

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
    _write(folder, trial, _OF_STANDBYS, [file for file in files if file.standby is not None])


def _write(folder: Path, trial: int, tables: Mapping[str, tuple[type[Row], str]], files: Sequence[PlacedLines]) -> None:
    if not files:
        return
    with connect() as connection:
        # two threads pile up rows that cannot be written yet: 1 GB for four hours, and no CPU time is saved
        connection.execute("SET threads = 1")
        for name, (row, query) in tables.items():
            path = folder / f"{name}.parquet"
            typed = ", ".join(f'"{column}"::{sql_type} AS "{column}"' for column, sql_type in columns(row).items())
            rows = " UNION ALL ".join(_rows(query, trial, file) for file in files)
            to = f"{quote_text(file_name(path))} (FORMAT parquet, COMPRESSION zstd)"
            with store_errors("write", path):
                connection.execute(f"COPY (SELECT {typed} FROM ({rows})) TO {to}")  # noqa: S608 - names of ours


def _rows(query: str, trial: int, file: PlacedLines) -> str:
    placed, since = (f"({each} * {file.rate!r} + {file.offset_us!r})" for each in ("t_us", "since_us"))
    wall = "wall_us" if file.epoch_us is None else f"round({placed} + {file.epoch_us})::BIGINT"
    return query.format(
        trial=trial,
        times=f"round({placed})::BIGINT AS t_us, {wall} AS wall_us",
        own=quote_text(file.own_source),
        standby=quote_text(file.standby or ""),
        lines=_source(file.path),
        since=f"round({since})::BIGINT",
        until=f"round({placed})::BIGINT",
        figures=", ".join(f"row.\"values\"['{_OF_STATEMENTS.get(name, name)}'] AS {name}" for name in _FIGURES),
    )


def _source(path: Path) -> str:
    types = ", ".join(f"{name}: {quote_text(sql_type)}" for name, sql_type in _COLUMNS.items())
    options = (
        f"format = 'newline_delimited', columns = {{{types}}}, ignore_errors = true,"
        f" maximum_object_size = {_MOST_BYTES}"
    )
    return table_function("read_json", [path], options)


Stretch = tuple[int, int]
"""From, to: microseconds since the engine's start, the clock of `t_us`."""
Stretches = Mapping[int, Sequence[Stretch]]
"""By trial. If rows are requested, those of one trial must not overlap."""
Metric = tuple[str, str]
"""Source, metric."""
Shares = Mapping[tuple[int, int], tuple[float, Mapping[Metric, float]]]
"""By trial and number of the stretch: its sampled microseconds, and means over them."""
FILES_AT_ONCE = 200
"""DuckDB opens all files of a query before it reads."""

_STRETCHES = ("trial INTEGER", "place INTEGER", "begin_us BIGINT", "end_us BIGINT")
_WANTED = ("source VARCHAR", "metric VARCHAR")
AMOUNTS = """
    SELECT s.trial, place, source, w.metric, coalesce(sum(value) FILTER (s.metric = w.metric), 0)
    FROM {files} s JOIN stretches USING (trial) JOIN wanted w USING (source)
    WHERE t_us > begin_us AND t_us <= end_us GROUP BY ALL
"""
"""Of `series.parquet`: trial, number of the stretch, source, metric, and the sum of its samples."""
SHARES = """
    WITH seen AS (
        SELECT s.trial, place, t_us, source, metric, span_us, value
        FROM {files} s JOIN stretches USING (trial) SEMI JOIN wanted USING (source, metric)
        WHERE t_us > begin_us AND t_us <= end_us AND span_us > 0
    ), samples AS (SELECT trial, place, t_us, max(span_us) AS span_us FROM seen GROUP BY ALL
    ), lengths AS (SELECT trial, place, sum(span_us) AS length_us FROM samples GROUP BY ALL)
    SELECT trial, place, any_value(length_us)::DOUBLE, source, metric,
           sum(value * span_us) / any_value(length_us)
    FROM seen JOIN lengths USING (trial, place) GROUP BY ALL ORDER BY ALL
"""
"""Likewise: trial, number of the stretch, its sampled microseconds, source, metric, and the metric's mean over them."""
SAMPLES = """
    SELECT s.trial, t_us, wall_us, span_us, source, metric, labels, value
    FROM {files} s JOIN stretches USING (trial) SEMI JOIN wanted USING (source, metric)
    WHERE t_us > begin_us AND t_us <= end_us ORDER BY s.trial, t_us
"""
"""Likewise: columns of SeriesRow for samples that end within the stretches, in order."""
SESSIONS = """
    WITH seen AS (
        SELECT s.trial, place, t_us, backend_type, wait_type, wait, sessions
        FROM {files} s JOIN stretches USING (trial) WHERE t_us >= begin_us AND t_us < end_us
    ), looks AS (SELECT trial, place, count(DISTINCT t_us) AS looks FROM seen GROUP BY ALL)
    SELECT trial, place, any_value(looks), backend_type, wait_type, wait, sum(sessions)
    FROM seen JOIN looks USING (trial, place) GROUP BY ALL ORDER BY ALL
"""
"""Of `waits.parquet`: trial, number of the stretch, samples, backend type, wait type, wait, and the sum of sessions."""


def rows_within(
    files: Mapping[int, Path], stretches: Stretches, query: str, wanted: Sequence[Metric] = ()
) -> Iterator[Any]:
    """Yield the rows of one of the queries above on `files`, the tables of trials. Raises StoreError.

    A stretch without a sample has no row, and a metric without one has none either.
    """
    there = [number for number in stretches if number in files and files[number].exists()]
    for at in range(0, len(there), FILES_AT_ONCE):
        chosen = there[at : at + FILES_AT_ONCE]
        places = [(number, place, *each) for number in chosen for place, each in enumerate(stretches[number])]
        with store_errors("read", files[chosen[0]].parents[1]), session() as connection:
            _create_table(connection, "stretches", _STRETCHES, places)
            _create_table(connection, "wanted", _WANTED, wanted)
            found = connection.execute(query.format(files=table_query([files[number] for number in chosen])))
            yield from fetched_rows(found, files[chosen[0]].parents[1], chosen)


def _create_table(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    connection.execute(f"CREATE TEMP TABLE {name} ({', '.join(columns)})")
    if rows:
        lists = ", ".join(f"unnest(?::{column.split()[1]}[])" for column in columns)
        connection.execute(f"INSERT INTO {name} SELECT {lists}", [list(each) for each in zip(*rows, strict=True)])
