"""A generator on this machine: an engine as a process of its own."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from pgdyno import __version__
from pgdyno.doctor.generator import plain_ceiling
from pgdyno.doctor.round_trips import Trips, round_trips
from pgdyno.generators.generator_protocol import AWAITING, GONE_S, RENEWAL, EngineOutput, Lines
from pgdyno.generators.shared_load import Share
from pgdyno.host import boot_id, describe_host
from pgdyno.programs import Engine, end_process
from pgdyno.run.process import without_libpq


class LocalGenerator:
    """See `generator_protocol.Standing`. Its engine ends with this process, or by its lease."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self._engine = name, engine
        host = describe_host()
        self.facts: Mapping[str, Any] = {
            "host": os.uname().nodename,
            "boot": boot_id(),
            "cores": host.cores,
            "cpu_model": host.cpu_model,
            "pgdyno": __version__,
            "pgdrive": engine.version,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._lines = Lines()

    def clock_us(self) -> int:
        return time.time_ns() // 1000

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        return plain_ceiling(self._engine, len(os.sched_getaffinity(0)), protocol, clients, seconds)

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        return round_trips(self._engine, environment, protocol)

    def begin(self, share: Share, environment: Mapping[str, str]) -> None:
        self.end()
        self._errors, self._lines = tempfile.TemporaryFile(), Lines()  # noqa: SIM115 - `end` closes it
        self._process = subprocess.Popen(
            [str(self._engine.path), *AWAITING, *share.options_here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=share.folder,
            env=without_libpq(os.environ) | dict(environment),
            start_new_session=True,
        )
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()

    def start(self, epoch_us: int) -> None:
        self._send(f"start {epoch_us}\n".encode())

    def listen(self, wait_s: float) -> EngineOutput:
        self._send(RENEWAL)
        lines, all_taken = self._lines.take(wait_s)
        if self._process is None or self._errors is None or not all_taken:
            return EngineOutput(lines, None, "")
        code = self._process.wait()
        self._errors.seek(0)
        return EngineOutput(lines, code, self._errors.read().decode(errors="replace"))

    def interrupt(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_process(process, GONE_S, signal.SIGINT)
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def abandon(self) -> None:
        self.end()

    def _send(self, line: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # an engine that has ended reads no input: the next output reports its end
        with suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line)
            self._process.stdin.flush()


def _read(process: subprocess.Popen[bytes], lines: Lines) -> None:
    assert process.stdout is not None
    with process.stdout as said:
        for line in said:
            lines.add(line)
    lines.end()
