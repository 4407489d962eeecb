"""Runs pgdyno as a forked process, which saves the CPU time of its imports (`tests.fork_server`)."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from filelock import FileLock

PGDYNO = Path(sys.executable).parent / "pgdyno"
ROOT = Path(__file__).parents[1]
FOLDER = "PGDYNO_FORK_SERVERS"
"""A variable: the folder of what workers share."""
ALIVE = "alive"
"""A pipe in it that has a writer as long as the tests' first process lives: servers end with it."""
_started: list[subprocess.Popen[bytes]] = []
"""Servers, which nobody waits for."""
_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "TZ", "OPENBLAS_", "MALLOC_")
"""Variables that an interpreter reads when it starts: with others, a real process is started."""
_OTHERWISE = {"PYTHONFAULTHANDLER", "PYTHONPATH"}
"""Those that a forked process follows all the same: there is a server for each PYTHONPATH."""


def run_pgdyno(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str = "", timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs `pgdyno WORDS` and returns its output.

    Raises subprocess.TimeoutExpired; before, faulthandler has written where pgdyno hangs if `env` asks for it.
    """
    command = [str(PGDYNO), *words]
    with tempfile.TemporaryFile("w+b") as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        if _at_start(env) == _at_start(os.environ):
            process = _fork(command, cwd, env, (given.fileno(), out.fileno(), err.fileno()))
            code = process.wait(timeout_s)
        else:
            started = subprocess.Popen(command, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
            try:
                code = started.wait(timeout_s)
            except subprocess.TimeoutExpired:
                started.send_signal(signal.SIGABRT)
                started.wait()
                code = None
        out.seek(0)
        err.seek(0)
        said = [file.read().decode() for file in (out, err)]
    if code is None:
        raise subprocess.TimeoutExpired(command, timeout_s, *said)
    return subprocess.CompletedProcess(command, code, *said)


class _Forked:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._pid = int(self._lines.readline())

    def wait(self, timeout_s: float) -> int | None:
        """Returns the exit code; None if the process had to be ended."""
        with self._connection, self._lines:
            self._connection.settimeout(timeout_s)
            try:
                return int(self._lines.readline())
            except TimeoutError:
                os.kill(self._pid, signal.SIGABRT)
                return None


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START) and name not in _OTHERWISE}


def _fork(command: list[str], cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int]) -> _Forked:
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(_server(env.get("PYTHONPATH", "")), [b"."], [theirs.fileno(), *streams])
    ours.sendall(json.dumps({"argv": command, "cwd": str(cwd), "env": dict(env)}).encode() + b"\n")
    return _Forked(ours)


def share_servers(folder: str) -> None:
    """Lets this process and its workers share what they start in `folder`, until this process ends."""
    os.environ[FOLDER] = folder
    os.mkfifo(f"{folder}/{ALIVE}")
    os.open(f"{folder}/{ALIVE}", os.O_RDWR)


@cache
def _server(python_path: str) -> socket.socket:
    """Returns a connection to the server of pgdyno as found by PYTHONPATH, which the first of the workers starts."""
    place = Path(os.environ[FOLDER], f"{zlib.crc32(python_path.encode()):08x}")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with FileLock(f"{place}.lock"):
        try:
            connection.connect(str(place))
        except OSError:
            _start(python_path, place)
            connection.connect(str(place))
    atexit.register(connection.close)
    return connection


def _start(python_path: str, place: Path) -> None:
    place.unlink(missing_ok=True)
    alive = os.open(place.with_name(ALIVE), os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(alive), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(place))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(listener.fileno()), str(alive)], cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": python_path}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(listener.fileno(), alive),
        )  # fmt: skip
    _started.append(process)
