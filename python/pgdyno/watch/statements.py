"""Statements by the time that they take, from pg_stat_statements, where the database has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.watch.bucket import Row
from pgdyno.watch.texts import shown_query

SOURCE = "statements"
MS = 1e3


@dataclass(frozen=True, slots=True)
class Statement:
    """What one statement came to between the probe's last two looks, which are about ten seconds apart."""

    query_id: str
    user: str
    database: str
    query: str
    """Its command, or its text without literals; empty when that is not known, or has the word password in it."""
    sessions: float
    """Executions at work on average: seconds of execution a second."""
    calls_per_s: float
    mean_ms: float | None
    """Of an execution."""
    rows_per_s: float
    reads_per_s: float
    """Pages that were not in shared buffers."""


def statements_of(rows: Sequence[Row], texts: Mapping[str, str], *, queries: bool) -> list[Statement]:
    """Statements of one sample, those that took the longest first; `texts` are by query identifier."""
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
