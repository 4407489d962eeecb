"""Ports for the servers of tests, which no other process gets, whether or not the server runs.

A port that is merely free may soon be used by another test. These ports stay bound by a socket that does not listen.
PostgreSQL and sshd can still listen on them, because they set SO_REUSEADDR, and the kernel does not choose them for
other programs.
"""

import os
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


def reserve_port(owner: object, address: str = LOOPBACK) -> int:
    with _bound(address) as holder:
        port: int = holder.getsockname()[1]
        weakref.finalize(owner, os.close, holder.detach())
    return port


@contextmanager
def reserved_port() -> Iterator[int]:
    with _bound(LOOPBACK) as holder:
        yield holder.getsockname()[1]


def _bound(address: str) -> socket.socket:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((address, 0))
    return holder
