"""Generators on hosts over SSH, from the plan or rented: pgdrive is copied there and controlled over one connection.

The connection runs a process, passes on its lines, and detects its end. It also carries clock requests, whose answers
are the heartbeat.
"""

import asyncio
import re
import shlex
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pgdyno import __version__
from pgdyno.doctor.generator import plain_ceiling
from pgdyno.doctor.round_trips import Trips, round_trips
from pgdyno.errors import EngineError
from pgdyno.generators.generator_protocol import AWAITING, GONE_S, RENEWAL, SILENCE_S, EngineOutput, Lines, LostError
from pgdyno.generators.shared_load import Share
from pgdyno.host import cpu_model
from pgdyno.programs import Engine
from pgdyno.remote.connect import DEVNULL, Process, SshError, connect_host
from pgdyno.remote.install import Started, command_line, install, put, start
from pgdyno.remote.program_files import pack
from pgdyno.remote.remote_host import RemoteError, RemoteHost, relay_command

T = TypeVar("T")
UP_S = 120.0
"""The time limit until a host is connected and has the engine."""
BEGIN_S = 60.0
"""The time limit until an engine is started with its files."""
_CHUNK = 1 << 16
CLOCK_S = 30
"""The loop below ends without a number for so long: its sshd may not notice that the driver is cut off."""
_CLOCK = "export LC_ALL=C; while read -r %s number; do echo $number ${EPOCHREALTIME:-$(date +%%s.%%6N)}; done"
"""A loop that prints the time for each number; bash does so from version 5 on without starting a process."""
_BASH = shlex.quote(_CLOCK % f"-t {CLOCK_S}")
_WITH_BASH = f"if command -v bash >/dev/null; then exec bash -c {_BASH}; fi; {_CLOCK % ''}"
_TIME = re.compile(r"(\d+)\.(\d{6})")
_LOOK = "uname -n; cat /proc/sys/kernel/random/boot_id; nproc || grep -c ^processor /proc/cpuinfo; cat /proc/cpuinfo"


class SshGenerator:
    """A host over SSH; see `generator_protocol.Standing`."""

    def __init__(self, name: str, there: RemoteHost, engine: Engine) -> None:
        """Connect, and copy the engine if needed. Raises LostError, EngineError."""
        self.name = name
        self._there, self._engine = there, engine
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"ssh-{name}", daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        self._numbers = count()
        self._started: Started | None = None
        self._reading: asyncio.Task[None] | None = None
        self._lines = Lines()
        self._errors = b""
        self._code: int | None = None
        self.facts: Mapping[str, Any]
        try:
            self.facts = self._await_work(self._start_host(), UP_S)
        except BaseException:
            self.abandon()
            raise

    def clock_us(self) -> int:
        """Return its wall clock in microseconds since 1970."""
        return self._await_work(self._ask_clock(), SILENCE_S)

    def begin(self, share: Share, environment: Mapping[str, str]) -> None:
        self._await_work(self._begin(share, environment), BEGIN_S)

    def start(self, epoch_us: int) -> None:
        self._await_work(self._send(f"start {epoch_us}\n".encode()), SILENCE_S)

    def listen(self, wait_s: float) -> EngineOutput:
        """Renews its lease, checks that the host still answers, and returns its output."""
        self._await_work(self._beat(), SILENCE_S)
        lines, all_taken = self._lines.take(wait_s)
        if not all_taken:
            return EngineOutput(lines, None, "")
        if self._code is None:
            raise LostError("lost the connection")
        return EngineOutput(lines, self._code, self._errors.decode(errors="replace"))

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        with self._relayed() as engine:
            return plain_ceiling(engine, self.facts["cores"], protocol, clients, seconds)

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        with self._relayed() as engine:
            return round_trips(engine, environment, protocol)

    @contextmanager
    def _relayed(self) -> Iterator[Engine]:
        """Yield the engine as a command that runs it there, over a connection of its own."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            self._there.write(Path(file.name))
            yield self._engine._replace(through=relay_command(Path(file.name)))

    def interrupt(self) -> None:
        if self._started is not None:
            self._loop.call_soon_threadsafe(self._started.tell, "INT")

    def end(self) -> None:
        with suppress(LostError, EngineError):
            self._await_work(self._end(), 2 * GONE_S)
        self.abandon()

    def abandon(self) -> None:
        """Abandons a host that may not answer: its engine ends with the connection, or by its lease."""
        if self._loop.is_closed():
            return
        with suppress(LostError, EngineError):
            self._await_work(self._stack.aclose(), GONE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _await_work(self, work: Coroutine[Any, Any, T], within_s: float) -> T:
        """Return the result of `work` within the time limit. Raises LostError, and EngineError for local errors."""
        if self._loop.is_closed():
            work.close()
            raise LostError("its start was cancelled")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(within_s)
        except TimeoutError as error:
            future.cancel()
            raise LostError(f"it did not answer within {within_s:g} s") from error
        except RemoteError as error:
            if error.passing:
                lost = LostError(error.message)
                lost.hint = error.hint
                raise lost from error
            raise EngineError(f"{self.name}: {error.message}", hint=error.hint) from error
        except (SshError, OSError) as error:
            raise LostError(f"lost the connection: {error}") from error

    async def _start_host(self) -> dict[str, Any]:
        spec = self._there.ssh
        self._connection = await self._stack.enter_async_context(connect_host(spec))
        self._program = (await install(self._connection, self._engine.path, spec.folder, spec.host)).command
        look = f"exec sh -c {shlex.quote(f'{self._program} --version; {_LOOK}')}"
        found = await self._connection.run(look, stdin=DEVNULL, check=True, errors="replace")
        version, node, boot, cores, *cpuinfo = [*str(found.stdout).splitlines(), *[""] * 4]
        if not cores.isdecimal():
            raise RemoteError(f"{spec.host} does not tell its name and its processors: it prints {cores[:80]!r}")
        self._clock: Process[str] = await self._connection.create_process(f"exec sh -c {shlex.quote(_WITH_BASH)}")
        self._stack.callback(self._clock.close)
        self._one_question = asyncio.Lock()
        self._stack.callback(asyncio.create_task(self._keep_clock()).cancel)
        return {
            "host": node,
            "boot": boot,
            "zone": self._there.zone,
            "instance": self._there.instance,
            "cores": int(cores),
            "cpu_model": cpu_model("\n".join(cpuinfo)),
            "pgdyno": __version__,
            "pgdrive": version.rpartition(" ")[2],
        }

    async def _keep_clock(self) -> None:
        # between loads, nothing else does; its answer, which has no number, is skipped
        with suppress(OSError):
            while True:
                await asyncio.sleep(CLOCK_S / 3)
                self._clock.stdin.write("\n")

    async def _ask_clock(self) -> int:
        async with self._one_question:
            number = str(next(self._numbers))
            self._clock.stdin.write(f"{number}\n")
            while answer := await self._clock.stdout.readline():
                asked, _, seconds = answer.strip().partition(" ")
                # a late answer to an earlier question is skipped
                if asked == number:
                    return self._microseconds(seconds)
        raise ConnectionError("its clock does not answer")

    def _microseconds(self, seconds: str) -> int:
        match = _TIME.fullmatch(seconds)
        if match is None:
            message = f"{self._there.ssh.host} does not report its time in microseconds: {seconds or 'nothing'}"
            raise RemoteError(message, hint="install bash 5, or date of GNU coreutils, on that host")
        return int(match[1] + match[2])

    async def _beat(self) -> None:
        # the clock request comes first: only an answer of the host renews the lease
        await self._ask_clock()
        await self._send(RENEWAL)

    async def _send(self, line: bytes) -> None:
        if self._started is not None:
            # an engine that has ended reads no input: the next output reports its end
            with suppress(OSError):
                self._started.process.stdin.write(line)

    async def _begin(self, share: Share, environment: Mapping[str, str]) -> None:
        await self._end()
        spec = self._there.ssh
        baggage = pack([], environment, self._there.hosts)
        place = await put(self._connection, {**baggage.files, **share.files}, spec.folder, spec.host)
        command = command_line(self._program, baggage.environment, [*AWAITING, *share.options_there])
        self._lines, self._errors, self._code = Lines(), b"", None
        self._started = await start(self._connection, place, command)
        self._reading = asyncio.create_task(self._read(self._started, self._lines))

    async def _read(self, started: Started, lines: Lines) -> None:
        with suppress(OSError, SshError):
            said = asyncio.create_task(started.process.stderr.read())
            rest = b""
            while chunk := await started.process.stdout.read(_CHUNK):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    lines.add(line + b"\n")
            self._errors = await said
            self._code = await started.exit_code()
        lines.end()

    async def _end(self) -> None:
        started, self._started = self._started, None
        if started is None or self._reading is None:
            return
        if not self._reading.done():
            started.tell("INT")
            with suppress(OSError):
                started.process.stdin.write_eof()
            _, late = await asyncio.wait([self._reading], timeout=GONE_S)
            if late:
                started.tell("KILL")
        await started.forget()
