"""The commit ledger: compares the results that clients received with the server's rows.

Every transaction that writes inserts its client's number and its own into `pgdyno_ledger`; the engine's `end` event
contains each client's highest number and the unacknowledged ones (`docs/reference/events.md`).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgdyno.records import LedgerRange, LedgerRecord
from pgdyno.run.process import Event

if TYPE_CHECKING:
    import psycopg

Range = tuple[int, int]
"""Inclusive bounds."""

RANGES_KEPT = 100
_BATCH = 10_000

# consecutive numbers become one row, so that the result is small
_PRESENT = """
SELECT client, min(seq), max(seq), sum(rows)
FROM (SELECT client, seq, count(*) AS rows, seq - row_number() OVER (PARTITION BY client ORDER BY seq) AS island
      FROM pgdyno_ledger GROUP BY client, seq) AS numbered
GROUP BY client, island
ORDER BY client, min(seq)
"""


@dataclass(frozen=True, slots=True)
class Page:
    """The results that one client received for transactions 1 to `last`; all are acknowledged except those listed."""

    last: int
    unknown: Sequence[Range]
    refused: Sequence[Range]


@dataclass(frozen=True, slots=True)
class Island:
    """Consecutive numbers of a client on the server, and their row count."""

    client: int
    first: int
    last: int
    rows: int


def pages(events: Sequence[Event]) -> dict[int, Page] | None:
    """Return the pages in the engine's `end` event by client; None without a ledger or an end."""
    end = events[-1] if events else {}
    ledger = end.get("ledger") if end.get("event") == "end" else None
    if ledger is None:
        return None
    return {
        page["client"]: Page(page["last"], _ranges(page["unknown"]), _ranges(page["refused"]))
        for page in ledger["clients"]
    }


def _ranges(listed: Iterable[Sequence[int]]) -> list[Range]:
    return [(first, last) for first, last in listed]


def check_ledger(reported: Mapping[int, Page], connection: psycopg.Connection[Any]) -> LedgerRecord:
    """Compare what clients `reported` with the table of the server of `connection`. Raises psycopg.Error."""
    began = time.monotonic()
    islands: list[Island] = []
    with connection.transaction(), connection.cursor("pgdyno_ledger") as cursor:
        cursor.itersize = _BATCH
        cursor.execute(_PRESENT)
        islands = [Island(client, first, last, int(rows)) for client, first, last, rows in cursor]
    return compare(reported, islands, round(time.monotonic() - began, 6))


def compare(reported: Mapping[int, Page], present: Iterable[Island], seconds: float = 0.0) -> LedgerRecord:
    """Compare what clients `reported` with what is `present`; islands of a client are in order."""
    there: dict[int, list[Range]] = defaultdict(list)
    count = duplicates = strange = 0
    for island in present:
        numbers = island.last - island.first + 1
        count += numbers
        duplicates += island.rows - numbers
        page = reported.get(island.client, Page(0, (), ()))
        strange += numbers - _overlap((1, page.last), (island.first, island.last))
        there[island.client].append((island.first, island.last))
    unknown = refused = unknown_present = refused_present = acknowledged = missing = 0
    missing_ranges: list[LedgerRange] = []
    for client, page in sorted(reported.items()):
        rows = there[client]
        unknown += _count(page.unknown)
        refused += _count(page.refused)
        unknown_present += _count_common(page.unknown, rows)
        refused_present += _count_common(page.refused, rows)
        certain = _subtract_ranges([(1, page.last)], sorted([*page.unknown, *page.refused]))
        acknowledged += _count(certain)
        gaps = _subtract_ranges(certain, rows)
        missing += _count(gaps)
        missing_ranges += [LedgerRange(client=client, first=first, last=last) for first, last in gaps]
    return LedgerRecord(
        acknowledged=acknowledged,
        missing=missing,
        missing_ranges=missing_ranges[:RANGES_KEPT],
        unknown=unknown,
        unknown_present=unknown_present,
        refused=refused,
        refused_present=refused_present,
        present=count,
        duplicates=duplicates,
        strange=strange,
        seconds=seconds,
    )


def _count(ranges: Iterable[Range]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _overlap(one: Range, other: Range) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]) + 1)


def _count_common(some: Iterable[Range], others: Sequence[Range]) -> int:
    common = 0
    for wanted in some:
        place = max(0, bisect_right(others, wanted[0], key=lambda each: each[0]) - 1)
        while place < len(others) and others[place][0] <= wanted[1]:
            common += _overlap(wanted, others[place])
            place += 1
    return common


def _subtract_ranges(some: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    left: list[Range] = []
    place = 0
    for begin, last in some:
        while place < len(taken) and taken[place][1] < begin:
            place += 1
        at, first = place, begin
        while at < len(taken) and taken[at][0] <= last:
            if taken[at][0] > first:
                left.append((first, taken[at][0] - 1))
            first = taken[at][1] + 1
            at += 1
        if first <= last:
            left.append((first, last))
    return left
