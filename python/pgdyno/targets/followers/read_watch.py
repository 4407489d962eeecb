"""Reads from a primary and its standbys in turn, during a trial: how many saw less than an earlier one had seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.records import ReadOrder
from pgdyno.targets.connection import Address

EVERY_S = 0.02
"""From one read to the next, and from one write to the next; shorter lags are not seen."""
_END_S = 5.0


class ReadWatch:
    """Writes the time on the primary, and reads it from each server in turn, during the block.

    It tolerates servers that end, and follows an address that a standby takes over. Its table is dropped at the end.
    """

    def __init__(self, primary: Address, standbys: Sequence[Address], dbname: str) -> None:
        self._servers = [primary, *standbys]
        self._dbname = dbname
        self._over = threading.Event()
        self._sessions: dict[tuple[str, int], psycopg.Connection[tuple[Any, ...]]] = {}
        self._reads = self._back = self._latest_us = self._furthest_us = 0
        self._threads = [
            threading.Thread(target=self._repeat, args=(work,), name=work.__name__, daemon=True)
            for work in (self._write, self._read)
        ]

    def __enter__(self) -> ReadWatch:
        """Create the table and start. Without the table, nothing is read."""
        with suppress(TargetError, psycopg.Error), self._servers[0].connect(self._dbname) as connection:
            connection.execute("DROP TABLE IF EXISTS pgdyno_clock")
            connection.execute("CREATE TABLE pgdyno_clock AS SELECT 0::bigint AS at_us")
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for session in list(self._sessions.values()):
            # a write may wait for a synchronous standby that is gone
            with suppress(psycopg.Error):
                session.cancel()
        for thread in self._threads:
            thread.join(_END_S)
        with suppress(TargetError, psycopg.Error), self._servers[0].connect(self._dbname) as connection:
            connection.execute("SET lock_timeout = '1s'")
            connection.execute("DROP TABLE IF EXISTS pgdyno_clock")
        for session in self._sessions.values():
            session.close()

    def order(self) -> ReadOrder:
        """Return what was read. Call it after the block."""
        return ReadOrder(reads=self._reads, went_back=self._back, furthest_s=self._furthest_us / 1e6)

    def _repeat(self, work: Callable[[int], None]) -> None:
        turn = 0
        while not self._over.wait(EVERY_S):
            work(turn)
            turn += 1

    def _write(self, _turn: int) -> None:
        self._ask("write", 0, "UPDATE pgdyno_clock SET at_us = %s", time.time_ns() // 1000)

    def _read(self, turn: int) -> None:
        found = self._ask("read", turn % len(self._servers), "SELECT at_us FROM pgdyno_clock")
        if found is None:
            return
        self._reads += 1
        self._back += found < self._latest_us
        self._furthest_us = max(self._furthest_us, self._latest_us - found)
        self._latest_us = max(self._latest_us, found)

    def _ask(self, purpose: str, server: int, statement: LiteralString, *values: int) -> int | None:
        key = (purpose, server)
        try:
            if key not in self._sessions:
                self._sessions[key] = self._servers[server].connect(self._dbname)
            cursor = self._sessions[key].execute(statement, values)
            row = cursor.fetchone() if cursor.description else None
        except (psycopg.Error, TargetError):
            # the server is down, or the table has not reached it yet
            session = self._sessions.pop(key, None)
            if session is not None:
                session.close()
            return None
        return None if row is None else int(row[0])
