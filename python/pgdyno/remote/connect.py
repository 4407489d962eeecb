"""A connection over SSH: config file, keys and agent as OpenSSH has them, and only known host keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh import DEVNULL, generate_private_key
from asyncssh import Error as SshError
from asyncssh import SSHClientConnection as Connection
from asyncssh.process import SSHClientProcess as Process

from pgdyno.errors import InvalidValueError
from pgdyno.mounts import expand_home
from pgdyno.plan.hosts import SshSpec, ssh_host
from pgdyno.remote.remote_host import CommandError, RemoteError

DEFAULT_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
"""The defaults of ssh(1)."""
SSH_PORT = 22


class KnownHosts:
    """Host keys from known_hosts files."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Read `files`; missing ones are empty. Raises RemoteError for an invalid one."""
        self.files = files
        self.keys = asyncssh.import_known_hosts("")
        for file in files:
            try:
                self.keys.load(file.read_text(errors="replace"))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise RemoteError(f"cannot read the host keys in {file}: {error}") from error

    @classmethod
    def for_host(cls, spec: SshSpec, configured: Sequence[str] | None) -> KnownHosts:
        """Return the keys that apply to `spec`; `configured` is the config file's list, None disables all."""
        if spec.known_hosts is not None:
            names: Sequence[str] = [spec.known_hosts]
        elif configured is None:
            names = []
        else:
            names = configured or DEFAULT_FILES
        return cls([expand_home(name) for name in names])


class Watchful(asyncssh.SSHClient):
    """Rejects unknown host keys and remembers the rejected one."""

    def __init__(self, known: KnownHosts) -> None:
        self._known = known
        self.refused: RemoteError | None = None
        """The message after a key was rejected."""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for a key that no file has for this host, and for one that signed the host's certificate."""
        self.refused = self._refusal(host, addr, port, key)
        return False

    validate_host_ca_key = validate_host_public_key

    def _refusal(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> RemoteError:
        others = self._known.keys.match(host, addr, port if port != SSH_PORT else None)[0]
        kind, fingerprint = key.get_algorithm(), key.get_fingerprint()
        name = host if port == SSH_PORT else f"[{host}]:{port}"
        files = " or ".join(map(str, self._known.files)) or "no file"
        add_to = self._known.files[0] if self._known.files else Path(DEFAULT_FILES[0])
        add = f"ssh-keyscan -p {port} {host} >> {add_to}"
        compare = (
            "compare it with the host's own key (on the host: ssh-keygen -lf "
            f"/etc/ssh/ssh_host_{_file_of(kind)}_key.pub)"
        )
        if others:
            message = f"the host key of {name} is {kind} {fingerprint}, which is not the one in {files}"
            changed = "this may be an attack, or the host was reinstalled"
            return RemoteError(message, hint=f"{changed}; {compare}; then: ssh-keygen -f {add_to} -R '{name}'; {add}")
        message = f"unknown host key of {name}: {kind} {fingerprint} is not in {files}"
        return RemoteError(message, hint=f"{compare}; then: {add}")


def _file_of(kind: str) -> str:
    """Return `ed25519` for `ssh-ed25519`, `ecdsa` for `ecdsa-sha2-nistp256`."""
    return "ecdsa" if kind.startswith("ecdsa") else kind.removeprefix("ssh-")


CONNECT_S = 10.0
"""Time limit per hop for connecting and authenticating."""
CLOSE_S = 2.0
MOST_JUMPS = 8
"""The limit for a chain of jump hosts."""
KEEPALIVE_S, KEEPALIVES = 5, 3
"""Interval and number of unanswered keepalives after which a connection is closed."""


@asynccontextmanager
async def connect_host(spec: SshSpec) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Yield a connection to the host of `spec`, through its jump hosts. Raises RemoteError."""
    async with AsyncExitStack() as stack:
        yield await _reach(spec, spec, None, stack, MOST_JUMPS)


async def _reach(
    hop: SshSpec, spec: SshSpec, through: asyncssh.SSHClientConnection | None, stack: AsyncExitStack, jumps: int
) -> asyncssh.SSHClientConnection:
    if jumps == 0:
        hint = "correct ProxyJump in the config file of ssh: a jump host may jump through itself"
        raise RemoteError(f"more than {MOST_JUMPS} jump hosts lead to {spec.host}", hint=hint)
    given = _connect_options(hop, spec)
    options = await _options(hop, given)
    if through is None and isinstance(options.tunnel, str):
        # opened here instead of by the library, with which a config file could disable the check of host keys
        for jump in options.tunnel.split(","):
            through = await _reach(_jump(jump), spec, through, stack, jumps - 1)
    configured = options.known_hosts
    # `none` in the config file would disable the check: here it means that no key is known
    known = KnownHosts.for_host(spec, [str(file) for file in configured] if isinstance(configured, list) else None)
    watchful = Watchful(known)
    more: dict[str, Any] = {} if through is None else {"tunnel": through}
    try:
        async with asyncio.timeout(CONNECT_S):
            connection = await asyncssh.connect(
                **given, **more, known_hosts=known.keys, client_factory=lambda: watchful
            )
    except TimeoutError as error:
        raise RemoteError(f"{hop.host} did not answer over SSH within {CONNECT_S:g} s", passing=True) from error
    except (asyncssh.Error, OSError, ValueError, OverflowError) as error:
        # the config file may name a port that is too large, an OverflowError
        raise watchful.refused or _reason(hop, options.username, error) from error
    stack.push_async_callback(_close, connection)
    return connection


async def _close(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await connection.wait_closed()
    except (TimeoutError, OSError, asyncssh.Error):
        connection.abort()


def _connect_options(hop: SshSpec, spec: SshSpec) -> dict[str, Any]:
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
    # without it, `construct` reads no file, in contrast to `connect`; () is ~/.ssh/config
    given["config"] = () if spec.config is None else [str(expand_home(spec.config))]
    return given


async def _options(hop: SshSpec, given: dict[str, Any]) -> asyncssh.SSHClientConnectionOptions:
    """Return options from the config file, keys and agent. Raises RemoteError."""
    try:
        options: asyncssh.SSHClientConnectionOptions = await asyncssh.SSHClientConnectionOptions.construct(**given)
    except (asyncssh.ConfigParseError, asyncssh.KeyImportError, OSError, ValueError) as error:
        message = f"cannot reach {hop.host} over SSH: {error}"
        hint = f"correct the config file of ssh; to see the effective options: ssh -G {hop.host}"
        raise RemoteError(message, hint=hint) from error
    return options


def _jump(text: str) -> SshSpec:
    """Parse `[user@]host[:port]` of ProxyJump, in which an IPv6 address needs no brackets. Raises RemoteError."""
    user, _, place = text.strip().removeprefix("ssh://").rpartition("@")
    try:
        found = ssh_host(f"[{place}]" if place.count(":") > 1 and "[" not in place else place)
    except InvalidValueError as error:
        raise RemoteError(f"invalid jump host {text!r}", hint="correct ProxyJump in the config file of ssh") from error
    return found.model_copy(update={"user": user or None})


def _reason(hop: SshSpec, user: str, error: Exception) -> RemoteError:
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
            message = f"cannot reach {hop.host} over SSH: {error}"
            return RemoteError(message, hint=f"try: ssh {hop.host} true", passing=True)
        case _:
            return RemoteError(f"cannot reach {hop.host} over SSH: {error}")


WITHIN_S = 60.0


def ask(spec: SshSpec, command: str, within_s: float = WITHIN_S, text: str | None = None) -> str:
    """Return the output of `command`, with `text` as standard input. Raises RemoteError, also if it fails."""
    return asyncio.run(_ask(spec, command, within_s, text))


async def _ask(spec: SshSpec, command: str, within_s: float, text: str | None) -> str:
    given: dict[str, Any] = {"stdin": asyncssh.DEVNULL} if text is None else {"input": text}
    async with connect_host(spec) as connection:
        try:
            async with asyncio.timeout(within_s):
                # the host may have another locale
                done = await connection.run(command, request_pty=False, errors="replace", **given)
        except TimeoutError as error:
            raise RemoteError(f"{spec.host} does not answer", passing=True) from error
        except (asyncssh.Error, OSError) as error:
            raise RemoteError(f"lost the connection to {spec.host}: {error}", passing=True) from error
    out, errors = str(done.stdout or ""), str(done.stderr or "").strip()
    if done.exit_status != 0:
        # none if the connection was closed
        code = -1 if done.exit_status is None else done.exit_status
        raise CommandError(spec.host, command, code, errors.splitlines()[-1] if errors else "")
    return out


__all__ = ["DEVNULL", "Connection", "Process", "SshError", "new_key"]


def new_key(comment: str) -> tuple[str, str]:
    """Create an ed25519 key; return the private and the public half in OpenSSH's format."""
    key = generate_private_key("ssh-ed25519", comment=comment)
    return key.export_private_key().decode(), key.export_public_key().decode().strip()
