"""Relays between clients and a server that stop answering, or answer from memory."""

import socket
import struct
import threading
from collections import defaultdict
from contextlib import suppress
from typing import Self

from tests.listening import end_accepting

RECEIVE_BYTES = 65536


class Relay:
    """Relays connections from its own loopback port, and keeps the first bytes of each client."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.is_silent = False
        """Whether connections that are made from now on get no answer."""
        self.relayed: list[tuple[socket.socket, socket.socket]] = []
        self.unanswered: list[socket.socket] = []
        self.first_bytes: dict[socket.socket, bytes] = {}
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def silence_one(self) -> None:
        """Closes one connection; connections made later get no answer."""
        self.is_silent = True
        client, server = self.relayed[-1]
        # a reset, as from a host that has restarted
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        shut_down(server)

    def cut(self) -> None:
        """Closes all connections; later ones are relayed."""
        for pair in self.relayed:
            shut_down(*pair)

    def close(self) -> None:
        end_accepting(self.listener, self._accepting)
        self.listener.close()
        for one in (*self.unanswered, *(end for pair in self.relayed for end in pair)):
            shut_down(one)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.is_silent:
                    self.unanswered.append(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self.relayed.append((client, server))
                for source in (client, server):
                    threading.Thread(target=self._pass_on, args=(source, client, server), daemon=True).start()

    def _pass_on(self, source: socket.socket, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(RECEIVE_BYTES):
                if source is client:
                    self.hear(data, client, server)
                else:
                    self.answer(data, client)
        self.end(client, server)

    def hear(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        self.first_bytes.setdefault(client, data)
        server.sendall(data)

    def answer(self, data: bytes, client: socket.socket) -> None:
        client.sendall(data)

    def end(self, client: socket.socket, server: socket.socket) -> None:
        shut_down(client, server)


def shut_down(*ends: socket.socket) -> None:
    for each in ends:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class CachingProxy(Relay):
    """Answers a message of the simple protocol that contains `marker`, and was sent before, from memory."""

    def __init__(self, server_port: int, marker: bytes) -> None:
        self.marker = marker
        self.kept: dict[bytes, bytes] = {}
        self.asked: dict[socket.socket, bytes] = {}
        self.answers: dict[socket.socket, bytes] = defaultdict(bytes)
        super().__init__(server_port)

    def hear(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        answer = self.answers.pop(client, b"")
        if client in self.asked:
            self.kept[self.asked.pop(client)] = answer
        if data in self.kept:
            client.sendall(self.kept[data])
            return
        if data[:1] == b"Q" and self.marker in data:
            self.asked[client] = data
        server.sendall(data)

    def answer(self, data: bytes, client: socket.socket) -> None:
        self.answers[client] += data
        client.sendall(data)


class SilentProxy(Relay):
    """Relays until a client sends `trigger`: afterwards the sessions of all clients, including new ones, get no answer,
    or if it is not `whole`, only the session that sent it.
    """

    def __init__(self, server_port: int, trigger: bytes, *, whole: bool = True) -> None:
        self.trigger, self.whole = trigger, whole
        self.silent = threading.Event()
        self.muted: set[socket.socket] = set()
        super().__init__(server_port)

    def hear(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        if self.trigger in data and not self.silent.is_set():
            self.is_silent = self.whole
            self.muted.add(client)
            self.silent.set()
        if not self.is_muted(client):
            server.sendall(data)

    def answer(self, data: bytes, client: socket.socket) -> None:
        if not self.is_muted(client):
            client.sendall(data)

    def end(self, client: socket.socket, server: socket.socket) -> None:
        # a session that gets no answer does not hear of the end of the other side either
        if client not in self.muted:
            shut_down(client, server)

    def is_muted(self, client: socket.socket) -> bool:
        return self.is_silent or client in self.muted
