"""The server process of a run: `python -m pgdyno.live.server.background_server RUN` prints its address, and serves."""

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import uvicorn

from pgdyno.errors import UsageError
from pgdyno.live.app import Access, make_app
from pgdyno.live.server.start_background import LOOK_S, Idle
from pgdyno.live.server.web_server import Address, config_of, url_of

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
            idle.note_request()
        if idle.may_end():
            server.should_exit = True
    await serving


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
