"""What the server did inside of one trial: its statements as it counted them, its tables as they grew."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.store.beside import rows_of
from pgdyno.store.read import RunData

MOST_STATEMENTS = 15
MOST_TABLES = 20

_TABLES = """
    WITH seen AS (
        SELECT t_us, json_extract_string(labels, '$.table') AS name, metric, value
        FROM {series} WHERE source = 'relations'
    ), ends AS (SELECT name, min(t_us) AS first, max(t_us) AS last FROM seen GROUP BY name)
    SELECT name,
           -- zeros are left out of the samples
           coalesce(sum(value) FILTER (metric IN ('size', 'indexes', 'others') AND t_us = last), 0),
           coalesce(sum(value) FILTER (metric IN ('size', 'indexes', 'others') AND t_us = last), 0)
             - coalesce(sum(value) FILTER (metric IN ('size', 'indexes', 'others') AND t_us = first), 0),
           coalesce(sum(value) FILTER (metric = 'dead_rows' AND t_us = last), 0),
           coalesce(sum(value) FILTER (metric = 'live_rows' AND t_us = last), 0),
           coalesce(sum(value) FILTER (metric = 'inserted'), 0) AS inserted,
           coalesce(sum(value) FILTER (metric = 'updated'), 0) AS updated,
           coalesce(sum(value) FILTER (metric = 'hot_updated'), 0),
           coalesce(sum(value) FILTER (metric = 'deleted'), 0) AS deleted,
           coalesce(sum(value) FILTER (metric = 'scans'), 0)
    FROM seen JOIN ends USING (name) WHERE name IS NOT NULL
    GROUP BY name ORDER BY inserted + updated + deleted DESC, name
"""
_STATEMENTS = """
    SELECT coalesce(text, ''), sum(calls), sum(exec_time_ms) AS spent, sum(spent) OVER (), sum(rows), sum(blocks_read),
           sum(wal_bytes)
    FROM {server_statements} GROUP BY query_id, text HAVING sum(calls) > 0 ORDER BY spent DESC NULLS LAST, text
"""


@dataclass(frozen=True, slots=True)
class TableSum:
    """A table over a trial, of those that changed most."""

    name: str
    bytes: float
    """At the end: with indexes and TOAST."""
    grown_bytes: float
    dead_rows: float
    live_rows: float
    """Both at the end."""
    inserted: float
    updated: float
    hot_updated: float
    """Of these, without new index entries."""
    deleted: float
    scans: float
    """Sequential ones."""


@dataclass(frozen=True, slots=True)
class ServerStatementSum:
    """A statement as pg_stat_statements counted it, of those that took the longest."""

    text: str
    calls: float
    spent_ms: float | None
    all_ms: float | None
    """Of all statements together."""
    rows: float | None
    blocks_read: float | None
    wal_bytes: float | None


def table_sums(run: RunData, trial: int) -> list[TableSum]:
    """Tables of trial number `trial`, those that changed most first. Raises StoreError."""
    return [TableSum(*row) for row in rows_of(run, "series", _TABLES, {trial: 1})[:MOST_TABLES]]


def server_statement_sums(run: RunData, trial: int) -> list[ServerStatementSum]:
    """Statements of trial number `trial`, the dearest first; none without the extension. Raises StoreError."""
    rows = rows_of(run, "server_statements", _STATEMENTS, {trial: 1})
    return [ServerStatementSum(*row) for row in rows[:MOST_STATEMENTS]]
