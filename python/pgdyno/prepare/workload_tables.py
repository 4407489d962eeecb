"""Vacuums and checks the tables of sysbench, TPC-C and tpch.

Scripts from files may change anything, but all of sysbench's mixed workloads keep the number of rows of every table,
because they insert deleted rows again, with the same id, in one transaction.
"""

from __future__ import annotations

import tempfile
import time
from typing import Literal

from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.prepare.consistency import wait_for_quiet
from pgdyno.prepare.dataset import Dataset, read_comment, read_stamp
from pgdyno.programs import Engine
from pgdyno.records import Consistency
from pgdyno.run.process import Vigil, running_engine
from pgdyno.targets import Server
from pgdyno.targets.response_limits import HINT, SilentServerError
from pgdyno.units import counted

SBTEST = "sbtest"
RULE = "every table has the rows that were loaded, numbered from 1"


def tables_of(dataset: Dataset) -> list[str]:
    return [f"sbtest{number}" for number in range(1, (dataset.tables or 0) + 1)]


def vacuum_sbtest(server: Server, dataset: Dataset) -> str:
    """Vacuums every table, because trials leave dead rows; returns a description. Raises TargetError, psycopg.Error."""
    tables = tables_of(dataset)
    with server.connect() as connection:
        for table in tables:
            connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table)))
    return counted(len(tables), "table")


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


TPCC = "tpcc"
"""The name in the dataset stamp."""
BROKEN = 3
"""The engine's exit code for a violated condition."""
REQUIRED = "the standard's consistency conditions 1 to 4, and the rows of warehouse and district"
ALL = "all 12 of the standard's consistency conditions, and the rows of tables of a fixed size"


def check_tpcc(
    dataset: Dataset, server: Server, engine: Engine, asked: Literal["auto", "full", "counts", "none"]
) -> Consistency:
    """Checks the conditions in `dataset`: all 12 for `full`, else 1 to 4.

    Raises TargetError if the check fails to run, psycopg.Error.
    """
    started = time.monotonic()
    wait_for_quiet(server)
    is_full = asked == "full"
    options = ["--tpcc-check", f"--warehouses={dataset.scale}", f"--tpcc-profile={dataset.profile}", "--events=-"]
    options += ["--thorough"] if is_full else []
    vigil = Vigil(server.quiet_at_work)
    with tempfile.TemporaryFile() as errors:
        with vigil.over(running_engine)(engine, options, server.environment(), errors, None) as (process, stream):
            events = list(stream)
            process.wait()
        if vigil.reason is not None:
            raise SilentServerError(f"cannot check TPC-C's consistency conditions: {vigil.reason}", hint=HINT)
        if process.returncode not in (0, BROKEN):
            errors.seek(0)
            said = events[-1].get("message") if events else errors.read().decode(errors="replace").strip()
            raise TargetError(f"cannot check TPC-C's consistency conditions: {said}")
    conditions = [event for event in events if event["event"] == "condition"]
    return Consistency(
        scope="full" if is_full else "counts",
        rule=ALL if is_full else REQUIRED,
        seconds=round(time.monotonic() - started, 6),
        counts={},
        violations=[
            f"condition {each['number']} ({each['text']}) is violated in {each['violations']} places: "
            f"{each['examples']}"
            for each in conditions
            if each["violations"]
        ],
    )


TPCH = "tpch"
"""The name in the dataset stamp."""
REFRESHED = ("orders", "lineitem")
REFRESH_RULE = "the tables of the refresh functions have as many rows as were loaded"


def check_tpch(server: Server) -> Consistency:
    """Checks that refresh functions removed as many rows as they added. Raises TargetError, psycopg.Error."""
    started = time.monotonic()
    wait_for_quiet(server)
    stamp = read_stamp(read_comment(server))
    loaded = {table.name: table.rows for table in stamp.tables} if stamp is not None else {}
    counts: dict[str, int] = {}
    with server.connect() as connection:
        for table in REFRESHED:
            row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
            assert row is not None
            counts[table] = int(row[0])
    return Consistency(
        scope="counts",
        rule=REFRESH_RULE,
        seconds=round(time.monotonic() - started, 6),
        counts=counts,
        violations=[
            f"{table} has {rows:,} rows, not {loaded[table]:,}"
            for table, rows in counts.items()
            if rows != loaded.get(table, rows)
        ],
    )
