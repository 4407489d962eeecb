"""Ports for the servers of tests, which nobody else gets, whether the server runs or not.

A port that was merely free may be another test's a moment later. These stay bound, without anybody listening:
PostgreSQL and sshd, which set SO_REUSEADDR, can listen there all the same; a program that asks for any port, or
connects from any, is not given them.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


def reserve_port(owner: object, address: str = LOOPBACK) -> int:
    """A TCP port of that address for as long as `owner` lives."""
    with _bound(address) as holder:
        port: int = holder.getsockname()[1]
        weakref.finalize(owner, os.close, holder.detach())
    return port


@contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port of the loopback address until the block ends."""
    with _bound(LOOPBACK) as holder:
        yield holder.getsockname()[1]


def _bound(address: str) -> socket.socket:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((address, 0))
    return holder
