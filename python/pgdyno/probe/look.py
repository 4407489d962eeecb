"""Checks whether a host can be probed over SSH, for `doctor`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pgdyno.plan.ssh_words import SshSpec
from pgdyno.probe.beside import ENVIRONMENT, PROGRAM
from pgdyno.probe.clock import Alignment, align
from pgdyno.probe.session import LocalClock, Session, talk
from pgdyno.programs import locate
from pgdyno.remote.connect import connected
from pgdyno.remote.install import install
from pgdyno.remote.problem import RemoteError
from pgdyno.remote.ssh import SshError


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
    """Connects, copies pgprobe if necessary, runs it briefly and reads the clock.

    Raises RemoteError, EngineError.
    """
    try:
        return asyncio.run(_look(spec))
    except (SshError, OSError) as error:
        raise RemoteError(f"lost the connection to {spec.host}: {error}", passing=True) from error


async def _look(spec: SshSpec) -> Looked:
    program = locate(PROGRAM, ENVIRONMENT, "the probe")
    began = time.monotonic()
    async with connected(spec) as connection:
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
                raise RemoteError(f"{spec.host}: {session.ended or 'the probe said nothing'}{said and f': {said}'}")
        return Looked(str(connection.get_extra_info("username")), took_s, installed.copied, alignment)
