"""A running program of pgdyno on another host, over an open connection."""

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
    """Returns a shell command: the quoted `program` with these variables and no other variables of libpq."""
    variables = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    return f"exec env {variables} {program} {' '.join(map(shlex.quote, options))}"


@dataclass(slots=True)
class Started:
    """A program that was started."""

    connection: asyncssh.SSHClientConnection
    process: SSHClientProcess[bytes]
    _own: str
    """The remote file with its process number: some sshds do not pass on signals."""
    _telling: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def tell(self, name: str) -> None:
        """Sends it the signal `name` ("INT") without waiting."""
        self._telling.add(asyncio.create_task(self._ask(f"kill -{name} $(cat {self._own})")))

    async def ended(self) -> int | None:
        """Returns its exit code, or 128 plus the signal that killed it; None if the connection was lost.

        Call it after reading all output.
        """
        await self.process.wait_closed()
        if self.process.exit_signal is not None:
            return 128 + int(signal.Signals[f"SIG{self.process.exit_signal[0]}"])
        return self.process.exit_status

    async def forget(self) -> None:
        """Detaches from it and removes its remote files."""
        self.process.close()
        await self._ask(f"rm -f {self._own}")

    async def _ask(self, command: str) -> None:
        with suppress(OSError, asyncssh.Error, TimeoutError):
            async with asyncio.timeout(ASK_S):
                await self.connection.run(command, stdin=asyncssh.DEVNULL, request_pty=False)


async def start(connection: asyncssh.SSHClientConnection, place: str, command: str) -> Started:
    """Runs the shell `command` in the quoted folder `place`. Raises asyncssh.Error, OSError."""
    own = f"{place}/pid-{secrets.token_hex(8)}"
    shell = f"cd {place} && echo $$ > {own} && {command}"
    process: SSHClientProcess[bytes] = await connection.create_process(
        f"exec sh -c {shlex.quote(shell)}", encoding=None, request_pty=False
    )
    return Started(connection, process, own)
