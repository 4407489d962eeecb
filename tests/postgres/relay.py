"""A relay between clients and a server that can stop answering."""

import contextlib
import socket
import struct
import threading

from tests.listening import end_accepting

RECEIVE_BYTES = 65536


class Relay:
    """Relays connections from its own loopback port, and keeps the first bytes of each client (`firsts`)."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.is_silent = False
        self.relayed: list[tuple[socket.socket, socket.socket]] = []
        self.unanswered: list[socket.socket] = []
        self.firsts: list[bytes] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def silence_one(self) -> None:
        """Closes one connection; connections made later get no answer."""
        self.is_silent = True
        client, server = self.relayed[-1]
        # a reset, as from a host that has restarted
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Closes all connections; later ones are relayed."""
        for end in (end for pair in self.relayed for end in pair):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stops listening, and closes all connections."""
        end_accepting(self.listener, self._accepting)
        self.listener.close()
        for one in (*self.unanswered, *(end for pair in self.relayed for end in pair)):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.is_silent:
                    self.unanswered.append(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self.relayed.append((client, server))
                threading.Thread(target=self._hear, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    def _hear(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            first = client.recv(RECEIVE_BYTES)
            self.firsts.append(first)
            server.sendall(first)
        self._pass_on(client, server)

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(RECEIVE_BYTES):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
