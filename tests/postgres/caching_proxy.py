"""A proxy that keeps the results of queries."""

import contextlib
import socket
from collections import defaultdict

from tests.postgres.relay import RECEIVE_BYTES, Relay


class CachingProxy(Relay):
    """Answers a message of the simple protocol that contains `marker`, and was sent before, from memory."""

    def __init__(self, server_port: int, marker: bytes) -> None:
        self.marker = marker
        self.kept: dict[bytes, bytes] = {}
        self.answers: dict[socket.socket, bytes] = defaultdict(bytes)
        super().__init__(server_port)

    def _hear(self, client: socket.socket, server: socket.socket) -> None:
        asked = b""
        with contextlib.suppress(OSError):
            while data := client.recv(RECEIVE_BYTES):
                if asked:
                    self.kept[asked] = self.answers[client]
                asked, self.answers[client] = b"", b""
                if data in self.kept:
                    client.sendall(self.kept[data])
                    continue
                asked = data if data[:1] == b"Q" and self.marker in data else b""
                server.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:  # type: ignore[override]
        with contextlib.suppress(OSError):
            while data := source.recv(RECEIVE_BYTES):
                self.answers[sink] += data
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
