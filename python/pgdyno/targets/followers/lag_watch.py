"""The replication lag of a server's standbys."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.records import ReplicaLag
from pgdyno.targets.connection import MAINTENANCE, Address

EVERY_S = 1.0
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
_Row = tuple[str, str | None, int | None, float | None, float | None, float | None]


class LagWatch:
    """Queries the replication lag on the primary once a second during the block.

    It tolerates a primary that stops, restarts or is replaced by a standby, and queries it again when it is back.
    """

    def __init__(self, primary: Address, standbys: Sequence[str]) -> None:
        """`standbys` are their names in pg_stat_replication."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def lags(self) -> list[ReplicaLag]:
        """Return the lag by standby, in their order. Call it after the block."""
        return [_lag(name, [row for row in self._rows if row[0] == name], self._last.get(name)) for name in self._names]

    def _watch(self) -> None:
        try:
            while not self._over.wait(EVERY_S):
                self._ask()
        finally:
            self._forget()

    def _ask(self) -> None:
        self._last = {}
        try:
            if self._connection is None:
                self._connection = self._primary.connect(MAINTENANCE)
            rows: Sequence[Any] = self._connection.execute(_QUERY, [self._names]).fetchall()
        except (psycopg.Error, TargetError):
            # the primary is down, or a standby has replaced it: there is no lag to record
            self._forget()
            return
        self._rows += rows
        self._last = {row[0]: row for row in rows}

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def _lag(name: str, rows: Sequence[_Row], last: _Row | None) -> ReplicaLag:
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
    )
