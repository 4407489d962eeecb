"""Copies a program of pgdyno to another host, verifies the copy, and starts it."""

import asyncio
import hashlib
import secrets
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from asyncssh.process import SSHClientProcess

from pgdyno.programs import ENGINES, for_machine
from pgdyno.remote.remote_host import RemoteError, not_silent

MACHINES = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}
"""uname's names for ELF's e_machine (elf(5))."""
NOT_WHOLE = 3
"""Exit code for a copy with a wrong checksum."""
_BEGIN = "pgdyno-begin"


@dataclass(frozen=True, slots=True)
class Installed:
    """A program on another host."""

    command: str
    """Quoted for a shell on the host."""
    copied: bool
    """Whether this call copied the program."""


@dataclass(frozen=True, slots=True)
class _Reply:
    code: int
    out: str
    errors: str


async def install(connection: asyncssh.SSHClientConnection, program: Path, folder: str, host: str) -> Installed:
    """Copy `program` into `folder` of the host unless it is there with the same checksum. Raises RemoteError.

    Writes a temporary file and renames it, so that concurrent copies do not collide.
    """
    program, content = await _suitable_program(connection, program, host)
    digest = hashlib.sha256(content).hexdigest()
    place = _quote_path(f"{folder.rstrip('/')}/{program.name}-{digest[:16]}")
    there = await _shell(connection, f"sha256sum < {place} 2>/dev/null && {place} --version")
    if there.out.split()[:1] == [digest]:
        if there.code == 0:
            return Installed(place, copied=False)
        raise _cannot_run(program, folder, host, there)
    made = await _shell(connection, f"umask 077 && mkdir -p {_quote_path(folder)}")
    if made.code != 0:
        raise _cannot_copy(folder, host, made)
    await _copy(connection, content, digest, place, folder, host)
    tried = await _shell(connection, f"{place} --version")
    if tried.code != 0:
        raise _cannot_run(program, folder, host, tried)
    return Installed(place, copied=True)


async def put(connection: asyncssh.SSHClientConnection, files: Mapping[str, bytes], folder: str, host: str) -> str:
    """Write `files`, by relative path, into a new folder below `folder`; return it quoted. Raises RemoteError.

    They may contain a password: `start` and `Started.forget` remove the folder with the program's end, and an error of
    this function removes it.
    """
    listed = sorted(files.items())
    base = f"{folder.rstrip('/')}/files-{secrets.token_hex(8)}"
    # a copy that outlives this function finds its folder gone, and makes none again
    folders = sorted({base, *(f"{base}/{place}".rpartition("/")[0] for place in files)})
    made = await _shell(connection, f"umask 077 && mkdir -p {' '.join(map(_quote_path, folders))}")
    if made.code != 0:
        raise RemoteError(f"cannot create {base} on {host}: {_last_line(made)}")
    try:
        for place, content in listed:
            digest = hashlib.sha256(content).hexdigest()
            await _copy(connection, content, digest, _quote_path(f"{base}/{place}"), base, host)
    except BaseException:
        await _ask(connection, f"rm -rf {_quote_path(base)}")
        raise
    return _quote_path(base)


async def _copy(
    connection: asyncssh.SSHClientConnection, content: bytes, digest: str, place: str, folder: str, host: str
) -> None:
    partial = f"{place}.{secrets.token_hex(4)}"
    same = f'[ "$(sha256sum < {partial} | cut -c1-64)" = {digest} ]'
    # a lost connection also ends the input, hence the checksum before the rename
    write = f"umask 077 && cat > {partial} && chmod 700 {partial}"
    command = f"{write} && {{ {same} || {{ rm -f {partial}; exit {NOT_WHOLE}; }}; }} && mv -f {partial} {place}"
    done = await _shell(connection, f"{{ {command}; }} || {{ e=$?; rm -f {partial}; exit $e; }}", content)
    if done.code == NOT_WHOLE:
        raise RemoteError(f"a copy on {host} is incomplete, or sha256sum is missing", passing=True)
    if done.code != 0:
        raise _cannot_copy(folder, host, done)


def _cannot_copy(folder: str, host: str, done: _Reply) -> RemoteError:
    hint = "set another folder on that host: target.NAME.ssh.folder"
    return RemoteError(f"cannot copy to {folder} on {host}: {_last_line(done)}", hint=hint)


async def _suitable_program(connection: asyncssh.SSHClientConnection, program: Path, host: str) -> tuple[Path, bytes]:
    """Return `program`, or its build for the host's architecture, with its content. Raises RemoteError."""
    # start-up files of the login shell run first, and would put text into all that programs print
    before, begin, said = (await _shell(connection, f"echo {_BEGIN}; uname -s; uname -m")).out.partition(f"{_BEGIN}\n")
    if begin and before:
        raise not_silent(host, before)
    names = said.splitlines()
    if len(names) < 2 or names[0] != "Linux":
        raise RemoteError(f"{host} does not run Linux: uname prints {' '.join(names) or 'nothing'}")
    built_for, content = _read(program)
    if not built_for or names[1] in built_for:
        return program, content
    other = for_machine(program.name, names[1])
    if other is None:
        message = f"{host} is {names[1]}, and the local {program.name} was built for {built_for[0]}"
        hint = f"build it for {names[1]} with make engines, or set {ENGINES} to the folder with such programs"
        raise RemoteError(message, hint=hint)
    other_for, content = _read(other)
    if names[1] not in other_for:
        raise RemoteError(f"{host} is {names[1]}, and {other} was built for {other_for[0] if other_for else 'nothing'}")
    return other, content


def _read(program: Path) -> tuple[tuple[str, ...], bytes]:
    """Return the architectures of a program, none for a script, and its content. Raises RemoteError."""
    try:
        content = program.read_bytes()
    except OSError as error:
        raise RemoteError(f"cannot read {program}: {error}") from error
    if content[:4] != b"\x7fELF":
        return (), content
    return MACHINES.get(int.from_bytes(content[18:20], "little"), ("unknown",)), content


def _cannot_run(program: Path, folder: str, host: str, said: _Reply) -> RemoteError:
    hint = "if its libc is too old or the folder is mounted noexec, set another one: target.NAME.ssh.folder"
    return RemoteError(f"{program.name} cannot run in {folder} on {host}: {_last_line(said)}", hint=hint)


async def _shell(connection: asyncssh.SSHClientConnection, script: str, content: bytes | None = None) -> _Reply:
    """Return the output of `script`; `content` is its standard input. Raises RemoteError."""
    try:
        # independent of the user's login shell
        command = f"exec sh -c {shlex.quote(script)}"
        process = await connection.create_process(command, encoding=None, request_pty=False)
        # a command that fails at once reads no input: what it says is the reason, not that the input was refused
        with suppress(BrokenPipeError):
            if content is not None:
                process.stdin.write(content)
            process.stdin.write_eof()
        done = await process.wait()
    except (asyncssh.Error, OSError) as error:
        raise RemoteError(f"lost the connection: {error}", passing=True) from error
    out, errors = (_text(stream) for stream in (done.stdout, done.stderr))
    code = done.exit_status
    if code is None:
        raise RemoteError("lost the connection before a command ended", passing=True)
    return _Reply(code, out, errors)


def _text(stream: object) -> str:
    return stream.decode(errors="replace") if isinstance(stream, bytes) else ""


def _last_line(said: _Reply) -> str:
    lines = said.errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {said.code}"


def _quote_path(path: str) -> str:
    return '"$HOME"/' + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


ASK_S = 10.0


_FORGET_LIBPQ = "unset PGHOST $(env | sed -n -e /^PGDYNO/d -e 's/^\\(PG[A-Z]*\\)=.*/\\1/p')"
"""Removes the variables with which the host itself would redirect the load, as `without_libpq` does here."""


def command_line(program: str, environment: Mapping[str, str], options: Sequence[str]) -> str:
    """Return a shell command: the quoted `program` with these variables and no other variables of libpq."""
    variables = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    return f"{_FORGET_LIBPQ} && exec env {variables} {program} {' '.join(map(shlex.quote, options))}"


_REMOVE = (
    "(trap '' HUP INT TERM; p=$PWD; cd /; while kill -0 $$; do sleep 5; done; rm -rf \"$p\")"
    " </dev/null >/dev/null 2>&1 &"
)
"""Removes the folder once the program has ended, even if the connection was lost; `exec` keeps the number of $$."""


@dataclass(slots=True)
class Started:
    """A program that was started."""

    connection: asyncssh.SSHClientConnection
    process: SSHClientProcess[bytes]
    _place: str
    """The remote folder with its files, and with its process number in `.pid`: some sshds do not pass on signals."""
    _telling: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def tell(self, name: str) -> None:
        """Send it the signal `name` ("INT") without waiting."""
        self._telling.add(asyncio.create_task(_ask(self.connection, f"kill -{name} $(cat {self._place}/.pid)")))

    async def exit_code(self) -> int | None:
        """Return its exit code, or 128 plus the signal, after all output; None if the connection was lost."""
        await self.process.wait_closed()
        if self.process.exit_signal is not None:
            return 128 + int(signal.Signals[f"SIG{self.process.exit_signal[0]}"])
        return self.process.exit_status

    async def forget(self) -> None:
        """Detaches from it and removes its remote files."""
        self.process.close()
        await _ask(self.connection, f"rm -rf {self._place}")


async def _ask(connection: asyncssh.SSHClientConnection, command: str) -> None:
    with suppress(OSError, asyncssh.Error, TimeoutError):
        async with asyncio.timeout(ASK_S):
            await connection.run(command, stdin=asyncssh.DEVNULL, request_pty=False)


async def start(connection: asyncssh.SSHClientConnection, place: str, command: str) -> Started:
    """Run the shell `command` in the quoted folder `place`, which is removed after its end, or if it does not start.

    Raises asyncssh.Error, OSError.
    """
    shell = f"cd {place} && echo $$ > .pid && {{ {_REMOVE} }} && {command}"
    try:
        process: SSHClientProcess[bytes] = await connection.create_process(
            f"exec sh -c {shlex.quote(shell)}", encoding=None, request_pty=False
        )
    except BaseException:
        await _ask(connection, f"rm -rf {place}")
        raise
    return Started(connection, process, place)
