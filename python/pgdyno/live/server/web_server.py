"""The web server: its address, its limits of connections, and its life until it is told to stop.

uvicorn waits indefinitely for a request and for the reader of an answer, and does not count connections by address.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from pgdyno.errors import ExitCode, UsageError
from pgdyno.live.app import LOOPBACK_NAMES, Access, make_app
from pgdyno.live.server.request_guard import ENTER, new_token
from pgdyno.signals_and_exit import leave_at_once

MOST, MOST_EACH = 256, 64
"""Connections in total, and from one address: a browser opens six."""
REQUEST_S = 10.0
"""From the start of a connection, or a request's first byte, to the end of the request."""
STALLED_S = 60.0
"""How long an answer may wait for a client that does not read."""
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"Too many connections: close some pages.\n"
)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol with these limits."""

    _request_timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        every = [each.client for each in self.connections if isinstance(each, BoundedProtocol) and each.client]
        same = sum(self.client is not None and each[0] == self.client[0] for each in every)
        if len(self.connections) > MOST or same > MOST_EACH:
            transport.write(_BUSY)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._unset_stalled()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._unset_stalled()
        super().resume_writing()

    def _unset_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch(self) -> None:
        if not self._is_incomplete():
            self._cancel_timer()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self._close_if_incomplete)

    def _is_incomplete(self) -> bool:
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _close_if_incomplete(self) -> None:
        self._request_timer = None
        if self._is_incomplete() and not self.transport.is_closing():
            self.transport.close()

    def _cancel_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None


PORT = 8432
LOOPBACK = "127.0.0.1"
_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<v4>[^:\s\[\]]+))?(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 means any free one."""

    host: str = LOOPBACK
    port: int = PORT

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @classmethod
    def parse(cls, text: str | None) -> Address:
        """Parse `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT` or `:PORT`; None is loopback. Raises UsageError."""
        match = _LISTEN.fullmatch(text or "")
        if match is None or int(match["port"] or 0) > 65_535:
            raise UsageError(f"{text!r} is not an address to listen on", hint="write it as 192.0.2.7:8432, or :8432")
        port = PORT if match["port"] is None else int(match["port"])
        return cls(match["v6"] or match["v4"] or LOOPBACK, port)

    def listen(self) -> socket.socket:
        """Return a listening socket. Raises UsageError if the address is not available."""
        try:
            kind, _, _, _, where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(kind, socket.SOCK_STREAM)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(where)
                listening.listen(128)
            except OSError:
                listening.close()
                raise
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            hint = "--listen needs an address of this machine; use :PORT for another port, :0 for any free one"
            if error.errno == errno.EADDRINUSE:
                hint = "another pgdyno may be running there; use --listen :PORT for another port, :0 for any free one"
            raise UsageError(f"cannot listen on {self.host}:{self.port}: {why}", hint=hint) from error
        return listening


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        # no other machine can open 0.0.0.0
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
        threading.Thread(target=app.state.stored.read_ahead, daemon=True).start()
        server = _Server(config_of(app))
        # this is the normal way to end
        with suppress(KeyboardInterrupt, SystemExit):
            server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server whose end waits for no report in progress: these take up to 20 s, and nobody waits for them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # it would print that it cancels requests
        logging.getLogger("uvicorn.error").disabled = True
        await super().shutdown(sockets)
        leave_at_once(ExitCode.OK)


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
