"""Runs a pgdyno program on another host: `python -m pgdyno.remote.relay HOST PROGRAM OPTION...`.

It passes on standard input, output and error, signals, the exit code and libpq's variables. It copies the program
unless it is there, and the files that options and variables name. When the connection is lost, the program's standard
input closes, which ends it; a lease ends it even if no one notices that loss. HOST is a JSON file (`RemoteHost`).
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import asyncssh
from asyncssh.process import SSHClientProcess

from pgdyno.errors import PgdynoError
from pgdyno.remote.connect import connect_host
from pgdyno.remote.install import command_line, install, put, start
from pgdyno.remote.program_files import Baggage, pack
from pgdyno.remote.remote_host import RemoteError, RemoteHost

ATTEMPTS = 3
AGAIN_S = 2.0
BEAT_S = 10.0
LEASE_S = 60
CODE = 2
"""Exit code if the program could not be run, or its end is unknown."""
_CHUNK = 1 << 16
_SIGNALS = {signal.SIGINT: "INT", signal.SIGTERM: "TERM", signal.SIGHUP: "HUP"}
_WITHOUT_LEASE = ("--initialize", "--tpcc-check")
"""Options of programs that end by themselves and need only an open standard input."""


def main(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code."""
    there, program, options = RemoteHost.read(Path(arguments[0])), Path(arguments[1]), arguments[2:]
    try:
        return asyncio.run(_run(there, program, options))
    except (PgdynoError, asyncssh.Error, OSError) as error:
        message = error.message if isinstance(error, PgdynoError) else f"lost the connection: {error}"
        hint = f" ({error.hint})" if isinstance(error, PgdynoError) and error.hint else ""
        print(f"{program.name}: error: {there.ssh.host}: {message}{hint}", file=sys.stderr)
        return CODE


async def _run(there: RemoteHost, program: Path, options: Sequence[str]) -> int:
    baggage = pack(options, os.environ, there.hosts)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            async with connect_host(there.ssh) as connection:
                installed = await install(connection, program, there.ssh.folder, there.ssh.host)
                place = await put(connection, baggage.files, there.ssh.folder, there.ssh.host)
                return await _relay_output(connection, place, _command(installed.command, baggage, options))
        except RemoteError as error:
            # nothing has run so far
            if not error.passing or attempt == ATTEMPTS:
                raise
            await asyncio.sleep(AGAIN_S)
    raise AssertionError


def _command(program: str, baggage: Baggage, options: Sequence[str]) -> str:
    without = command_line(program, baggage.environment, baggage.options)
    if any(each in options for each in _WITHOUT_LEASE):
        return without
    leased = command_line(program, baggage.environment, [f"--lease={LEASE_S}", *baggage.options])
    # older programs have no lease
    return f"if {program} --help | grep -q -e --lease; then {leased}; else {without}; fi"


async def _relay_output(connection: asyncssh.SSHClientConnection, place: str, command: str) -> int:
    started = await start(connection, place, command)
    loop = asyncio.get_running_loop()
    for number, name in _SIGNALS.items():
        loop.add_signal_handler(number, started.tell, name)
    process = started.process
    talking = asyncio.create_task(_talk(process))
    try:
        await asyncio.gather(_pump(process.stdout, sys.stdout.fileno()), _pump(process.stderr, sys.stderr.fileno()))
        code = await started.exit_code()
    finally:
        talking.cancel()
        await started.forget()
    if code is None:
        raise RemoteError("lost the connection")
    return code


async def _talk(process: SSHClientProcess[bytes]) -> None:
    """Pass on standard input; send a line at least at intervals, and passes on the end of input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with suppress(OSError, asyncssh.Error):
        while True:
            try:
                said = await asyncio.wait_for(reader.read(_CHUNK), BEAT_S)
            except TimeoutError:
                process.stdin.write(b"\n")
                continue
            if not said:
                process.stdin.write_eof()
                return
            process.stdin.write(said)


async def _pump(stream: asyncssh.SSHReader[bytes], to: int) -> None:
    while chunk := await stream.read(_CHUNK):
        with suppress(BrokenPipeError):
            await asyncio.to_thread(_write, to, chunk)


def _write(to: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(to, chunk) :]


if __name__ == "__main__":
    # asyncio's threads may block in a write without a reader
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
