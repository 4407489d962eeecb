"""A program of ours on another host: copied when it is not there, whole, and able to run."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from pgdyno.remote.problem import RemoteError

MACHINES = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}
"""Names that uname has for ELF's e_machine (elf(5))."""
NOT_WHOLE = 3
"""Exit code of a copy with another checksum."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A program on another host."""

    command: str
    """For a shell there: quoted."""
    copied: bool
    """Whether it was not there before."""


@dataclass(frozen=True, slots=True)
class _Reply:
    code: int
    out: str
    errors: str


async def install(connection: asyncssh.SSHClientConnection, program: Path, folder: str, host: str) -> Installed:
    """Brings `program` into `folder` of the host unless it is there with the same checksum. Raises RemoteError.

    It is written beside its place and renamed, so that two who copy at once do not meet.
    """
    try:
        content = program.read_bytes()
    except OSError as error:
        raise RemoteError(f"cannot read {program}: {error}") from error
    digest = hashlib.sha256(content).hexdigest()
    place = _quoted(f"{folder.rstrip('/')}/{program.name}-{digest[:16]}")
    look = f"uname -s; uname -m; sha256sum < {place} 2>/dev/null; {place} --version"
    there = await _shell(connection, look)
    lines = there.out.splitlines()
    _check_machine(lines[:2], program, content, host)
    if lines[2:] and lines[2].split()[:1] == [digest]:
        if there.code == 0:
            return Installed(place, copied=False)
        raise _cannot_run(program, folder, host, there)
    await _copy(connection, content, digest, place, folder, host)
    tried = await _shell(connection, f"{place} --version")
    if tried.code != 0:
        raise _cannot_run(program, folder, host, tried)
    return Installed(place, copied=True)


async def _copy(
    connection: asyncssh.SSHClientConnection, content: bytes, digest: str, place: str, folder: str, host: str
) -> None:
    partial = f"{place}.{secrets.token_hex(4)}"
    same = f'[ "$(sha256sum < {partial} | cut -c1-64)" = {digest} ]'
    # a connection that is cut ends the content, too: hence the checksum before the name
    write = f"umask 077 && mkdir -p {_quoted(folder)} && cat > {partial} && chmod 700 {partial}"
    command = f"{write} && {{ {same} || {{ rm -f {partial}; exit {NOT_WHOLE}; }}; }} && mv -f {partial} {place}"
    done = await _shell(connection, f"{{ {command}; }} || {{ e=$?; rm -f {partial}; exit $e; }}", content)
    if done.code == NOT_WHOLE:
        raise RemoteError(f"the copy of the probe on {host} is not whole, or there is no sha256sum", passing=True)
    if done.code != 0:
        hint = "name another folder of that host: target.NAME.ssh.folder"
        raise RemoteError(f"cannot copy the probe to {folder} on {host}: {_last(done)}", hint=hint)


def _check_machine(names: list[str], program: Path, content: bytes, host: str) -> None:
    """Raises RemoteError when the host is of another kind than `program` was built for."""
    if len(names) < 2 or names[0] != "Linux":
        raise RemoteError(f"{host} is not Linux: uname says {' '.join(names) or 'nothing'}")
    is_elf = content[:4] == b"\x7fELF"
    built_for = MACHINES.get(int.from_bytes(content[18:20], "little"), ("unknown",)) if is_elf else (names[1],)
    if names[1] not in built_for:
        message = f"{host} is {names[1]}, and {program.name} here was built for {built_for[0]}"
        raise RemoteError(message, hint=f"run pgdyno on a machine that is {names[1]}, or leave target.NAME.ssh out")


def _cannot_run(program: Path, folder: str, host: str, said: _Reply) -> RemoteError:
    hint = "an older libc, or a folder mounted noexec? target.NAME.ssh.folder names another folder"
    return RemoteError(f"{program.name} cannot run in {folder} on {host}: {_last(said)}", hint=hint)


async def _shell(connection: asyncssh.SSHClientConnection, script: str, content: bytes | None = None) -> _Reply:
    """What `script` said; `content` is its standard input. Raises RemoteError."""
    try:
        done = await connection.run(
            # whatever the user's own shell is
            f"exec sh -c {shlex.quote(script)}",
            input=content if content is not None else b"",
            encoding=None,
            request_pty=False,
        )
    except (asyncssh.Error, OSError) as error:
        raise RemoteError(f"the connection broke: {error}", passing=True) from error
    out, errors = (_text(stream) for stream in (done.stdout, done.stderr))
    code = done.exit_status
    if code is None:
        raise RemoteError("the connection broke: a command did not come to its end", passing=True)
    return _Reply(code, out, errors)


def _text(stream: object) -> str:
    return stream.decode(errors="replace") if isinstance(stream, bytes) else ""


def _last(said: _Reply) -> str:
    lines = said.errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {said.code}"


def _quoted(path: str) -> str:
    """For a shell; `~/` is the home there."""
    return '"$HOME"/' + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)
