"""Measures another host's clock offset, for a load that is generated there."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from pgdyno.plan.ssh_words import SshSpec
from pgdyno.probe.ahead_of import Ahead
from pgdyno.probe.beside import ENVIRONMENT, PROGRAM
from pgdyno.probe.session import LocalClock, Session, talk
from pgdyno.programs import locate
from pgdyno.remote.connect import connected
from pgdyno.remote.install import install
from pgdyno.remote.problem import RemoteError


def measure_ahead(spec: SshSpec) -> Ahead:
    """Measures the clock of the host of `spec` by a pgprobe there. Raises RemoteError, EngineError."""
    program = locate(PROGRAM, ENVIRONMENT, "the probe")
    with tempfile.TemporaryDirectory() as folder:
        session = asyncio.run(_asked(spec, program, Path(folder)))
    if not session.rounds:
        raise RemoteError(f"cannot determine the clock of {spec.host}: {session.ended}", passing=True)
    quickest = min(session.rounds, key=lambda each: each.round_trip_us)
    return Ahead(quickest.wall_us - quickest.local_us, quickest.round_trip_us / 2)


async def _asked(spec: SshSpec, program: Path, folder: Path) -> Session:
    session, stop = Session(folder / "lines"), asyncio.Event()
    # stops after the first answer
    stop.set()
    async with connected(spec) as connection:
        installed = await install(connection, program, spec.folder, spec.host)
        with (folder / "log").open("wb") as log:
            command = installed.command
            await talk(connection, command, ["--no-server"], session, log, LocalClock(), stop, asyncio.Event())
    return session
