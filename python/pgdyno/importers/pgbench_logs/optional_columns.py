"""Tells what the columns of a transaction log mean, and whether lines are missing from it.

Schedule lag (-R) and retries (--max-tries) follow the time, in this order, each only with its option.
"""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from pgdyno.errors import StoreError

COLUMNS = [
    ("client", "INTEGER"), ("number", "BIGINT"), ("time", "VARCHAR"), ("script", "INTEGER"), ("epoch", "BIGINT"),
    ("us", "INTEGER"), ("more", "BIGINT"), ("last", "BIGINT"),
]  # fmt: skip
LEAST_UNTRIED = 0.1
"""Share of the transactions that no retry preceded: from here on, a column without the signs of a lag has retries."""
SHORTEST_TRY_NS = 10_000
"""A try takes two answers of a server or more: with less time for each unit of a column, the units are no retries."""


@dataclass(frozen=True, slots=True)
class OptionalColumns:
    """Where a log has what only some options of pgbench write; None if it does not have it."""

    lag: str | None = None
    """`more` or None: microseconds from a transaction's due time to its start, under a rate (-R)."""
    retries: str | None = None
    """`more`, `last` or None."""
    is_decided: bool = True
    """False if the seventh of seven columns may be either."""


def optional_columns(connection: duckdb.DuckDBPyConnection, width: int) -> OptionalColumns:
    """Return the meaning of the columns of the table `grouped`, by their number and, for seven, their values."""
    if width == len(COLUMNS):
        return OptionalColumns(lag="more", retries="last")
    if width < len(COLUMNS) - 1:
        return OptionalColumns()
    skipped, is_lag, without, every = connection.execute(
        """SELECT count_if(lost = 'skipped'), coalesce(bool_or(too_fast), false),
                  sum(n - more_some) FILTER (lost IS DISTINCT FROM 'skipped'),
                  sum(n) FILTER (lost IS DISTINCT FROM 'skipped')
           FROM grouped"""
    ).fetchall()[0]
    # only a rate (-R) lets pgbench skip transactions
    if skipped or is_lag:
        return OptionalColumns(lag="more")
    if without >= LEAST_UNTRIED * every:
        return OptionalColumns(retries="more")
    return OptionalColumns(is_decided=False)


def refuse_incomplete(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise StoreError if the table `clients` shows missing lines, or logs of several runs."""
    gap = connection.execute(
        "SELECT file, client, low, high, n FROM clients WHERE n < high - low + 1 ORDER BY file, client LIMIT 1"
    ).fetchone()
    if gap is not None:
        file, client, low, high, n = gap
        raise StoreError(
            f"cannot read the log {file}: transactions are missing, as client {client} has {n:,} of its transactions "
            f"{low:,} to {high:,}",
            hint="with --sampling-rate, pgbench leaves transactions out: log all, or import the summary it printed",
        )
    shared = connection.execute(
        """SELECT client, list(file) FROM clients
           GROUP BY client HAVING count(*) > 1 ORDER BY client LIMIT 1"""
    ).fetchone()
    if shared is not None:
        client, files = shared
        # the folders of downloads have random names
        one, other, *_ = sorted(map(Path, files), key=lambda file: file.name)
        raise StoreError(
            f"cannot read {one} and {other.name} as logs of one run of pgbench: both have client {client}",
            hint="import each with a command of its own, or rename one",
        )
