"""pgprobe on the database's host: one run of it over SSH, a look at whether that is possible, and the host's clock."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pgdyno.errors import EngineError, PgdynoError
from pgdyno.plan.hosts import SshSpec
from pgdyno.probe.clock_offset import Ahead, Alignment, Round, align
from pgdyno.probe.lines import parse_line
from pgdyno.probe.local_probe import ENVIRONMENT, PROGRAM
from pgdyno.programs import locate
from pgdyno.remote.connect import Connection, Process, SshError, connect_host
from pgdyno.remote.install import install
from pgdyno.remote.remote_host import RemoteError

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
        """Poll until `stop` is set, or the probe or the connection ends; set `started` once the clock is known."""
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
                    self._session.ended, self._session.was_cut = await self._end_reason(reading, beating)
            finally:
                for task in (reading, beating):
                    task.cancel()
                await asyncio.gather(reading, beating, return_exceptions=True)

    async def _end_reason(self, reading: asyncio.Task[None], beating: asyncio.Task[None]) -> tuple[str, bool]:
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
        reply = parse_line(line)
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
    """Run the probe `command` until `stop` is set. Raises SshError and OSError if it cannot be started."""
    process: Process[bytes] = await connection.create_process(
        " ".join(["exec", command, f"--lease={LEASE_S}", *options]), encoding=None, request_pty=False, stderr=log
    )
    try:
        await Talk(process, session, clock).last(stop, started)
    finally:
        process.close()


READY_S = 30.0
"""How long the block waits for the first sample; a host that does not answer may be sampled later."""
AGAIN_S = 2.0
"""The delay before reconnecting."""
FAREWELL_S = 25.0
"""The time limit for closing everything after the block."""


class OverSsh:
    """A probe over SSH in a separate thread, which reconnects after a lost connection."""

    def __init__(self, spec: SshSpec, options: Sequence[str], lines: Path, log: Path) -> None:
        """Take pgprobe's options; write to `lines` with a numbered suffix, one file per connection."""
        self.spec = spec
        self.sessions: list[Session] = []
        self.problem: str | None = None
        """Why samples are missing; None if they are complete."""
        self.clock = LocalClock()
        self._options, self._lines, self._log = options, lines, log
        self._thread = threading.Thread(target=self._run, name="probe over ssh", daemon=True)
        self._ready = threading.Event()
        self._leave: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def __enter__(self) -> OverSsh:
        """Start it, and wait until it samples or has failed once. Raises nothing: see `problem`."""
        self._thread.start()
        self._ready.wait(READY_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._leave is not None:
            loop, stop = self._leave
            # it may have ended by itself, with its event loop
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
        self._thread.join(FAREWELL_S + AGAIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:
            # no failure of a probe may end a trial
            self.problem = f"the probe over SSH failed: {error!r}"
        finally:
            self._ready.set()

    async def _main(self) -> None:
        stop = asyncio.Event()
        self._leave = (asyncio.get_running_loop(), stop)
        working = asyncio.create_task(self._keep(stop))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        # cancels connection attempts and pending replies
        await asyncio.wait({working}, timeout=FAREWELL_S if self._samples() else 0.5)
        for task in (working, stopping):
            task.cancel()
        results = await asyncio.gather(working, stopping, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _samples(self) -> bool:
        return bool(self.sessions) and self.sessions[-1].ended is None

    async def _keep(self, stop: asyncio.Event) -> None:
        """Run one probe after the other until `stop` is set or retrying is pointless."""
        try:
            program = locate(PROGRAM, ENVIRONMENT, "the probe")
        except EngineError as error:
            self.problem = error.message
            return
        while not stop.is_set():
            try:
                await self._run_once(program, stop)
            except PgdynoError as error:
                self.problem = error.message if error.hint is None else f"{error.message} ({error.hint})"
                if not (isinstance(error, RemoteError) and error.passing):
                    return
            except (SshError, OSError) as error:
                self.problem = f"lost the connection to {self.spec.host}: {error}"
            else:
                last = self.sessions[-1]
                if last.ended is None:
                    return
                self.problem = f"{self.spec.host}: {last.ended}"
                if not last.was_cut:
                    self.problem += self._stderr_text()
                    return
            self._ready.set()
            try:
                await asyncio.wait_for(stop.wait(), AGAIN_S)
            except TimeoutError:
                continue

    async def _run_once(self, program: Path, stop: asyncio.Event) -> None:
        started = asyncio.Event()
        async with connect_host(self.spec) as connection:
            installed = await install(connection, program, self.spec.folder, self.spec.host)
            session = Session(self._lines.with_name(f"{self._lines.name}.{len(self.sessions) + 1}"))
            with self._log.open("ab", buffering=0) as log:
                telling = asyncio.create_task(self._tell(started))
                self.sessions.append(session)
                try:
                    await talk(connection, installed.command, self._options, session, log, self.clock, stop, started)
                finally:
                    telling.cancel()

    async def _tell(self, started: asyncio.Event) -> None:
        await started.wait()
        self._ready.set()

    def _stderr_text(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a short test run of the probe."""

    user: str
    connect_s: float
    """Time to connect and authenticate."""
    copied: bool
    """Whether this check copied the probe."""
    clock: Alignment


def look(spec: SshSpec) -> Looked:
    """Connect, copy pgprobe if necessary, run it briefly and read the clock. Raises RemoteError, EngineError."""
    try:
        return asyncio.run(_look(spec))
    except (SshError, OSError) as error:
        raise RemoteError(f"lost the connection to {spec.host}: {error}", passing=True) from error


async def _look(spec: SshSpec) -> Looked:
    program = locate(PROGRAM, ENVIRONMENT, "the probe")
    began = time.monotonic()
    async with connect_host(spec) as connection:
        took_s = time.monotonic() - began
        installed = await install(connection, program, spec.folder, spec.host)
        with tempfile.TemporaryDirectory(prefix="pgdyno-") as folder:
            log = Path(folder) / "log"
            session = Session(Path(folder) / "lines")
            # stops once the clock is known
            enough = asyncio.Event()
            with log.open("ab", buffering=0) as file:
                await talk(connection, installed.command, ["--no-server"], session, file, LocalClock(), enough, enough)
            alignment = align(session.rounds, 0)
            if alignment is None:
                said = log.read_text(errors="replace").strip()
                raise RemoteError(f"{spec.host}: {session.ended or 'the probe printed nothing'}{said and f': {said}'}")
        return Looked(str(connection.get_extra_info("username")), took_s, installed.copied, alignment)


def measure_ahead(spec: SshSpec) -> Ahead:
    """Measures the clock of the host of `spec` by a pgprobe there. Raises RemoteError, EngineError."""
    clock = look(spec).clock
    return Ahead(clock.ahead_us, clock.uncertainty_us)
