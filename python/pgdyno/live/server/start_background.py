"""A server that is started with a run, and ends by itself."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.live.control import is_running

IDLE_S = 60.0
"""How long it runs after the run has ended without viewers."""
LOOK_S = 2.0


class Idle:
    """Decides whether a server may end: its run has ended, and there were no viewers or requests for a while."""

    def __init__(self, run: Path, watching: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """`watching` returns the number of open streams of `run`."""
        self._run = run
        self._watching = watching
        self._clock = clock
        self._used = clock()

    def note_request(self) -> None:
        self._used = self._clock()

    def may_end(self) -> bool:
        """Return whether the server may end; polled."""
        if self._watching() or is_running(self._run):
            self._used = self._clock()
        return self._clock() - self._used > IDLE_S


def serve_in_background(run: Path) -> str | None:
    """Start a server for the folder of `run` as a process, and return its address; None if it does not start."""
    command = [sys.executable, "-m", "pgdyno.live.server.background_server", str(run.resolve())]
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for the run: viewers should see its end
        start_new_session=True,
    )
    assert server.stdout is not None
    with server.stdout:
        address = server.stdout.readline().decode().strip()
    return address or None
