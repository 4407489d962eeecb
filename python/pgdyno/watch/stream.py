"""Runs pgprobe and reads its lines as they arrive."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from pgdyno.errors import EngineError
from pgdyno.programs import locate
from pgdyno.watch.bucket import Line

STOP_S = 3.0


class ProbeStream:
    """A pgprobe that runs until the block ends."""

    def __init__(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        """`environment` is added to this process's: it carries a password, which `options` never do."""
        self._command = [str(locate("pgprobe", "PGDYNO_PGPROBE", "the probe")), "--parent-lease", *options]
        self._environment = environment
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._origin: float | None = None

    def __enter__(self) -> ProbeStream:
        """Start it. Raises EngineError."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._environment},
                # Ctrl-C is for pgdyno
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"the probe could not be started: {error}") from error
        self._thread = threading.Thread(target=self._read, name="watch-probe", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def lines(self) -> list[Line]:
        """Return the lines since the last call. Raises EngineError if it has ended by itself."""
        over = not self._thread.is_alive()
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        if over and not lines:
            raise EngineError(f"the probe ended with exit code {self._process.wait()}{self._said()}")
        return lines

    @property
    def now_s(self) -> float:
        """Return the estimated seconds since the probe's start."""
        return 0.0 if self._origin is None else time.monotonic() - self._origin

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                # truncated, as after a kill
                continue
            if self._origin is None:
                self._origin = time.monotonic() - line["t_us"] / 1e6
            self._lines.put(line)

    def _said(self) -> str:
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return f": {said[-1]}" if said else ""
