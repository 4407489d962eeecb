"""Runs one command on another host."""

from __future__ import annotations

import asyncio

import asyncssh

from pgdyno.plan.ssh_words import SshSpec
from pgdyno.remote.connect import connected
from pgdyno.remote.problem import RemoteError

WITHIN_S = 60.0


def ask(spec: SshSpec, command: str, within_s: float = WITHIN_S) -> str:
    """Returns the output of `command`. Raises RemoteError, also on failure, which is passing."""
    return asyncio.run(_ask(spec, command, within_s))


async def _ask(spec: SshSpec, command: str, within_s: float) -> str:
    async with connected(spec) as connection:
        try:
            async with asyncio.timeout(within_s):
                done = await connection.run(command, stdin=asyncssh.DEVNULL, request_pty=False)
        except TimeoutError as error:
            raise RemoteError(f"{spec.host} does not answer", passing=True) from error
        except (asyncssh.Error, OSError) as error:
            raise RemoteError(f"lost the connection to {spec.host}: {error}", passing=True) from error
    out, errors = str(done.stdout or ""), str(done.stderr or "").strip()
    if done.exit_status != 0:
        why = errors.splitlines()[-1] if errors else f"exit code {done.exit_status}"
        raise RemoteError(f"{spec.host}: {command}: {why}", passing=True)
    return out
