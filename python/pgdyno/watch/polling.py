"""A session in addition to the probe's: counters of all databases, and active sessions."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.targets.response_limits import answering
from pgdyno.watch.buckets import Polled, Session

Connection = psycopg.Connection[tuple[Any, ...]]
EVERY_S = 1.0
END_S = 2.0
MOST_SESSIONS = 200

_SETTINGS = (
    "SET default_transaction_read_only = on",
    "SET statement_timeout = '3s'",
    "SET lock_timeout = '1s'",
)
_TOTALS = """
    SELECT /* pgprobe */ extract(epoch FROM clock_timestamp())::float8, coalesce(sum(xact_commit), 0)::float8,
           coalesce(sum(xact_rollback), 0)::float8, coalesce(sum(blks_read), 0)::float8,
           coalesce(sum(blks_hit), 0)::float8, coalesce(sum(temp_bytes), 0)::float8,
           coalesce(sum(deadlocks), 0)::float8
    FROM pg_catalog.pg_stat_database
"""
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


class Polling:
    """Polls once per second in its own thread until the block ends; a queue receives the answers.

    After a connection loss, it reconnects every second; the probe reports the outage.
    """

    def __init__(
        self, connection: Connection, connect: Callable[[], Connection], back: Callable[[Connection], None]
    ) -> None:
        """Start with `connection`, create others with `connect`, and call `back` after a reconnect."""
        self.texts: dict[str, str] = {}
        """Requested texts of statements, by query identifier; empty if the text may not be displayed."""
        self.answers: queue.SimpleQueue[Polled] = queue.SimpleQueue()
        self._connection: Connection | None = connection
        self._connect = connect
        self._back = back
        self._stop = threading.Event()
        self._wanted: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="watch-polling", daemon=True)

    def __enter__(self) -> Polling:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; a query that hangs is left to the end of the process."""
        self._stop.set()
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._drop()

    def want(self, query_ids: Iterable[str]) -> None:
        """Request the texts of statements, unless they are known."""
        self._wanted = frozenset(query_ids)

    def _run(self) -> None:
        is_new = True
        while not self._stop.is_set():
            try:
                came_back = self._connection is None
                if self._connection is None:
                    self._connection = self._connect()
                    is_new = True
                with answering(self._connection):
                    if came_back:
                        self._back(self._connection)
                    if is_new:
                        for setting in _SETTINGS:
                            self._connection.execute(setting)
                        is_new = False
                    self.answers.put(_ask(self._connection))
                    self._learn(self._connection)
            except TargetError:
                # it is silent, endless, or no PostgreSQL
                self._drop()
            except psycopg.Error:
                if self._connection is None or self._connection.closed:
                    self._drop()
            self._stop.wait(EVERY_S)

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


def _ask(connection: Connection) -> Polled:
    totals: Any = connection.execute(_TOTALS).fetchone()
    copies = _COPIES if connection.info.server_version >= 140_000 else _COPIES_UNTIL_13
    query = sql.SQL(_SESSIONS).format(sql.SQL(copies))
    sessions = connection.execute(query, [MOST_SESSIONS]).fetchall()
    return replace(Polled(*totals), sessions=[Session(*row) for row in sessions])
