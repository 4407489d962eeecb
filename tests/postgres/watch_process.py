"""Runs `pgdyno watch` as a process, with a pipe or on a terminal of a given size."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgdyno.targets import Server
from tests.postgres.own_servers import UNHURRIED
from tests.postgres.servers import execute
from tests.run_program import BIN, run_program
from tests.waiting import PATIENCE_S


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PG") or "PGDYNO" in name}
    return {**ours, "TERM": "xterm-256color", **environment}


@contextmanager
def load(server: Server, clients: int = 4) -> Iterator[None]:
    """Runs a pgbench load at scale 1 until the block ends; it is low enough to leave the cores to other processes."""
    environment = clean(server.environment())
    run_program([BIN / "pgdrive", "-i", "-s", "1"], env=environment, code=0)
    execute(server, UNHURRIED)
    process = subprocess.Popen(
        [BIN / "pgdrive", "-c", str(clients), "-T", "3600", "--no-vacuum"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
        execute(server, "DROP FUNCTION unhurried CASCADE")


class Objects:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.seen.append(json.loads(text))

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        at = len(self.seen)
        while time.monotonic() < deadline:
            while at < len(self.seen):
                at += 1
                if wanted(self.seen[at - 1]):
                    return self.seen[at - 1]
            assert self.process.poll() is None, self.process.stderr
            time.sleep(0.05)
        raise AssertionError(self.seen[-1:])


@contextmanager
def objects(environment: Mapping[str, str], *args: str) -> Iterator[Objects]:
    with subprocess.Popen(
        [BIN / "pgdyno", "watch", "--json", *args], env=clean(environment), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        told = Objects(process)
        try:
            yield told
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            told.reader.join(PATIENCE_S)


class Terminal:
    def __init__(self, environment: Mapping[str, str], size: tuple[int, int], *args: str) -> None:
        """Starts the process; `size` is columns and rows."""
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.resize(*size)
        variables = {name: value for name, value in clean(environment).items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [BIN / "pgdyno", "watch", *args],
            env=variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # as a shell has it: the system lets only such a group be stopped
            process_group=0,
        )
        self.written = ""

    def _wait(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, self.written[-3000:]
            self._read(0.2)
        self._read(0)

    def wait_for(self, pattern: str) -> None:
        at = len(self.written)
        self._wait(lambda: re.search(pattern, self.written[at:]))

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_stopped(self) -> None:
        state = Path(f"/proc/{self.process.pid}/stat")
        self._wait(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")

    def end(self) -> int:
        self._wait(lambda: self.process.poll() is not None)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        while select.select([self.ours], [], [], seconds)[0]:
            self.written += os.read(self.ours, 65536).decode(errors="replace")
            seconds = 0


@contextmanager
def terminal(environment: Mapping[str, str], size: tuple[int, int], *args: str) -> Iterator[Terminal]:
    shown = Terminal(environment, size, *args)
    try:
        yield shown
    finally:
        shown.process.kill()
        shown.process.wait()
        os.close(shown.ours)
        os.close(shown.theirs)
