"""Opens SSH connections with OpenSSH's config file, keys and agent. Never asks for a password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from pgdyno.plan.ssh_words import SshSpec
from pgdyno.remote.host_keys import KnownHosts, Watchful
from pgdyno.remote.problem import RemoteError

CONNECT_S = 10.0
"""Time limit per hop for connecting and authenticating."""
CLOSE_S = 2.0
MOST_JUMPS = 8
"""The limit for a chain of jump hosts."""
KEEPALIVE_S, KEEPALIVES = 5, 3
"""Interval and number of unanswered keepalives after which a connection is closed."""


@dataclass(frozen=True, slots=True)
class _Hop:
    host: str
    user: str | None
    port: int | None


@asynccontextmanager
async def connected(spec: SshSpec) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Yields a connection to the host of `spec`, through its jump hosts. Raises RemoteError."""
    async with AsyncExitStack() as stack:
        yield await _reach(_Hop(spec.host, spec.user, spec.port), spec, None, stack, MOST_JUMPS)


async def _reach(
    hop: _Hop, spec: SshSpec, through: asyncssh.SSHClientConnection | None, stack: AsyncExitStack, jumps: int
) -> asyncssh.SSHClientConnection:
    if jumps == 0:
        hint = "correct ProxyJump in the config file of ssh: a jump host may jump through itself"
        raise RemoteError(f"more than {MOST_JUMPS} jump hosts lead to {spec.host}", hint=hint)
    given = _given(hop, spec)
    options = await _options(hop, given)
    if through is None and isinstance(options.tunnel, str):
        # opened here instead of by the library, with which a config file could disable the check of host keys
        for jump in options.tunnel.split(","):
            through = await _reach(_jump(jump), spec, through, stack, jumps - 1)
    configured = options.known_hosts
    # `none` in the config file would disable the check: here it means that no key is known
    known = KnownHosts.of(spec, [str(file) for file in configured] if isinstance(configured, list) else None)
    watchful = Watchful(known)
    more: dict[str, Any] = {} if through is None else {"tunnel": through}
    try:
        async with asyncio.timeout(CONNECT_S):
            connection = await asyncssh.connect(
                **given, **more, known_hosts=known.keys, client_factory=lambda: watchful
            )
    except TimeoutError as error:
        raise RemoteError(f"{hop.host} did not answer over SSH within {CONNECT_S:g} s", passing=True) from error
    except (asyncssh.Error, OSError, ValueError) as error:
        raise watchful.refused or _reason(hop, options.username, error) from error
    stack.push_async_callback(_close, connection)
    return connection


async def _close(connection: asyncssh.SSHClientConnection) -> None:
    """Closes the connection, or aborts it if the other side is gone."""
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await connection.wait_closed()
    except (TimeoutError, OSError, asyncssh.Error):
        connection.abort()


def _given(hop: _Hop, spec: SshSpec) -> dict[str, Any]:
    """Returns the options that this module sets; the config file gives the others."""
    given: dict[str, Any] = {
        "host": hop.host,
        "password_auth": False,
        "kbdint_auth": False,
        "agent_forwarding": False,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVES,
    }
    named = {"username": hop.user, "port": hop.port}
    given |= {name: value for name, value in named.items() if value is not None}
    if spec.config is not None:
        given["config"] = [str(Path(spec.config).expanduser())]
    return given


async def _options(hop: _Hop, given: dict[str, Any]) -> asyncssh.SSHClientConnectionOptions:
    """Returns options from the config file, keys and agent. Raises RemoteError."""
    try:
        options: asyncssh.SSHClientConnectionOptions = await asyncssh.SSHClientConnectionOptions.construct(**given)
    except (asyncssh.ConfigParseError, asyncssh.KeyImportError, OSError, ValueError) as error:
        message = f"cannot reach {hop.host} over SSH: {error}"
        hint = f"correct the config file of ssh; to see the effective options: ssh -G {hop.host}"
        raise RemoteError(message, hint=hint) from error
    return options


def _jump(text: str) -> _Hop:
    """Parses `[user@]host[:port]` of ProxyJump. Raises RemoteError."""
    user, _, place = text.strip().removeprefix("ssh://").rpartition("@")
    host, _, port = place.rpartition(":") if place.count(":") == 1 else (place, "", "")
    if port and not port.isdigit():
        raise RemoteError(f"invalid jump host {text!r}", hint="correct ProxyJump in the config file of ssh")
    return _Hop(host, user or None, int(port) if port else None)


def _reason(hop: _Hop, user: str, error: Exception) -> RemoteError:
    match error:
        case asyncssh.PermissionDenied():
            hint = (
                f"ssh -o BatchMode=yes {user}@{hop.host} true must work: install the public key there, or load "
                "the key (ssh-add)"
            )
            return RemoteError(f"{hop.host} rejects the keys of {user}", hint=hint)
        case asyncssh.HostKeyNotVerifiable() | asyncssh.KeyExchangeFailed() | asyncssh.ProtocolNotSupported():
            return RemoteError(f"cannot trust {hop.host}: {error}")
        case asyncssh.Error() | OSError():
            return RemoteError(f"cannot reach {hop.host} over SSH: {error}", passing=True)
        case _:
            return RemoteError(f"cannot reach {hop.host} over SSH: {error}")
