"""One run of pgprobe on another host: stores its lines and polls its clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pgdyno.probe.clock_offset import Round
from pgdyno.probe.lines import parsed
from pgdyno.remote.connect import Connection, Process, SshError

LEASE_S = 60
"""The probe ends if it receives nothing for so long."""
BEAT_S = 10.0
"""The interval of clock requests, which also renew the lease."""
PINGS, PINGS_BETWEEN = 8, 3
"""Round trips per first or last round, and per round between; the fastest counts."""
REPLY_S = 20.0
"""Longer than a busy host needs; keepalives detect a lost connection."""
STOP_S = 10.0
"""How long a probe may take to stop."""
_CLOCK = b'{"event":"clock"'
_CHUNK = 1 << 16


class LocalClock:
    """The local wall clock at the start, advanced by the monotonic one, so that clock steps have no effect."""

    def __init__(self) -> None:
        self._origin_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> float:
        """Microseconds since 1970."""
        return (self._origin_ns + time.monotonic_ns()) / 1e3


@dataclass(slots=True)
class Session:
    """The result of one probe."""

    lines: Path
    rounds: list[Round] = field(default_factory=list)
    ended: str | None = None
    """Why it ended by itself; None if it did not."""
    was_cut: bool = False
    """Whether the connection was lost."""


class Talk:
    """A running probe and its conversation."""

    def __init__(self, process: Process[bytes], session: Session, clock: LocalClock) -> None:
        self._process, self._session, self._clock = process, session, clock
        self._asked = 0
        self._replies: dict[str, asyncio.Future[tuple[float, int, int]]] = {}

    async def last(self, stop: asyncio.Event, started: asyncio.Event) -> None:
        """Polls until `stop` is set, or the probe or the connection ends; sets `started` once the clock is known."""
        with self._session.lines.open("wb") as file:
            reading = asyncio.create_task(self._read(file))
            beating = asyncio.create_task(self._beat(stop, started))
            try:
                await asyncio.wait({reading, beating}, return_when=asyncio.FIRST_COMPLETED)
                is_ending = stop.is_set() and beating.done() and not reading.done()
                if is_ending:
                    self._process.stdin.write_eof()
                await asyncio.wait({reading}, timeout=STOP_S)
                if not is_ending or not reading.done():
                    self._session.ended, self._session.was_cut = await self._why(reading, beating)
            finally:
                for task in (reading, beating):
                    task.cancel()
                await asyncio.gather(reading, beating, return_exceptions=True)

    async def _why(self, reading: asyncio.Task[None], beating: asyncio.Task[None]) -> tuple[str, bool]:
        """Returns why it ended, and whether the connection was lost."""
        if not reading.done():
            return "the probe did not answer", True
        with suppress(SshError, OSError, TimeoutError):
            await asyncio.wait_for(self._process.wait_closed(), STOP_S)
        code = self._process.exit_status
        if code is not None:
            return f"the probe ended with exit code {code}", False
        lost = next((task.exception() for task in (reading, beating) if task.done() and not task.cancelled()), None)
        return f"lost the connection{f': {lost}' if lost is not None and str(lost) else ''}", True

    async def _read(self, file: IO[bytes]) -> None:
        rest = b""
        while chunk := await self._process.stdout.read(_CHUNK):
            at_us = self._clock.now_us()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.startswith(_CLOCK):
                    self._handle_line(line, at_us)
                else:
                    file.write(line + b"\n")
        file.write(rest)

    def _handle_line(self, line: bytes, at_us: float) -> None:
        reply = parsed(line)
        if reply is not None:
            future = self._replies.pop(str(reply.get("id")), None)
            if future is not None and not future.done():
                future.set_result((at_us, reply["t_us"], reply["wall_us"]))

    async def _beat(self, stop: asyncio.Event, started: asyncio.Event) -> None:
        self._session.rounds.append(await self._round(PINGS))
        started.set()
        while True:
            try:
                await asyncio.wait_for(stop.wait(), BEAT_S)
                break
            except TimeoutError:
                self._session.rounds.append(await self._round(PINGS_BETWEEN))
        self._session.rounds.append(await self._round(PINGS))

    async def _round(self, pings: int) -> Round:
        return min([await self._ping() for _ in range(pings)], key=lambda each: each.round_trip_us)

    async def _ping(self) -> Round:
        self._asked += 1
        name = str(self._asked)
        future = self._replies[name] = asyncio.get_running_loop().create_future()
        sent_us = self._clock.now_us()
        self._process.stdin.write(f"clock {name}\n".encode())
        at_us, t_us, wall_us = await asyncio.wait_for(future, REPLY_S)
        return Round((sent_us + at_us) / 2, t_us, wall_us, at_us - sent_us)


async def talk(
    connection: Connection,
    command: str,
    options: Sequence[str],
    session: Session,
    log: IO[bytes],
    clock: LocalClock,
    stop: asyncio.Event,
    started: asyncio.Event,
) -> None:
    """Runs the probe `command` until `stop` is set. Raises SshError and OSError if it cannot be started."""
    process: Process[bytes] = await connection.create_process(
        " ".join(["exec", command, f"--lease={LEASE_S}", *options]), encoding=None, request_pty=False, stderr=log
    )
    try:
        await Talk(process, session, clock).last(stop, started)
    finally:
        process.close()
