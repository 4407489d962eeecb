"""Servers in threads of a test, and the end of a listener whose connections a thread accepts."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Serves requests in a thread until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def end_accepting(listener: socket.socket, accepting: threading.Thread) -> None:
    """Ends `accepting` before the listener is closed.

    Otherwise the thread could accept for the next listener, which gets the descriptor of this one.
    """
    listener.shutdown(socket.SHUT_RDWR)
    accepting.join()
