"""Runs of the installed programs in an empty folder, pgnull as a server, and terminals."""

import contextlib
import json
import os
import pty
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.forked import run_pgdyno
from tests.present import present
from tests.run_program import BIN, run_program

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs pgdyno or pgdrive in an empty folder, without the caller's connection settings."""

    def call(
        program: str, *args: str, env: dict[str, str] | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "COLUMNS"))}
        # the home of all tests, with locks that no other pgdyno on this host uses
        clean |= {name: os.environ[name] for name in ("PGDYNO_HOME", "PGDYNO_LOCKS") if name in os.environ}
        env = {**clean, "COLUMNS": "80", **(env or {})}
        if program == "pgdyno":
            return run_pgdyno(args, cwd=tmp_path, env=env, stdin=stdin)
        return run_program([str(BIN / program), *args], env=env, cwd=tmp_path, input=stdin)

    return call


SCALE = 7
PORT = 5432


@dataclass
class Null:
    """A running pgnull."""

    process: subprocess.Popen[str]
    folder: Path
    ready: str

    @property
    def socket_file(self) -> Path:
        return self.folder / f".s.PGSQL.{PORT}"

    @property
    def env(self) -> dict[str, str]:
        return {"PGHOST": str(self.folder), "PGPORT": str(PORT), "PGUSER": "somebody", "PGDATABASE": "null"}

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=60)


NullServer = Callable[..., Null]


@contextlib.contextmanager
def null_server(folder: Path, *args: str) -> Iterator[Null]:
    command = [str(BIN / "pgnull"), f"--socket-dir={folder}", f"--port={PORT}", f"--scale={SCALE}", *args]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Null(process, folder, present(process.stdout).readline())
        finally:
            process.kill()


@pytest.fixture
def null(tmp_path: Path) -> Iterator[NullServer]:
    """Starts a pgnull of this test with options of its own; one a test."""
    running = []

    def start(*args: str) -> Null:
        running.append(null_server(tmp_path, *args))
        return running[-1].__enter__()

    yield start
    for server in running:
        server.__exit__(None, None, None)


def processed_count(done: subprocess.CompletedProcess[str]) -> str:
    assert "actually processed: " in done.stdout, done.stderr
    return done.stdout.split("actually processed: ")[1].splitlines()[0]


def read_events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def end_event(file: Path) -> dict[str, Any]:
    event = read_events(file)[-1]
    assert event["event"] == "end"
    return event


def show_in_terminal(words: Sequence[str | Path], columns: int, cwd: Path, **variables: str) -> tuple[int, str]:
    """Returns the exit code of pgdyno on a terminal of that width, and what it prints, with its colours."""
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "PAGER": "cat", **variables}
    master, slave = pty.openpty()
    with subprocess.Popen([BIN / "pgdyno", *words], stdin=slave, stdout=slave, env=environment, cwd=cwd) as process:
        os.close(slave)
        shown = b""
        # it fails when the other end is closed
        with contextlib.suppress(OSError):
            while True:
                shown += os.read(master, 65536)
    os.close(master)
    return process.returncode, shown.decode().replace("\r\n", "\n")
