"""The end of a listener whose connections a thread accepts."""

import socket
import threading


def end_accepting(listener: socket.socket, accepting: threading.Thread) -> None:
    """Ends `accepting` before the listener is closed.

    Otherwise the thread could accept for the next listener, which gets the descriptor of this one.
    """
    listener.shutdown(socket.SHUT_RDWR)
    accepting.join()
