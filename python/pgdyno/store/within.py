"""The probe's samples within stretches of trials, many trials per query: a file per trial and query would take
minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pgdyno.store.parquet import connect, fetched_rows, stored
from pgdyno.store.storing import storing

Stretch = tuple[int, int]
"""From, to: microseconds since the engine's start, the clock of `t_us`."""
Stretches = Mapping[int, Sequence[Stretch]]
"""By trial. If rows are requested, those of one trial must not overlap."""
Metric = tuple[str, str]
"""Source, metric."""
FILES_AT_ONCE = 200
"""DuckDB opens all files of a query before it reads."""

_WANTED = ("source VARCHAR", "metric VARCHAR")
_AMOUNTS = """
    SELECT s.trial, place, source, w.metric, coalesce(sum(value) FILTER (s.metric = w.metric), 0)
    FROM {files} s JOIN stretches USING (trial) JOIN wanted w USING (source)
    WHERE t_us > begin_us AND t_us <= end_us GROUP BY ALL
"""
_SERIES = """
    SELECT s.trial, t_us, wall_us, span_us, source, metric, labels, value
    FROM {files} s JOIN stretches USING (trial) SEMI JOIN wanted USING (source, metric)
    WHERE t_us > begin_us AND t_us <= end_us ORDER BY s.trial, t_us
"""
_SESSIONS = """
    WITH seen AS (
        SELECT s.trial, place, t_us, backend_type, wait_type, wait, sessions
        FROM {files} s JOIN stretches USING (trial) WHERE t_us >= begin_us AND t_us < end_us
    ), looks AS (SELECT trial, place, count(DISTINCT t_us) AS looks FROM seen GROUP BY ALL)
    SELECT trial, place, any_value(looks), backend_type, wait_type, wait, sum(sessions)
    FROM seen JOIN looks USING (trial, place) GROUP BY ALL ORDER BY ALL
"""


def amounts_within(files: Mapping[int, Path], stretches: Stretches, wanted: Sequence[Metric]) -> Iterator[Any]:
    """Return trial, number of the stretch, source, metric, and the sum of its samples. Raises StoreError.

    A stretch without a sample of the source has no row; `files` are the trials' `series.parquet`.
    """
    return _rows(files, stretches, wanted, _AMOUNTS)


def series_within(files: Mapping[int, Path], stretches: Stretches, wanted: Sequence[Metric]) -> Iterator[Any]:
    """Return columns of SeriesRow for the samples that end within the stretches, by trial and time. Raises
    StoreError.
    """
    return _rows(files, stretches, wanted, _SERIES)


def sessions_within(files: Mapping[int, Path], stretches: Stretches) -> Iterator[Any]:
    """Return trial, number of the stretch, number of samples, backend type, wait type, wait, and sessions summed over
    the samples.

    A stretch without a sample has no row; `files` are the trials' `waits.parquet`. Raises StoreError.
    """
    return _rows(files, stretches, (), _SESSIONS)


def _rows(files: Mapping[int, Path], stretches: Stretches, wanted: Sequence[Metric], query: str) -> Iterator[Any]:
    there = [number for number in stretches if number in files and files[number].exists()]
    for at in range(0, len(there), FILES_AT_ONCE):
        chosen = there[at : at + FILES_AT_ONCE]
        places = [(number, place, *each) for number in chosen for place, each in enumerate(stretches[number])]
        with storing("read", files[chosen[0]].parents[1]), connect() as connection:
            _table(
                connection, "stretches", ("trial INTEGER", "place INTEGER", "begin_us BIGINT", "end_us BIGINT"), places
            )
            _table(connection, "wanted", _WANTED, wanted)
            found = connection.execute(query.format(files=stored([files[number] for number in chosen])))
            yield from fetched_rows(found, files[chosen[0]].parents[1], chosen)


def _table(
    connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    if rows:
        lists = ", ".join(f"unnest(?::{column.split()[1]}[])" for column in columns)
        connection.execute(f"INSERT INTO {name} SELECT {lists}", [list(each) for each in zip(*rows, strict=True)])
