"""What a database's statements did in a time: differences of pg_stat_statements."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.capture.logs.log_events import OWN_STATEMENT
from pgdyno.capture.server.server_session import CapturedServer, Connection
from pgdyno.capture.server.server_settings import Setting, read_settings, remedy
from pgdyno.capture.statement_classes import select_fitting_classes
from pgdyno.capture.statement_templates import DOLLARS, has_values, is_unclear, without_comments
from pgdyno.effect import has_plan
from pgdyno.errors import TargetError, UsageError
from pgdyno.records.capture import LeftOut, StatementClass
from pgdyno.targets.response_limits import limit_answers
from pgdyno.units import quantity

STEPS_BETWEEN = 10
"""The statistics are read every so many seconds: an entry that is evicted or reset loses only what came since."""
MOST_TEXT = 100_000
"""The longest text that is read, in characters."""
TEXTS_AT_ONCE = 200
_EXTENSION = """
    SELECT /* pgdyno */ n.nspname FROM pg_catalog.pg_extension AS e
    JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'
"""
_MAY_READ = (
    "SELECT /* pgdyno */ pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'), pg_catalog.quote_ident(current_user)"
)
_SETTINGS = (
    *("pg_stat_statements.max", "pg_stat_statements.track", "compute_query_id", "shared_preload_libraries"),
    "pg_stat_statements.track_utility",
)
_ENTRIES = """
    SELECT /* pgdyno */ userid::bigint, queryid, {toplevel}, calls, rows, total_exec_time, {since}
    FROM {schema}.pg_stat_statements(false)
    WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
"""
_TEXTS = """
    SELECT /* pgdyno */ queryid, max(CASE WHEN length(query) <= %(most)s THEN query END)
    FROM {schema}.pg_stat_statements(true)
    WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
      AND queryid = ANY(%(ids)s) GROUP BY 1
"""
_TRANSACTIONS = """
    SELECT /* pgdyno */ pg_catalog.clock_timestamp(), xact_commit + xact_rollback
    FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()
"""
_RESET = "(SELECT stats_reset FROM {schema}.pg_stat_statements_info)"
"""When all entries began again; since PostgreSQL 17, each has its own time."""
_DOLLARS = re.compile(DOLLARS)
_Key = tuple[int, int]
"""User and query."""


@dataclass(slots=True)
class _Counts:
    calls: int = 0
    rows: int = 0
    total_ms: float = 0.0
    since: datetime | None = None
    """When it began to count, as far as the server says."""

    def continues(self, before: _Counts) -> bool:
        """Whether nothing reset the entry since it was `before`."""
        if self.since != before.since or self.calls < before.calls or self.total_ms < before.total_ms:
            return False
        return self.calls > before.calls or self.total_ms == before.total_ms


class StatementStatistics:
    """Differences of pg_stat_statements since `begin`, of top-level statements of the server's database."""

    def __init__(self, server: CapturedServer) -> None:
        """Raise TargetError, and UsageError with the remedy if the server has no such statistics for this role."""
        self.began: datetime
        self.ended: datetime
        """The server's clock at the first and at the last reading."""
        self.transactions = 0
        self._server = server
        self._connection: Connection = server.connect()
        try:
            with limit_answers(self._connection):
                self._schema = sql.Identifier(_check_extension(self._connection, server.database))
        except BaseException:
            self.close()
            raise
        self._before: dict[_Key, _Counts] = {}
        self._counts: dict[int, _Counts] = {}
        self._texts: dict[int, str | None] = {}
        self._steps = 0
        self._dropped = 0
        self._began_transactions = self._own_transactions = 0

    def begin(self) -> None:
        """Read the first values. Raises TargetError."""
        self._before = self._entries()
        self.began, self._began_transactions = self._clock()
        self.ended = self.began

    def step(self, *, last: bool) -> bool:
        """Read the values every ten seconds, and at the `last` step. Raises TargetError."""
        self._steps += 1
        if last or self._steps % STEPS_BETWEEN == 0:
            self.read()
        return True

    def read(self) -> None:
        """Add what happened since the last reading. Raises TargetError."""
        now = self._entries()
        for key, counts in now.items():
            before = self._before.get(key)
            if before is None or not counts.continues(before):
                # an entry that began again lost what it counted before the reset
                self._dropped += before is not None
                before = _Counts()
            if counts.calls > before.calls:
                total = self._counts.setdefault(key[1], _Counts())
                total.calls += counts.calls - before.calls
                total.rows += counts.rows - before.rows
                total.total_ms += max(counts.total_ms - before.total_ms, 0.0)
        self._dropped += len(self._before.keys() - now.keys())
        self._before = now
        self._learn()
        self.ended, transactions = self._clock()
        # a crash resets the counter
        self.transactions = max(transactions - self._began_transactions - self._own_transactions, 0)

    def reconnect(self) -> None:
        """Open the connection again. Raises TargetError."""
        self.close()
        self._connection = self._server.connect()

    def progress(self) -> str:
        return quantity(sum(each.calls for each in self._counts.values()), "statement")

    def close(self) -> None:
        self._connection.close()

    def classes(self) -> tuple[list[StatementClass], list[LeftOut]]:
        """Return the statements by their time, the longest first, and what was left out."""
        found: list[StatementClass] = []
        left: Counter[str] = Counter()
        for query_id, counts in sorted(self._counts.items(), key=lambda item: -item[1].total_ms):
            text = self._texts.get(query_id)
            if text is not None and re.match(OWN_STATEMENT, text):
                continue
            reason = reason_to_leave_out(text)
            if reason is not None or text is None:
                left[reason or "text-unknown"] += counts.calls
                continue
            found.append(
                StatementClass(
                    text=without_comments(text),
                    calls=counts.calls,
                    rows=counts.rows,
                    total_us=round(counts.total_ms * 1000, 3),
                )
            )
        found, others = select_fitting_classes(found)
        if others:
            left["other-classes"] += others
        if self._dropped:
            left["statistics-dropped"] += self._dropped
        return found, [LeftOut(reason=reason, count=count) for reason, count in left.most_common()]

    def _entries(self) -> dict[_Key, _Counts]:
        toplevel = "toplevel" if self._server.major >= 14 else "true"
        since = "stats_since" if self._server.major >= 17 else _RESET if self._server.major >= 14 else "NULL"
        query = sql.SQL(_ENTRIES).format(
            toplevel=sql.SQL(toplevel), since=sql.SQL(since).format(schema=self._schema), schema=self._schema
        )
        return {
            (int(user), int(query_id)): _Counts(int(calls), int(rows), float(total_ms), since)
            for user, query_id, top, calls, rows, total_ms, since in self._ask(query)
            if top and query_id is not None
        }

    def _learn(self) -> None:
        """Read texts that are not known; each is asked for once."""
        query = sql.SQL(_TEXTS).format(schema=self._schema)
        missing = sorted(self._counts.keys() - self._texts.keys())
        for first in range(0, len(missing), TEXTS_AT_ONCE):
            ids = missing[first : first + TEXTS_AT_ONCE]
            rows = self._ask(query, {"ids": ids, "most": MOST_TEXT})
            self._texts.update(dict.fromkeys(ids) | {int(query_id): text for query_id, text in rows})

    def _clock(self) -> tuple[datetime, int]:
        ((now, transactions),) = self._ask(sql.SQL(_TRANSACTIONS))
        return now, int(transactions)

    def _ask(self, query: sql.SQL | sql.Composed, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        self._own_transactions += 1
        try:
            with limit_answers(self._connection):
                return self._connection.execute(query, parameters).fetchall()
        except psycopg.Error as error:
            raise TargetError(f"cannot read pg_stat_statements: {str(error).strip()}") from error


def reason_to_leave_out(text: str | None) -> str | None:
    """Return the id of the reason to leave out the statement `text` of pg_stat_statements; None if it stays."""
    if text is None:
        return None
    if text == "<insufficient privilege>":
        return "text-hidden"
    # utility statements keep their constants, which may be values or passwords; so does a prepared statement that runs
    # after its entry was evicted or reset
    if has_values(text) or (not has_plan(text) and ("'" in text or _DOLLARS.search(text))):
        return "text-with-constants"
    return "not-anonymised" if is_unclear(text) else None


def _check_extension(connection: Connection, database: str) -> str:
    """Return the schema of the extension. Raises UsageError with the remedy, and psycopg.Error."""
    row = connection.execute(_EXTENSION).fetchone()
    create = () if row is not None else (f"CREATE EXTENSION pg_stat_statements;  -- in database {database}",)
    drop = ("DROP EXTENSION pg_stat_statements;",) if create else ()
    settings = read_settings(connection, _SETTINGS)
    # a library that is loaded with the server defines its settings
    if "pg_stat_statements.max" not in settings:
        libraries = settings.get("shared_preload_libraries", Setting("shared_preload_libraries", "...", "..."))
        both = f"{libraries.value}, pg_stat_statements" if libraries.value else "pg_stat_statements"
        change = replace(libraries, needs_restart=True)
        raise UsageError(
            "the server does not load pg_stat_statements", hint=remedy([(change, both)], after=drop, last=create)
        )
    if create:
        raise UsageError(
            f"the database {database} does not have the extension pg_stat_statements", hint=remedy([], create, drop)
        )
    ((may, role),) = connection.execute(_MAY_READ).fetchall()
    if not may:
        grant, revoke = f"GRANT pg_read_all_stats TO {role};", f"REVOKE pg_read_all_stats FROM {role};"
        raise UsageError(f"the role {role} may not see the statements of others", hint=remedy([], [grant], [revoke]))
    for name, bad, good in (("pg_stat_statements.track", "none", "top"), ("compute_query_id", "off", "auto")):
        if name in settings and settings[name].value == bad and not settings[name].is_of_role:
            message = f"the server does not count statements: {name} = {bad}"
            raise UsageError(message, hint=remedy([(settings[name], good)]))
    assert row is not None
    return str(row[0])
