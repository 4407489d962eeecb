"""Statements by execution time, from pg_stat_statements, if the database has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.watch.bucket import Row
from pgdyno.watch.texts import shown_query

SOURCE = "statements"
MS = 1e3


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement between the probe's last two samples, which are about ten seconds apart."""

    query_id: str
    user: str
    database: str
    query: str
    """Its command, or its text without literals; empty if unknown, or if it contains the word password."""
    sessions: float
    """Average concurrent executions: seconds of execution per second."""
    calls_per_s: float
    mean_ms: float | None
    """Per execution."""
    rows_per_s: float
    reads_per_s: float
    """Pages that were not in shared buffers."""


def statements_of(rows: Sequence[Row], texts: Mapping[str, str], *, queries: bool) -> list[Statement]:
    """Return the statements of one sample, those with the most time first; `texts` are by query identifier."""
    found = [_statement(row, row.span_s, texts, queries=queries) for row in rows if row.span_s]
    return sorted(found, key=lambda each: -each.sessions)


def _statement(row: Row, span_s: float, texts: Mapping[str, str], *, queries: bool) -> Statement:
    query_id = row.labels.get("query_id", "")
    calls, took_ms = row.values.get("calls", 0.0), row.values.get("exec_time", 0.0)
    return Statement(
        query_id=query_id,
        user=row.labels.get("user", ""),
        database=row.labels.get("database", ""),
        query=shown_query(texts.get(query_id, ""), whole=queries),
        sessions=took_ms / MS / span_s,
        calls_per_s=calls / span_s,
        mean_ms=took_ms / calls if calls else None,
        rows_per_s=row.values.get("rows", 0.0) / span_s,
        reads_per_s=row.values.get("blocks_read", 0.0) / span_s,
    )
