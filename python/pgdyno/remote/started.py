"""A program of ours that runs on another host, as who holds its connection has it."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import asyncssh
from asyncssh.process import SSHClientProcess

ASK_S = 10.0


def command_line(program: str, environment: Mapping[str, str], options: Sequence[str]) -> str:
    """For a shell there: `program`, which is quoted, with those variables and no others of libpq's."""
    variables = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    return f"exec env {variables} {program} {' '.join(map(shlex.quote, options))}"


@dataclass(slots=True)
class Started:
    """A program that was started."""

    connection: asyncssh.SSHClientConnection
    process: SSHClientProcess[bytes]
    _own: str
    """A file there with its number: not every sshd hands signals on."""
    _telling: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def tell(self, name: str) -> None:
        """Sends it the signal `name` ("INT"); waits for nothing."""
        self._telling.add(asyncio.create_task(self._ask(f"kill -{name} $(cat {self._own})")))

    async def ended(self) -> int | None:
        """Its exit code, 128 and the signal's number for one that was killed; None when the connection broke.

        To be called when all of its output was read.
        """
        await self.process.wait_closed()
        if self.process.exit_signal is not None:
            return 128 + int(signal.Signals[f"SIG{self.process.exit_signal[0]}"])
        return self.process.exit_status

    async def forget(self) -> None:
        """Leaves it, and removes what stands there for it."""
        self.process.close()
        await self._ask(f"rm -f {self._own}")

    async def _ask(self, command: str) -> None:
        with suppress(OSError, asyncssh.Error, TimeoutError):
            async with asyncio.timeout(ASK_S):
                await self.connection.run(command, stdin=asyncssh.DEVNULL, request_pty=False)


async def start(connection: asyncssh.SSHClientConnection, place: str, command: str) -> Started:
    """Runs `command`, as a shell takes it, in the folder `place`, which is quoted. Raises asyncssh.Error, OSError."""
    own = f"{place}/pid-{secrets.token_hex(8)}"
    shell = f"cd {place} && echo $$ > {own} && {command}"
    process: SSHClientProcess[bytes] = await connection.create_process(
        f"exec sh -c {shlex.quote(shell)}", encoding=None, request_pty=False
    )
    return Started(connection, process, own)
