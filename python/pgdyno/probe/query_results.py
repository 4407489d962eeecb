"""What a query returns, and what the server does for it: executed once by COPY, once by EXPLAIN ANALYZE, read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import psycopg

from pgdyno.records import QueryResult

_FLOATS = (700, 701)
"""OIDs of float4 and float8."""
_NULL = b"\\N"
_MASK = 2**64 - 1

Connection = psycopg.Connection[tuple[Any, ...]]


def read_results(connection: Connection, texts: Mapping[str, str]) -> list[QueryResult]:
    """Return the result of each of `texts`, single statements by name, in a transaction that cannot write.

    Raises psycopg.Error if the connection is lost.
    """
    found = []
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION READ ONLY")
        for name, text in texts.items():
            try:
                with connection.transaction():
                    found.append(QueryResult(query=name, **_digest(connection, text), **_work(connection, text)))
            except psycopg.Error as error:
                if connection.closed:
                    raise
                reason = error.diag.message_primary or str(error).strip()
                found.append(QueryResult(query=name, reason=reason))
    return found


def _digest(connection: Connection, text: str) -> dict[str, Any]:
    """Return the number of rows, hashes of them, and the sums of columns of floats, whose last digits may differ.

    `digest` is the sum of the rows' hashes modulo 2^64, `in_order` a hash of these in the order of the rows.
    """
    shape = connection.execute(f"SELECT * FROM ({text}\n) AS q LIMIT 0".encode()).description or []  # noqa: S608 - the plan's own
    floats = [at for at, column in enumerate(shape) if column.type_code in _FLOATS]
    sums, rows, digest, in_order = dict.fromkeys(floats, 0.0), 0, 0, blake2b(digest_size=8)
    for line in _lines(connection, text):
        fields = line.split(b"\t")
        for at in floats:
            if fields[at] != _NULL:
                sums[at] += float(fields[at])
                fields[at] = b""
        row = blake2b(b"\t".join(fields), digest_size=8).digest()
        rows, digest = rows + 1, (digest + int.from_bytes(row)) & _MASK
        in_order.update(row)
    return {
        "rows": rows,
        "digest": f"{digest:016x}",
        "in_order": in_order.hexdigest() if _is_ordered(text) else None,
        "float_sums": [repr(each) for each in sums.values()],
    }


def _is_ordered(text: str) -> bool:
    bare, inside = re.sub(r"'[^']*'|--[^\n]*", "", text), 1
    while inside:
        bare, inside = re.subn(r"\([^()]*\)", "", bare)
    return re.search(r"\border\s+by\b", bare, re.IGNORECASE) is not None


def _lines(connection: Connection, text: str) -> Iterator[bytes]:
    left = b""
    with connection.cursor().copy(f"COPY ({text}\n) TO STDOUT".encode()) as copy:
        for block in copy:
            *lines, left = (left + bytes(block)).split(b"\n")
            yield from lines


def _work(connection: Connection, text: str) -> dict[str, Any]:
    row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {text}".encode()).fetchone()
    tree = row[0][0] if row else {}
    plan = tree.get("Plan", {})
    gathers = [node for node in _nodes(plan) if "Workers Planned" in node]
    return {
        "blocks_hit": plan.get("Shared Hit Blocks"),
        "blocks_read": plan.get("Shared Read Blocks"),
        "temporary_blocks": plan.get("Temp Written Blocks"),
        "workers_planned": sum(node["Workers Planned"] for node in gathers),
        "workers_launched": sum(node.get("Workers Launched", 0) for node in gathers),
        "jit_ms": tree.get("JIT", {}).get("Timing", {}).get("Total", 0.0),
    }


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)
