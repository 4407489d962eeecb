"""What pgdyno does on a host of the pool: one script, which runs there as root."""

import secrets
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files

from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote.connect import ask
from pgdyno.remote.remote_host import CommandError, not_silent

STATE = "/var/lib/pgdyno-pool"
_ROOT = """sh -c 'if [ "$(id -u)" = 0 ]; then exec bash -s -- "$@"; else exec sudo -n bash -s -- "$@"; fi' sh"""
_ADDRESSES = '"${SSH_CONNECTION%% *}"'
"""The address of this machine as the host sees it."""
SHORT_S = 60.0
CLEAN_UP_S = 1200.0


class PoolError(TargetError):
    """A host of the pool cannot be used."""


class NoRootError(PoolError):
    """The script did not run on the host, because the user may not become root."""


def reached_at(ssh: SshSpec) -> str:
    """Return the address of the host at which it accepted this machine's connection. Raises RemoteError."""
    *before, address = ask(ssh, "set -- $SSH_CONNECTION; echo $3").splitlines() or [""]
    if before:
        raise not_silent(ssh.host, "\n".join(before))
    return address.strip()


def on_host(
    ssh: SshSpec,
    command: str,
    run: str,
    *more: str,
    within_s: float = SHORT_S,
    variables: Mapping[str, str | Sequence[str]] | None = None,
) -> str:
    """Return what `host.sh` printed for `command`. Raises PoolError, NoRootError and RemoteError.

    The script and its variables go through standard input: no process list on the host shows them.
    """
    script = files("pgdyno.targets.pool").joinpath("host.sh").read_text(encoding="utf-8")
    values = "".join(f"{name}={_quote_value(value)}\n" for name, value in (variables or {}).items())
    end = f"END_{secrets.token_hex(8)}"
    # bash reads a group to its end before it runs it, so that no command can read the rest of the script
    text = f"""{{
set -e
install -d -m 0755 {STATE}
cat > {STATE}/host.sh.$$ <<'{end}'
{script}{end}
mv {STATE}/host.sh.$$ {STATE}/host.sh
exec bash {STATE}/host.sh "$@" <<'{end}'
{values}{end}
}}
"""
    words = f"{_ROOT} {shlex.join([command, run, *more])}"
    if command == "borrow":
        words += f" {_ADDRESSES}"
    try:
        said = ask(ssh, words, within_s, text)
    except CommandError as error:
        if "sudo" in error.why:
            hint = 'log in as root (user = "root"), or let the user run sudo without a password'
            raise NoRootError(f"the host {ssh.host}: pgdyno needs root there: {error.why}", hint=hint) from error
        raise PoolError(f"the host {ssh.host}: {command}: {error.why}", hint=f"see its {STATE}/log") from error
    if said.startswith("failed: "):
        step, *log = said.removeprefix("failed: ").strip().splitlines()
        lines = "".join(f"\n  {line}" for line in log)
        raise PoolError(f"the host {ssh.host}: {step}{lines}", hint=f"these are the last lines of its {STATE}/log")
    return said


def _quote_value(value: str | Sequence[str]) -> str:
    return shlex.quote(value) if isinstance(value, str) else f"({shlex.join(value)})"
