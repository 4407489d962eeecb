"""A session in addition to the probe's: counters of all databases, active sessions, texts of statements."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from pgdyno.errors import TargetError
from pgdyno.targets.response_limits import limit_answers
from pgdyno.watch.find_server import Connection, WatchedServer, place_of
from pgdyno.watch.probe_stream import US, Line

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
_SESSIONS = """
    SELECT /* pgprobe */ pid, coalesce(usename, '') AS user, coalesce(datname, '') AS database,
           coalesce(application_name, '') AS application, coalesce(state, '') AS state,
           CASE WHEN wait_event IS NULL OR (state = 'active' AND wait_event = 'ClientRead' AND (
                    state_change > now() - interval '1 ms' OR (state_change > now() - interval '1 s' AND NOT {})))
                THEN '' ELSE wait_event_type || ':' || wait_event END AS wait,
           left(coalesce(query, ''), 1000) AS query,
           extract(epoch FROM clock_timestamp() - xact_start)::float8 AS transaction_s,
           extract(epoch FROM clock_timestamp() - query_start)::float8 AS statement_s
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


class Polling(threading.Thread):
    """Polls once per second until the block ends. After a connection loss, it reconnects every second."""

    def __init__(self, found: WatchedServer) -> None:
        super().__init__(name="watch-polling", daemon=True)
        self.texts: dict[str, str] = {}
        """Requested texts of statements, by query identifier; empty if the text may not be displayed."""
        self.wanted: frozenset[str] = frozenset()
        """The identifiers of statements whose texts are requested, unless they are known."""
        self.place = found.place
        """Where the server is now, if it is on this host."""
        self._lines: deque[Line] = deque()
        self._before: tuple[float, Mapping[int, Sequence[float]]] | None = None
        self._found = found
        self._over = threading.Event()

    def __enter__(self) -> Polling:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a query that hangs is left to the end of the process."""
        self._over.set()
        self.join(END_S)

    def take_lines(self) -> list[Line]:
        """Return what was sampled since the last call, as lines of a probe."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def run(self) -> None:
        """Poll; called by the thread."""
        while not self._over.is_set():
            # it may be away, silent, endless, or no PostgreSQL
            with suppress(TargetError, psycopg.Error), closing(self._found.connect()) as connection:
                with limit_answers(connection):
                    self._settle(connection)
                while not self._over.is_set():
                    with limit_answers(connection):
                        self._lines += [*self._count(connection), backends(connection)]
                        self._learn(connection)
                    self._over.wait(EVERY_S)
            self._over.wait(EVERY_S)

    def _settle(self, connection: Connection) -> None:
        # it may be a session of another server
        self.place = self.place and (place_of(connection) or self.place)
        for setting in _SETTINGS:
            connection.execute(setting)
        self._before = None

    def _count(self, connection: Connection) -> Iterator[Line]:
        rows = connection.execute(_TOTALS).fetchall()
        # the row of objects that belong to no database has no statistics of some kinds
        now = {database or 0: [each or 0.0 for each in counters] for _, database, *counters in rows}
        before, self._before = self._before, (rows[0][0], now)
        gained = None if before is None else increases(before[1], now)
        if before is not None and gained is not None and rows[0][0] > before[0]:
            values = dict(zip(_COUNTERS, gained, strict=True))
            span_us = (rows[0][0] - before[0]) * US
            yield {"event": "sample", "source": "databases", "span_us": span_us, "rows": [{"values": values}]}

    def _learn(self, connection: Connection) -> None:
        """Read the missing texts; each is requested once."""
        missing = sorted(self.wanted - self.texts.keys())
        schema = connection.execute(_EXTENSION).fetchone() if missing else None
        if schema is not None:
            query = sql.SQL(_TEXTS).format(sql.Identifier(schema[0]))
            self.texts.update(dict.fromkeys(missing, "") | dict(connection.execute(query, [missing]).fetchall()))


def backends(connection: Connection) -> Line:
    """Return the sessions with a transaction or a statement. Raises psycopg.Error."""
    copies = _COPIES if connection.info.server_version >= 140_000 else _COPIES_UNTIL_13
    cursor = connection.cursor(row_factory=dict_row)
    rows = cursor.execute(sql.SQL(_SESSIONS).format(sql.SQL(copies)), [MOST_SESSIONS]).fetchall()
    return {"event": "backends", "rows": rows}
