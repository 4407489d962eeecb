"""The agent on a generator's host: starts pgdrive with its share of the load and returns its output.

The driver's machine calls all methods through Ray. Each call of `listen` is a heartbeat, renews the lease and delivers
output: an engine whose driver is gone, frozen or cut off receives no renewal and stops by itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pgdyno import __version__
from pgdyno.doctor.generator import Trips, plain_ceiling, round_trips
from pgdyno.generators.ray_node import NODE_FOLDER, tree_cpu_us
from pgdyno.host import boot_id, describe_host
from pgdyno.programs import find_engine
from pgdyno.remote.program_files import lua_files
from pgdyno.run.process import without_libpq

LEASE_S = 4.0
"""An engine without contact for so long stops."""
GONE_S = 8.0
"""The time for an engine to stop before it is killed; it takes up to 5 s to cancel its statements."""
MOST_LINES = 5_000
"""The limit of one answer."""
RENEWAL = b"alive\n"
AWAITING = (f"--lease={LEASE_S:g}", "--await-start")
"""Options of every engine that makes a share of a load."""


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """An engine's output since the last call."""

    lines: list[bytes]
    code: int | None
    """The exit code, once it has ended and all lines were returned."""
    errors: str
    """Standard error of the engine, once it has ended."""


class Lines:
    """Lines of one engine, added by one thread and taken by another."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._news = threading.Condition()
        self._ended = False

    def add(self, line: bytes) -> None:
        with self._news:
            self._lines.append(line)
            self._news.notify_all()

    def end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()

    def take(self, wait_s: float) -> tuple[list[bytes], bool]:
        """Return new lines, after up to `wait_s`, and whether they are the last."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._ended, wait_s)
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MOST_LINES))]
            return lines, self._ended and not self._lines


ALONE_S = 3.0
"""The margin for a late driver, in addition to the lease of its engine."""


class Agent:
    """The host of one generator."""

    def __init__(self, *, is_process: bool = False) -> None:
        """Find the engine; with `is_process`, this process ends when its driver has gone. Raises EngineError."""
        self._engine = find_engine()
        self._is_process = is_process
        self._spoken_to = time.monotonic()
        self._news = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._errors: IO[bytes] | None = None
        self._lines = Lines()
        self._ray_before = {"user": 0, "system": 0}

    def look(self) -> dict[str, Any]:
        host = describe_host()
        return {
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "boot": boot_id(),
            "cores": host.cores,
            "cpu_model": host.cpu_model,
            "pgdyno": __version__,
            "pgdrive": self._engine.version,
        }

    def clock_us(self) -> int:
        """Return this host's wall clock in microseconds since 1970."""
        self._note()
        return time.time_ns() // 1000

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        """Return the engine's transactions per second against a null server. Raises EngineError."""
        return plain_ceiling(self._engine, len(os.sched_getaffinity(0)), protocol, clients, seconds)

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        """Measures round trips to the server of `environment`. Raises EngineError."""
        return round_trips(self._engine, environment, protocol)

    def begin(self, options: Sequence[str], environment: Mapping[str, str], files: Mapping[str, bytes]) -> None:
        """Start the engine with `files` in its folder, after ending a previous one."""
        self._note()
        self.end()
        # a node that pgdyno started removes it with its own folder
        self._folder = Path(tempfile.mkdtemp(prefix="pgdyno-generator-", dir=os.environ.get(NODE_FOLDER)))
        for name, content in files.items():
            file = self._folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self._errors = (self._folder / "engine.log").open("w+b")
        self._lines = Lines()
        self._ray_before = _ray_cpu_us()
        with _hearing_ctrl_c():
            self._process = subprocess.Popen(
                [str(self._engine.path), *AWAITING, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self._folder,
                env=without_libpq(os.environ) | dict(environment),
                start_new_session=True,
            )
        threading.Thread(target=self._read, args=(self._process, self._lines, self._folder), daemon=True).start()

    def start(self, epoch_us: int) -> None:
        """Set the engine's start by this host's clock."""
        self._send(f"start {epoch_us}\n".encode())

    def listen(self, wait_s: float) -> EngineOutput:
        """Renews the lease, and waits up to `wait_s` for output."""
        self._send(RENEWAL)
        lines, all_taken = self._lines.take(wait_s)
        process = self._process
        if process is None or not all_taken:
            return EngineOutput(lines, None, "")
        return EngineOutput(lines, process.wait(), self._stderr_text())

    def interrupt(self) -> None:
        self._note()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def ray_cpu_us(self) -> dict[str, int]:
        """Return the CPU time of Ray's processes on this node since the engine's start."""
        now = _ray_cpu_us()
        return {name: max(0, now[name] - self._ray_before[name]) for name in now}

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(GONE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _note(self) -> None:
        self._spoken_to = time.monotonic()
        self._news.set()

    def _is_alone(self) -> bool:
        self._news.clear()
        return time.monotonic() - self._spoken_to > LEASE_S and not self._news.wait(ALONE_S)

    def _send(self, line: bytes) -> None:
        self._note()
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except (BrokenPipeError, ValueError):
            # it has ended: the next answer reports that
            return

    def _read(self, process: subprocess.Popen[bytes], lines: Lines, folder: Path) -> None:
        assert process.stdout is not None
        with process.stdout as said:
            for line in said:
                lines.add(line)
        lines.end()
        process.wait()
        # the driver may never return to do it; the engine's output stays readable
        shutil.rmtree(folder, ignore_errors=True)
        if self._is_process and self._is_alone():
            # Ray would keep it for longer; a driver that was only cut off starts another one
            os._exit(0)

    def _stderr_text(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")


@contextmanager
def _hearing_ctrl_c() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ray_cpu_us() -> dict[str, int]:
    return tree_cpu_us(os.getppid())


CLIENTS, PHASES, LUA = "--client=", "--phases=", "--lua="
OURS = frozenset({"--parent-lease"})
"""Options that each generator sets itself."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all generators of a load have in common."""

    clients: int
    options: list[str]
    files: dict[str, bytes]
    """Contents by the file's path as the engine sees it."""
    names: Mapping[str, str]
    """The user's names of these files."""

    def part(self, number: int, of: int) -> list[str]:
        """Return the options of generator `number`, counted from 1."""
        return [f"--part={number}/{of}", *self.options]


def shared_out(options: Sequence[str], folder: Path) -> Shared:
    """Return what generators need for the engine's `options`; read files from `folder`. Raises OSError, EngineError."""
    sent_options: list[str] = []
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    clients = 1

    def sent(path: str) -> str:
        name = f"{len(files)}-{Path(path).name}"
        files[name] = (folder / path).read_bytes()
        names[name] = path
        return name

    rest = iter(options)
    for option in rest:
        if option == "-f":
            path, at, weight = next(rest).rpartition("@")
            path, weight = (path, f"@{weight}") if at else (weight, "")
            sent_options += ["-f", sent(path) + weight]
        elif option.startswith(PHASES):
            sent_options.append(PHASES + sent(option.removeprefix(PHASES)))
        elif option.startswith(LUA):
            name = option.removeprefix(LUA)
            lua = lua_files(name, folder)
            files.update(lua.files)
            names[lua.script] = name
            sent_options.append(LUA + lua.script)
        elif option not in OURS:
            sent_options.append(option)
            if option.startswith(CLIENTS):
                clients = int(option.removeprefix(CLIENTS))
    return Shared(clients, sent_options, files, names)
