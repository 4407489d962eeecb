"""Vacuums and checks sysbench's tables.

Scripts from files may do anything; but all of sysbench's mixed workloads keep the rows of every table, because they
insert deleted rows again, with the same id, in one transaction.
"""

from __future__ import annotations

import time

from psycopg import sql

from pgdyno.prepare.consistency import wait_for_quiet
from pgdyno.prepare.mark import Dataset
from pgdyno.records import Consistency
from pgdyno.targets import Server

NAME = "sbtest"
RULE = "every table has the rows that were loaded, numbered from 1"


def tables_of(dataset: Dataset) -> list[str]:
    return [f"sbtest{number}" for number in range(1, (dataset.tables or 0) + 1)]


def vacuum_sbtest(server: Server, dataset: Dataset) -> str:
    """Vacuums every table, because trials leave dead rows; returns a description. Raises TargetError, psycopg.Error."""
    tables = tables_of(dataset)
    with server.connect() as connection:
        for table in tables:
            connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table)))
    return f"{len(tables):,} tables"


def count_sbtest(server: Server, dataset: Dataset) -> tuple[dict[str, int], list[str]]:
    """Counts the rows of each table; returns the counts and deviations. Raises TargetError, psycopg.Error."""
    counts: dict[str, int] = {}
    violations = []
    statement = sql.SQL("SELECT count(*), coalesce(min(id), 1), coalesce(max(id), 0) FROM {}")
    with server.connect() as connection:
        for table in tables_of(dataset):
            row = connection.execute(statement.format(sql.Identifier(table))).fetchone()
            assert row is not None
            rows, first, last = (int(value) for value in row)
            counts[table] = rows
            if rows != dataset.scale:
                violations.append(f"{table} has {rows:,} rows, not {dataset.scale:,}")
            elif (first, last) != (1, dataset.scale):
                # ids are unique, so this count within these bounds covers all of them
                violations.append(f"{table} has ids from {first:,} to {last:,}, not from 1 to {dataset.scale:,}")
    return counts, violations


def check_sbtest(server: Server, dataset: Dataset) -> Consistency:
    """Checks the counts after a trial. Raises TargetError, psycopg.Error."""
    started = time.monotonic()
    wait_for_quiet(server)
    counts, violations = count_sbtest(server, dataset)
    seconds = round(time.monotonic() - started, 6)
    # the tables have no sums to check
    return Consistency(scope="counts", rule=RULE, seconds=seconds, counts=counts, violations=violations)
