"""The server process of a run: `python -m pgdyno.live.server.background_server RUN` prints its address, and serves."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import uvicorn

from pgdyno.errors import UsageError
from pgdyno.live.app import Access, make_app
from pgdyno.live.control import is_running
from pgdyno.live.server.web_server import Address, config_of, url_of

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

    def asked(self) -> None:
        self._used = self._clock()

    def may_end(self) -> bool:
        """Return whether the server may end; polled."""
        if self._watching() or is_running(self._run):
            self._used = self._clock()
        return self._clock() - self._used > IDLE_S


def serve_in_background(run: Path) -> str | None:
    """Start a server for the folder of `run` as a separate process, and return its address.

    None if it could not be started.
    """
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


NICER = 10
"""Lower priority, so that measurements are not disturbed."""


def main(run: Path) -> None:
    """Serve `run` on the loopback address, on the usual port or a free one."""
    os.nice(NICER)
    try:
        listening = Address().listen()
    except UsageError:
        listening = Address(port=0).listen()
    with listening:
        app = make_app(run.parent, Access())
        idle = Idle(run, lambda: app.state.hub.watching)
        server = uvicorn.Server(config_of(app))
        print(f"{url_of(listening)}/live/{quote(run.name)}", flush=True)
        # the process that started it may have ended
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the rest of the process
        with suppress(KeyboardInterrupt, SystemExit):
            asyncio.run(_serve(server, listening, idle))


async def _serve(server: uvicorn.Server, listening: socket.socket, idle: Idle) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    seen = 0
    while not serving.done():
        await asyncio.wait([serving], timeout=LOOK_S)
        if server.server_state.total_requests != seen:
            seen = server.server_state.total_requests
            idle.asked()
        if idle.may_end():
            server.should_exit = True
    await serving


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
