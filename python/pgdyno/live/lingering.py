"""A server that was started beside a run, and ends by itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.live.running import is_running

IDLE_S = 60.0
"""How long it stays when the run has ended and nobody watches."""
LOOK_S = 2.0


class Idle:
    """Whether a server may end: its run is over, and nobody has watched or asked for a while."""

    def __init__(self, run: Path, watching: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """Beside the run folder `run`; `watching` says how many streams are open."""
        self._run = run
        self._watching = watching
        self._clock = clock
        self._used = clock()

    def asked(self) -> None:
        """A request came."""
        self._used = self._clock()

    def may_end(self) -> bool:
        """Asked now and then."""
        if self._watching() or is_running(self._run):
            self._used = self._clock()
        return self._clock() - self._used > IDLE_S


def serve_beside(run: Path) -> str | None:
    """Starts a server for the folder of `run` that shows it, and goes on without it; its address.

    None when it could not be started.
    """
    command = [sys.executable, "-m", "pgdyno.live.beside", str(run.resolve())]
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for the run: who watches is to see its end
        start_new_session=True,
    )
    assert server.stdout is not None
    with server.stdout:
        address = server.stdout.readline().decode().strip()
    return address or None
