"""The replication lag of a server's standbys, or of its logical subscriber.

pg_stat_replication times what a subscriber has from when it was sent, not from when it was committed. The lag of a
subscriber is therefore the age of the WAL after the position that it has confirmed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.records import ReplicaLag
from pgdyno.targets.connection import MAINTENANCE, Address

EVERY_S, OF_SUBSCRIBER_S = 1.0, 0.1
_END_S = 5.0
"""How long a query that is running may take at the end."""
_QUERY: LiteralString = """
    SELECT application_name, sync_state,
           pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint,
           extract(epoch FROM write_lag)::float8,
           extract(epoch FROM flush_lag)::float8,
           extract(epoch FROM replay_lag)::float8
    FROM pg_stat_replication WHERE application_name = ANY(%s)
"""
_OF_SLOT: LiteralString = """
    SELECT slot_name, sync_state, pg_wal_lsn_diff(flushed, shown)::bigint, pg_wal_lsn_diff(flushed, '0/0')::float8
    FROM (SELECT slot_name, sync_state, pg_current_wal_flush_lsn() AS flushed,
                 greatest(confirmed_flush_lsn, replay_lsn) AS shown
          FROM pg_replication_slots LEFT JOIN pg_stat_replication ON pid = active_pid
          WHERE slot_name = ANY(%s)) AS slots
"""
_Row = tuple[str, str | None, int | None, float | None, float | None, float | None]


class LagWatch:
    """Queries the replication lag on the primary once a second during the block.

    It tolerates a primary that stops, restarts or is replaced by a standby, and queries it again when it is back.
    """

    def __init__(self, primary: Address, standbys: Sequence[str], *, is_logical: bool = False) -> None:
        """`standbys` are their names in pg_stat_replication, or the slot of a logical subscriber."""
        self._is_logical = is_logical
        self._flushed: deque[tuple[float, float]] = deque()
        self._primary = primary
        self._names = list(standbys)
        self._rows: list[_Row] = []
        self._last: Mapping[str, _Row] = {}
        self._over = threading.Event()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._thread = threading.Thread(target=self._watch, name="replication-lag", daemon=True)

    def __enter__(self) -> LagWatch:
        """Start if there are standbys."""
        if self._names:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def lags(self) -> list[ReplicaLag]:
        """Return the lag by standby, in their order. Call it after the block."""
        rows = {name: [row for row in self._rows if row[0] == name] for name in self._names}
        return [_lag(name, rows[name], self._last.get(name), is_logical=self._is_logical) for name in self._names]

    def _watch(self) -> None:
        try:
            while not self._over.wait(OF_SUBSCRIBER_S if self._is_logical else EVERY_S):
                self._ask()
        finally:
            self._forget()

    def _ask(self) -> None:
        self._last = {}
        try:
            if self._connection is None:
                self._connection = self._primary.connect(MAINTENANCE)
            query = _OF_SLOT if self._is_logical else _QUERY
            rows: Sequence[Any] = self._connection.execute(query, [self._names]).fetchall()
        except (psycopg.Error, TargetError):
            # the primary is down, or a standby has replaced it: there is no lag to record
            self._forget()
            return
        if self._is_logical:
            rows = [(*row[:3], None, None, self._age(row[3], row[3] - row[2])) for row in rows]
        self._rows += rows
        self._last = {row[0]: row for row in rows}

    def _age(self, flushed: float, shown: float) -> float:
        """Return for how many seconds what is not shown has been flushed, one sample too long at most."""
        now = time.monotonic()
        self._flushed.append((now, flushed))
        while len(self._flushed) > 1 and self._flushed[1][1] <= shown:
            self._flushed.popleft()
        return 0.0 if flushed <= shown else now - self._flushed[0][0]

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def _lag(name: str, rows: Sequence[_Row], last: _Row | None, *, is_logical: bool) -> ReplicaLag:
    def highest(values: Iterable[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    return ReplicaLag(
        name=name,
        sync_state=rows[-1][1] if rows else None,
        samples=len(rows),
        bytes_last=None if last is None else last[2],
        bytes_max=max((row[2] for row in rows if row[2] is not None), default=None),
        write_lag_max_s=highest(row[3] for row in rows),
        flush_lag_max_s=highest(row[4] for row in rows),
        replay_lag_max_s=highest(row[5] for row in rows),
        replay_lag_last_s=None if last is None else last[5],
        is_logical=is_logical,
    )
