"""A session in addition to the probe's: counters of all databases, active sessions, texts of statements."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile

import psycopg
from psycopg import sql

from pgdyno.effect.sql_tokens import tokens
from pgdyno.errors import TargetError
from pgdyno.targets.response_limits import answering
from pgdyno.watch.find_server import Connection, Found, place_of
from pgdyno.watch.probe_stream import Line, Row

_WITH_OBJECT = ("ALTER", "CREATE", "DROP", "REFRESH", "START")
"""Commands whose next word belongs to them."""


def shown_query(query: str, *, whole: bool) -> str:
    """Return the displayed text of `query`: its kind, or its text without literals."""
    return without_literals(query) if whole else kind_of(query)


def kind_of(query: str) -> str:
    """Return the command that a statement begins with, such as `SELECT` or `ALTER TABLE`; possibly empty."""
    words = [each.text.upper() for each in islice(takewhile(lambda each: each.kind == "word", tokens(query)), 2)]
    return " ".join(words[: 1 + (words[:1] < words and words[0] in _WITH_OBJECT)])


def without_literals(query: str) -> str:
    """Return `query` on one line, with strings and numbers hidden, without comments."""
    shown, at, before = "", 0, ""
    for token in tokens(query):
        shown += " " if token.start > at else ""
        text, at = query[token.start : token.end], token.end
        is_number = text[0].isdigit() and before != "$"
        shown += "?" if token.kind in ("string", "meta") or is_number else text
        before = text
        # whether a backslash ends a string depends on a setting: what follows may be a password
        if token.kind == "string" and "\\" in text and text[0] not in "eE$":
            break
    return " ".join(shown.split())


EVERY_S = 1.0
END_S = 2.0
MOST_SESSIONS = 200

_SETTINGS = ("SET default_transaction_read_only = on", "SET statement_timeout = '3s'", "SET lock_timeout = '1s'")
_TOTALS = """
    SELECT /* pgprobe */ extract(epoch FROM clock_timestamp())::float8, datid, xact_commit::float8,
           xact_rollback::float8, blks_read::float8, blks_hit::float8, temp_bytes::float8, deadlocks::float8
    FROM pg_catalog.pg_stat_database
"""
_COUNTERS = ("commits", "rollbacks", "blocks_read", "blocks_hit", "temp_bytes", "deadlocks")
_FIELDS = ("pid", "user", "database", "application", "state", "wait", "query", "transaction_s", "statement_s")
_SESSIONS = """
    SELECT /* pgprobe */ pid,
           coalesce(usename, ''), coalesce(datname, ''), coalesce(application_name, ''), coalesce(state, ''),
           CASE WHEN wait_event IS NULL OR (state = 'active' AND wait_event = 'ClientRead' AND (
                    state_change > now() - interval '1 ms' OR (state_change > now() - interval '1 s' AND NOT {})))
                THEN '' ELSE wait_event_type || ':' || wait_event END,
           left(coalesce(query, ''), 1000),
           extract(epoch FROM clock_timestamp() - xact_start)::float8,
           extract(epoch FROM clock_timestamp() - query_start)::float8
    FROM pg_catalog.pg_stat_activity
    WHERE state <> 'idle' AND backend_type = 'client backend' AND application_name <> 'pgprobe'
    ORDER BY xact_start NULLS LAST LIMIT %s
"""
# as in pgprobe (crates/probe/src/server/activity.rs): states are read before waits
_COPIES = "pid IN (SELECT pid FROM pg_catalog.pg_stat_get_progress_info('COPY'))"
_COPIES_UNTIL_13 = r"query ~* '^\s*copy\M'"
_EXTENSION = """
    SELECT /* pgprobe */ n.nspname FROM pg_catalog.pg_extension AS e
    JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'
"""
_TEXTS = """
    SELECT /* pgprobe */ queryid::text, max(left(query, 1000)) FROM {}.pg_stat_statements(true)
    WHERE queryid::text = ANY(%s) AND query NOT ILIKE '%%password%%' GROUP BY 1
"""


def increases(before: Mapping[int, Sequence[float]], now: Mapping[int, Sequence[float]]) -> Sequence[float] | None:
    """Return by how much counters by database have grown in total; None after a reset.

    A database that is new began at 0, and one that was dropped does not count: a sum would decrease.
    """
    gained = [
        [new - old for new, old in zip(counters, before.get(database, [0.0] * len(counters)), strict=True)]
        for database, counters in now.items()
    ]
    is_reset = any(more < 0 for each in gained for more in each)
    return None if is_reset else [sum(column) for column in zip(*gained, strict=True)]


class Polling:
    """Polls once per second in its own thread until the block ends.

    After a connection loss, it reconnects every second; the probe reports the outage.
    """

    def __init__(self, found: Found, connection: Connection | None) -> None:
        self.texts: dict[str, str] = {}
        """Requested texts of statements, by query identifier; empty if the text may not be displayed."""
        self.place = found.place
        """Where the server is now, if it is on this host."""
        self.sessions: Sequence[Line] = ()
        self._increases: list[Row] = []
        self._before: tuple[float, Mapping[int, Sequence[float]]] | None = None
        self._found = found
        self._connection = connection
        self._stop = threading.Event()
        self._wanted: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="watch-polling", daemon=True)

    def __enter__(self) -> Polling:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a query that hangs is left to the end of the process."""
        self._stop.set()
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._drop()

    def want(self, query_ids: Iterable[str]) -> None:
        """Request the texts of statements, unless they are known."""
        self._wanted = frozenset(query_ids)

    def take_increases(self) -> list[Row]:
        """Return by how much counters have increased since the last call; nothing if that is unknown."""
        taken, self._increases = self._increases, []
        return taken

    def _run(self) -> None:
        settled: Connection | None = None
        while not self._stop.is_set():
            try:
                if self._connection is None:
                    self._connection = self._found.connect()
                with answering(self._connection):
                    if self._connection is not settled:
                        # another session may be one of another server
                        self._settle(self._connection)
                        settled = self._connection
                    self._count(self._connection)
                    self.sessions = _sessions(self._connection)
                    self._learn(self._connection)
            except TargetError:
                # it is silent, endless, or no PostgreSQL
                self._drop()
            except psycopg.Error:
                if self._connection is None or self._connection.closed:
                    self._drop()
            self._stop.wait(EVERY_S)

    def _settle(self, connection: Connection) -> None:
        if self.place is not None:
            self.place = place_of(connection) or self.place
        for setting in _SETTINGS:
            connection.execute(setting)
        self._before = None

    def _count(self, connection: Connection) -> None:
        rows = connection.execute(_TOTALS).fetchall()
        # the row of objects that belong to no database has no statistics of some kinds
        now = {database or 0: [each or 0.0 for each in counters] for _, database, *counters in rows}
        before, self._before = self._before, (rows[0][0], now)
        gained = None if before is None else increases(before[1], now)
        if before is not None and gained is not None and rows[0][0] > before[0]:
            values = dict(zip(_COUNTERS, gained, strict=True))
            self._increases.append(Row(rows[0][0] - before[0], {}, values))

    def _learn(self, connection: Connection) -> None:
        """Read the missing texts; each is requested once."""
        missing = sorted(self._wanted - self.texts.keys())
        schema = connection.execute(_EXTENSION).fetchone() if missing else None
        if schema is not None:
            query = sql.SQL(_TEXTS).format(sql.Identifier(schema[0]))
            self.texts.update(dict.fromkeys(missing, "") | dict(connection.execute(query, [missing]).fetchall()))

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _sessions(connection: Connection) -> list[Line]:
    copies = _COPIES if connection.info.server_version >= 140_000 else _COPIES_UNTIL_13
    rows = connection.execute(sql.SQL(_SESSIONS).format(sql.SQL(copies)), [MOST_SESSIONS]).fetchall()
    return [dict(zip(_FIELDS, row, strict=True)) for row in rows]
