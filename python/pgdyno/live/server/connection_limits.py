"""Limits of connections: their number, the time for a request to arrive, and for an answer to be read.

uvicorn waits for both indefinitely, and does not count connections by address.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

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

    _late: asyncio.TimerHandle | None = None
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
        self._unset_late()
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
        """The timer runs from the first byte, however slowly others follow, to the last."""
        if not self._is_incomplete():
            self._unset_late()
        elif self._late is None:
            self._late = self.loop.call_later(REQUEST_S, self._close_late)

    def _is_incomplete(self) -> bool:
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _close_late(self) -> None:
        self._late = None
        if self._is_incomplete() and not self.transport.is_closing():
            self.transport.close()

    def _unset_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
