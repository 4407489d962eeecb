"""A proxy that stops answering once a client sends a given text."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.listening import end_accepting


@dataclass
class SilentProxy:
    """Relays between clients and the server until a client sends `trigger`; afterwards it only accepts connections."""

    server_port: int
    trigger: bytes
    whole: bool
    """Whether all sessions, including new ones, become silent, or only the session that sent `trigger`."""
    listener: socket.socket
    silent: threading.Event = field(default_factory=threading.Event)
    """Set once it is silent."""
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
                self.sockets += [client, server]
                mute = threading.Event()
                for source, drain, watched in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self.pass_on, args=(source, drain, mute, watched), daemon=True).start()

    def pass_on(self, source: socket.socket, drain: socket.socket, mute: threading.Event, watched: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if watched and self.trigger in data and not self.silent.is_set():
                    self.silent.set()
                    mute.set()
                if not mute.is_set() and not (self.whole and self.silent.is_set()):
                    drain.sendall(data)
            if not mute.is_set():
                drain.shutdown(socket.SHUT_WR)


@contextmanager
def silent_proxy(server_port: int, trigger: bytes, *, whole: bool = True) -> Iterator[SilentProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = SilentProxy(server_port, trigger, whole, listener)
        accepting = threading.Thread(target=proxy.serve, daemon=True)
        accepting.start()
        try:
            yield proxy
        finally:
            end_accepting(listener, accepting)
            for each in proxy.sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
