"""Runs pgprobe on the database's host during a block. Its failure does not end the block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from pgdyno.errors import EngineError, PgdynoError
from pgdyno.plan.ssh_words import SshSpec
from pgdyno.probe.beside import ENVIRONMENT, PROGRAM
from pgdyno.probe.session import LocalClock, Session, talk
from pgdyno.programs import locate
from pgdyno.remote.connect import connected
from pgdyno.remote.install import install
from pgdyno.remote.problem import RemoteError
from pgdyno.remote.ssh import SshError

READY_S = 30.0
"""How long the block waits for the first sample; a host that does not answer may be sampled later."""
AGAIN_S = 2.0
"""The delay before reconnecting."""
FAREWELL_S = 25.0
"""The time limit for closing everything after the block."""


class OverSsh:
    """A probe over SSH in a separate thread, which reconnects after a lost connection."""

    def __init__(self, spec: SshSpec, options: Sequence[str], lines: Path, log: Path) -> None:
        """Takes pgprobe's options; writes to `lines` with a numbered suffix, one file per connection."""
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
        """Starts it, and waits until it samples or has failed once. Raises nothing: see `problem`."""
        self._thread.start()
        self._ready.wait(READY_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """Runs one probe after the other until `stop` is set or retrying is pointless."""
        try:
            program = locate(PROGRAM, ENVIRONMENT, "the probe")
        except EngineError as error:
            self.problem = error.message
            return
        while not stop.is_set():
            try:
                await self._once(program, stop)
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
                    self.problem += self._said()
                    return
            self._ready.set()
            try:
                await asyncio.wait_for(stop.wait(), AGAIN_S)
            except TimeoutError:
                continue

    async def _once(self, program: Path, stop: asyncio.Event) -> None:
        started = asyncio.Event()
        async with connected(self.spec) as connection:
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

    def _said(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""
