"""What works on the host of a generator: starts pgdrive, hands on what it says, and lets it go on only while asked.

Everything here is called from the driver's machine, through Ray. A call of `listen` is heartbeat, renewal of the
lease and delivery in one: an engine whose driver is gone, frozen or cut off hears nothing more and stops by itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from pgdyno import __version__
from pgdyno.cluster.heard import AWAITING, GONE_S, LEASE_S, RENEWAL, Heard, Lines
from pgdyno.cluster.processes import tree_cpu_us
from pgdyno.cluster.requirements import NODE_FOLDER
from pgdyno.doctor.generator import Trips, plain_ceiling, round_trips
from pgdyno.host import boot_id, describe_host
from pgdyno.programs import find_engine
from pgdyno.run.process import without_libpq

ALONE_S = 3.0
"""The margin for a late driver, in addition to the lease of its engine."""


class Agent:
    """The host of one generator."""

    def __init__(self, *, is_process: bool = False) -> None:
        """Finds the engine; with `is_process`, this process ends when its driver has gone. Raises EngineError."""
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
        """Returns facts about this host."""
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
        """Returns this host's wall clock in microseconds since 1970."""
        self._note()
        return time.time_ns() // 1000

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        """Returns the engine's transactions per second against a null server. Raises EngineError."""
        return plain_ceiling(self._engine, len(os.sched_getaffinity(0)), protocol, clients, seconds)

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        """Measures round trips to the server of `environment`. Raises EngineError."""
        return round_trips(self._engine, environment, protocol)

    def begin(self, options: Sequence[str], environment: Mapping[str, str], files: Mapping[str, bytes]) -> None:
        """Starts the engine with `files` in its folder, after ending a previous one."""
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
        """Sets the engine's start by this host's clock."""
        self._say(f"start {epoch_us}\n".encode())

    def listen(self, wait_s: float) -> Heard:
        """Renews the lease, and waits up to `wait_s` for output."""
        self._say(RENEWAL)
        lines, all_told = self._lines.take(wait_s)
        process = self._process
        if process is None or not all_told:
            return Heard(lines, None, "")
        return Heard(lines, process.wait(), self._said())

    def interrupt(self) -> None:
        """Stops the engine with SIGINT: it still reports its results."""
        self._note()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def ray_cpu_us(self) -> dict[str, int]:
        """Returns the CPU time of Ray's processes on this node since the engine's start."""
        now = _ray_cpu_us()
        return {name: max(0, now[name] - self._ray_before[name]) for name in now}

    def end(self) -> None:
        """Ends the engine, if it runs, and removes its files."""
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
        """Records contact with the driver."""
        self._spoken_to = time.monotonic()
        self._news.set()

    def _is_alone(self) -> bool:
        """Tells whether the engine's lease ran out without a driver to collect the results."""
        self._news.clear()
        return time.monotonic() - self._spoken_to > LEASE_S and not self._news.wait(ALONE_S)

    def _say(self, line: bytes) -> None:
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

    def _said(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")


@contextmanager
def _hearing_ctrl_c() -> Iterator[None]:
    """Lets processes that the block starts receive SIGINT, which Ray blocks and children inherit."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ray_cpu_us() -> dict[str, int]:
    """Returns the CPU time of this node's Ray daemon and its other children; this process is one of them."""
    return tree_cpu_us(os.getppid())
