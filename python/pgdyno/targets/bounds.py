"""Bounds for what a server may do to pgdyno before it is known to be one: how long, and how much, it answers.

libpq has none: it keeps a whole result in memory, and it computes a password's proof with as many iterations as the
server names, without looking at the clock or at signals.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from pgdyno.errors import TargetError
from pgdyno.units import format_bytes

ANSWER_S = 60.0
"""How long a server may take for what is asked before a run, which takes milliseconds."""
ANSWER_BYTES = 64 << 20
"""How much it may send meanwhile; what is asked has few rows, and pg_settings are 100 kB."""
_LOOK_EVERY_S = 0.05
_BYTES_RECEIVED = struct.Struct("=128xQ")
"""Of Linux's struct tcp_info, up to tcpi_bytes_received."""


@contextmanager
def answering(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Cuts the connection when the server exceeds `ANSWER_S` or `ANSWER_BYTES` in the block.

    Raises TargetError then, and when what it answers makes no sense in the block.
    """
    over = threading.Event()
    excess: list[str] = []
    own = socket.socket(fileno=os.dup(connection.fileno()))
    watcher = threading.Thread(target=_watch, args=(own, over, excess), name="answer bounds", daemon=True)
    watcher.start()
    try:
        yield
    except psycopg.Error as error:
        if excess:
            raise TargetError(excess[0]) from error
        raise
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
        # rows of other columns, types or encodings than every PostgreSQL gives
        raise TargetError(
            f"the server does not answer as a PostgreSQL does: {error or type(error).__name__}"
        ) from error
    finally:
        over.set()


def _watch(own: socket.socket, over: threading.Event, excess: list[str]) -> None:
    """Shuts the socket down when there is too much; why is in `excess` before that."""
    end = time.monotonic() + ANSWER_S
    with own:
        before = received(own)
        while not over.wait(min(_LOOK_EVERY_S, ANSWER_S)):
            if received(own) - before > ANSWER_BYTES:
                excess.append(f"the server answered with more than {format_bytes(ANSWER_BYTES)} what takes a few rows")
            elif time.monotonic() > end:
                excess.append(f"the server did not answer what pgdyno asked within {ANSWER_S:g} s")
            else:
                continue
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
            return


def received(own: socket.socket) -> int:
    """Bytes, of a TCP connection; 0 of a socket in the file system, which is a server's on this host."""
    try:
        (received,) = _BYTES_RECEIVED.unpack(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size))
    except (OSError, struct.error):
        return 0
    return int(received)


def connected_within(
    limit_s: float | None, connect: Callable[[], psycopg.Connection[tuple[Any, ...]]]
) -> psycopg.Connection[tuple[Any, ...]]:
    """What `connect` returns, or raises. Raises TimeoutError after `limit_s`, None being for ever.

    It runs in a thread, so that signals interrupt the wait, and pgdyno does not wait for it when it ends; a connection
    that comes too late is closed.
    """
    future: Future[psycopg.Connection[tuple[Any, ...]]] = Future()

    def run() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="connect", daemon=True).start()
    try:
        return future.result(limit_s)
    except BaseException:
        future.add_done_callback(_close_late)
        raise


def _close_late(future: Future[psycopg.Connection[tuple[Any, ...]]]) -> None:
    if future.exception() is None:
        future.result().close()
