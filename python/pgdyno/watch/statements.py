"""Statements by execution time, from pg_stat_statements, if the database has it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.watch.buckets import Row

_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = re.compile(r"[A-Za-z_]+(?:\s+[A-Za-z_]+)?")
_OF_TWO = {"ALTER", "CREATE", "DROP", "REFRESH", "START"}
_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))
    |(?P<name>"(?:[^"]|"")*(?:"|\Z))
    |(?P<escaped>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
    |(?P<plain>(?:\b[bBnNxXuU]&?)?'(?:[^']|'')*(?:'|\Z))
    |(?P<dollar>(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<parameter>\$\d+)
    |(?P<number>(?<![\w$])\d[\w.]*)
    |(?P<word>\w+)
    """,
    re.VERBOSE | re.DOTALL,
)
HIDDEN = "?"


def kind_of(query: str) -> str:
    """Return the command that a statement begins with, such as `SELECT` or `ALTER TABLE`; possibly empty."""
    begin = _COMMENTS.match(query)
    rest = query[begin.end() if begin else 0 :]
    first = _WORD.match(rest)
    if first is None:
        return ""
    command = first[0].upper()
    two = _WORDS.match(rest)
    return " ".join(two[0].upper().split()) if command in _OF_TWO and two else command


def without_literals(query: str) -> str:
    """Return `query` on one line, with strings and numbers hidden, without comments.

    If a backslash makes the end of a string ambiguous, everything after it is hidden, too: rather too much than a
    password.
    """
    parts: list[str] = []
    at = 0
    for token in _TOKEN.finditer(query):
        parts.append(query[at : token.start()])
        at = token.end()
        text = token[0]
        if token["plain"] is not None and "\\" in text:
            parts.append(HIDDEN)
            at = len(query)
            break
        if token["comment"] is not None:
            parts.append(" ")
        elif any(token[name] is not None for name in ("escaped", "plain", "dollar", "number")):
            parts.append(HIDDEN)
        else:
            parts.append(text)
    parts.append(query[at:])
    return " ".join("".join(parts).split())


def shown_query(query: str, *, whole: bool) -> str:
    """Return the displayed text of `query`: its kind, or its text without literals."""
    return without_literals(query) if whole else kind_of(query)


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
    """Mean time of one execution."""
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
