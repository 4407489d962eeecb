"""Runs the server until it is stopped."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from pgdyno.live.address import Address, url_of
from pgdyno.live.app import LOOPBACK_NAMES, Access, make_app
from pgdyno.live.connections import BoundedProtocol
from pgdyno.live.guard import ENTER, new_token

CLOSE_S = 2
"""How long answers in progress may take at the end."""


def serve(runs: Path, address: Address, notify: Callable[[str], None]) -> None:
    """Serve the folder `runs` on `address` until Ctrl-C or SIGTERM; `notify` receives the address.

    Raises UsageError if the address is not available.
    """
    with address.listen() as listening:
        access = access_of(address)
        url = url_of(listening)
        notify(url if access.token is None else f"{url}{ENTER}#{access.token}")
        app = make_app(runs, access)
        threading.Thread(target=app.state.archive.read_ahead, daemon=True).start()
        server = uvicorn.Server(config_of(app))
        # this is the normal way to end
        with suppress(KeyboardInterrupt, SystemExit):
            server.run(sockets=[listening])


def access_of(address: Address) -> Access:
    """Return a token for every address except the loopback one."""
    if address.is_loopback:
        return Access()
    names = {*LOOPBACK_NAMES, address.host, socket.gethostname(), socket.getfqdn()}
    return Access(token=new_token(), names=tuple(names))


def config_of(app: Starlette) -> uvicorn.Config:
    # no log of requests, because their addresses may contain secrets
    return uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_S,
        ws="none",
        http=BoundedProtocol,
    )
