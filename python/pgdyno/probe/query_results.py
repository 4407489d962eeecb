"""What a query returns, and what the server does for it: executed once by COPY, once by EXPLAIN ANALYZE, read-only."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import psycopg

from pgdyno.records import QueryResult

_FLOATS, _NUMERIC = (700, 701), 1700
"""OIDs of float4, float8 and numeric."""
_NULL = b"\\N"
_MASK = 2**64 - 1

Connection = psycopg.Connection[tuple[Any, ...]]


def read_results(
    connection: Connection, texts: Mapping[str, str], known: Mapping[str, QueryResult]
) -> list[QueryResult]:
    """Return the result of each of `texts`, single statements by name, in a transaction that cannot write.

    `known` are results that must be returned. Raises psycopg.Error if the connection is lost.
    """
    found = []
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION READ ONLY; SET LOCAL DateStyle = ISO")
        for name, text in texts.items():
            try:
                with connection.transaction():
                    digest = _digest(connection, text, (*_FLOATS, *([_NUMERIC] if name in known else [])))
                    found.append(QueryResult(query=name, **digest, **_work(connection, text), known=known.get(name)))
            except psycopg.Error as error:
                if connection.closed:
                    raise
                reason = error.diag.message_primary or str(error).strip()
                found.append(QueryResult(query=name, reason=reason))
    return found


def _digest(connection: Connection, text: str, summed: Sequence[int]) -> dict[str, Any]:
    shape = connection.execute(f"SELECT * FROM ({text}\n) AS q LIMIT 0".encode()).description or []  # noqa: S608 - the plan's own
    places = [at for at, column in enumerate(shape) if column.type_code in summed]
    return digest_of(_lines(connection, text), places, is_ordered=_is_ordered(text))


def digest_of(lines: Iterable[bytes], summed: Sequence[int], *, is_ordered: bool) -> dict[str, Any]:
    """Return what distinguishes rows, which are as COPY writes them: their number, hashes of them, and the sums of the
    columns `summed`.

    `digest` is the sum of the rows' hashes modulo 2^64, `in_order` a hash of these in the order of the rows.
    """
    sums, rows, digest, in_order = dict.fromkeys(summed, 0.0), 0, 0, blake2b(digest_size=8)
    for line in lines:
        fields = line.split(b"\t")
        for at in summed:
            if fields[at] != _NULL:
                sums[at] += float(fields[at])
                fields[at] = b""
        row = blake2b(b"\t".join(fields), digest_size=8).digest()
        rows, digest = rows + 1, (digest + int.from_bytes(row)) & _MASK
        in_order.update(row)
    return {
        "rows": rows,
        "digest": f"{digest:016x}",
        "in_order": in_order.hexdigest() if is_ordered else None,
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
