"""Activity inside the server during one trial: statements by its own count, growth of tables."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.store.beside import rows_of
from pgdyno.store.read import RunData

MOST_STATEMENTS = 15
MOST_TABLES = 20

_TABLES = """
    WITH seen AS (
        SELECT t_us, json_extract_string(labels, '$.table') AS name, metric, value,
               metric IN ('size', 'indexes', 'others') AS is_size
        FROM {series} WHERE source = 'relations'
    ), ends AS (SELECT name, min(t_us) AS first, max(t_us) AS last FROM seen GROUP BY name)
    SELECT name, sum(value) FILTER (is_size AND t_us = last),
           sum(value) FILTER (is_size AND t_us = last) - sum(value) FILTER (is_size AND t_us = first),
           sum(value) FILTER (metric = 'dead_rows' AND t_us = last),
           sum(value) FILTER (metric = 'live_rows' AND t_us = last),
           sum(value) FILTER (metric = 'inserted') AS inserted, sum(value) FILTER (metric = 'updated') AS updated,
           sum(value) FILTER (metric = 'hot_updated'), sum(value) FILTER (metric = 'deleted') AS deleted,
           sum(value) FILTER (metric = 'scans'), any_value(first = last)
    FROM seen JOIN ends USING (name) WHERE name IS NOT NULL
    GROUP BY name ORDER BY coalesce(inserted, 0) + coalesce(updated, 0) + coalesce(deleted, 0) DESC, name
"""
_STATEMENTS = """
    SELECT coalesce(text, ''), sum(calls), sum(exec_time_ms) AS spent, sum(spent) OVER (), sum(rows), sum(blocks_read),
           sum(wal_bytes)
    FROM {server_statements} GROUP BY query_id, text HAVING sum(calls) > 0 ORDER BY spent DESC NULLS LAST, text
"""


@dataclass(frozen=True, slots=True)
class TableSum:
    """A table that changed during a trial, among those that changed most."""

    name: str
    bytes: float
    """At the end, with indexes and TOAST."""
    grown_bytes: float | None
    """This and all counts below are differences between the first and the last sample; None for a single sample."""
    dead_rows: float
    live_rows: float
    """Both at the end."""
    inserted: float | None
    updated: float | None
    hot_updated: float | None
    """Updates without new index entries."""
    deleted: float | None
    scans: float | None
    """Sequential scans."""


@dataclass(frozen=True, slots=True)
class ServerStatementSum:
    """A statement from pg_stat_statements, among those with the most execution time."""

    text: str
    calls: float
    spent_ms: float | None
    all_ms: float | None
    """Of all statements together."""
    rows: float | None
    blocks_read: float | None
    wal_bytes: float | None


def table_sums(run: RunData, trial: int) -> list[TableSum]:
    """Return tables of trial number `trial`, those that changed most first. Raises StoreError."""
    return [_table_sum(*row) for row in rows_of(run, "series", _TABLES, {trial: 1})[:MOST_TABLES]]


def _table_sum(name: str, *rest: float | None) -> TableSum:
    # samples leave out zeros; with a single sample, the increase is unknown
    *figures, is_alone = rest
    size, grown, dead, live, *gained = (figure or 0.0 for figure in figures)
    if is_alone:
        return TableSum(name, size, None, dead, live, *(None for _ in gained))
    return TableSum(name, size, grown, dead, live, *gained)


def server_statement_sums(run: RunData, trial: int) -> list[ServerStatementSum]:
    """Return statements of trial number `trial`, the most expensive first; none without the extension. Raises
    StoreError.
    """
    rows = rows_of(run, "server_statements", _STATEMENTS, {trial: 1})
    return [ServerStatementSum(*row) for row in rows[:MOST_STATEMENTS]]
