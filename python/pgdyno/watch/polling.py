"""A session in addition to the probe's: counters of all databases, active sessions, statements by time."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.targets.response_limits import answering

_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = re.compile(r"[A-Za-z_]+(?:\s+[A-Za-z_]+)?")
_OF_TWO = {"ALTER", "CREATE", "DROP", "REFRESH", "START"}
_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))
    |(?P<name>"(?:[^"]|"")*(?:"|\Z))
    |(?P<escaped>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
    |(?P<plain>(?:\b[bBnNxXuU]&?)?'(?:[^']|'')*(?:'|\Z))
    |(?P<dollar>(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<parameter>\$\d+)
    |(?P<number>(?<![\w$])\d[\w.]*)
    |(?P<word>\w+)
    """,
    re.VERBOSE | re.DOTALL,
)
HIDDEN = "?"


def kind_of(query: str) -> str:
    """Return the command that a statement begins with, such as `SELECT` or `ALTER TABLE`; possibly empty."""
    begin = _COMMENTS.match(query)
    rest = query[begin.end() if begin else 0 :]
    first = _WORD.match(rest)
    if first is None:
        return ""
    command = first[0].upper()
    two = _WORDS.match(rest)
    return " ".join(two[0].upper().split()) if command in _OF_TWO and two else command


def without_literals(query: str) -> str:
    """Return `query` on one line, with strings and numbers hidden, without comments.

    If a backslash makes the end of a string ambiguous, everything after it is hidden, too: rather too much than a
    password.
    """
    parts: list[str] = []
    at = 0
    for token in _TOKEN.finditer(query):
        parts.append(query[at : token.start()])
        at = token.end()
        text = token[0]
        if token["plain"] is not None and "\\" in text:
            parts.append(HIDDEN)
            at = len(query)
            break
        if token["comment"] is not None:
            parts.append(" ")
        elif any(token[name] is not None for name in ("escaped", "plain", "dollar", "number")):
            parts.append(HIDDEN)
        else:
            parts.append(text)
    parts.append(query[at:])
    return " ".join("".join(parts).split())


def shown_query(query: str, *, whole: bool) -> str:
    """Return the displayed text of `query`: its kind, or its text without literals."""
    return without_literals(query) if whole else kind_of(query)


@dataclass(frozen=True, slots=True)
class Session:
    """A session that is active, or has an open transaction; its names come unchecked from the server."""

    pid: int
    user: str
    database: str
    application: str
    state: str
    wait: str
    query: str
    transaction_s: float | None
    statement_s: float | None


@dataclass(frozen=True, slots=True)
class Polled:
    """Counters of all databases at a time of the server's clock, and its sessions.

    Those of another series cannot be compared with them: it begins with a session of pgdyno's, or a reset.
    """

    at_s: float
    commits: float
    rollbacks: float
    blocks_read: float
    blocks_hit: float
    temp_bytes: float
    deadlocks: float
    sessions: Sequence[Session] = ()
    series: int = 0


Connection = psycopg.Connection[tuple[Any, ...]]
EVERY_S = 1.0
END_S = 2.0
MOST_SESSIONS = 200

_SETTINGS = ("SET default_transaction_read_only = on", "SET statement_timeout = '3s'", "SET lock_timeout = '1s'")
_TOTALS = """
    SELECT /* pgprobe */ extract(epoch FROM clock_timestamp())::float8, datid, xact_commit::float8,
           xact_rollback::float8, blks_read::float8, blks_hit::float8, temp_bytes::float8, deadlocks::float8
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


class Totals:
    """Counters of all databases together.

    They grow even if a database is dropped: a sum over the databases would decrease.
    """

    def __init__(self) -> None:
        self.series = 0
        """The number of the first sample that later ones can be compared with."""
        self._sums = [0.0] * 6
        self._before: dict[int, Sequence[float]] | None = None

    def forget(self) -> None:
        """Begin another series: the next counters may be those of another server."""
        self._before = None

    def add(self, counters: Mapping[int, Sequence[float]]) -> Sequence[float]:
        """Return the increases since the first call; `counters` are the current values by database."""
        before = self._before or {}
        # a database that is new since the last call began at 0
        gained = [
            [new - old for new, old in zip(now, before.get(database, [0.0] * len(now)), strict=True)]
            for database, now in counters.items()
        ]
        if self._before is None or any(more < 0 for each in gained for more in each):
            # what was counted before a reset is unknown
            self.series += 1
        else:
            self._sums = [total + sum(more) for total, *more in zip(self._sums, *gained, strict=True)]
        self._before = dict(counters)
        return list(self._sums)


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
        is_new, totals = True, Totals()
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
                        totals.forget()
                    self.answers.put(_ask(self._connection, totals))
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


def _ask(connection: Connection, totals: Totals) -> Polled:
    rows = connection.execute(_TOTALS).fetchall()
    # the row of objects that belong to no database has no statistics of some kinds
    sums: Any = totals.add({database or 0: [each or 0.0 for each in counters] for _, database, *counters in rows})
    copies = _COPIES if connection.info.server_version >= 140_000 else _COPIES_UNTIL_13
    query = sql.SQL(_SESSIONS).format(sql.SQL(copies))
    sessions = connection.execute(query, [MOST_SESSIONS]).fetchall()
    return replace(Polled(rows[0][0], *sums), sessions=[Session(*row) for row in sessions], series=totals.series)
