"""Limits for servers that do not answer: before one is known to be PostgreSQL, and when one falls silent.

Before a server is known to be PostgreSQL, the time and the size of its answers are limited. libpq has no such limit: it
keeps a whole result in memory, and it computes the proof of a password with as many iterations as the server requests,
without checking the time or signals.

A statement such as VACUUM or CREATE DATABASE may take hours, so statements have no time limit. If no answer has come
for `ANSWER_S`, another session asks the server what the first one does, to tell a long statement from a silent server.
"""

import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from pgdyno.errors import TargetError
from pgdyno.signals_and_exit import CONNECT_THREAD
from pgdyno.units import format_bytes

_T = TypeVar("_T")

ANSWER_S = 60.0
"""The time limit for answers to queries before a run, which take milliseconds."""
ANSWER_BYTES = 64 << 20
"""The size limit for the answer to a statement; pg_settings takes 100 kB."""
_BYTES_RECEIVED = struct.Struct("=128xQ")
"""Reads tcpi_bytes_received from Linux's struct tcp_info."""
_ASK_EVERY_S = 0.1
CANCEL_S = 5.0
"""How long a server may take to cancel a statement that a signal ends."""
_MOST_REFUSALS = 10
"""The limit of consecutive refused checks: a fully loaded server refuses new sessions until its load ends."""
HINT = "check the server, its host and the network path"


@contextmanager
def limit_answers(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Close the connection if the server exceeds `ANSWER_S` in the block, or `ANSWER_BYTES` in one answer.

    Raises TargetError in this case, and for answers that the block cannot interpret.
    """
    # `direct_session` opens no others
    assert isinstance(connection, WatchedConnection)
    connection.answers_until = time.monotonic() + ANSWER_S
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
        # rows with other columns, types or encodings than those of any PostgreSQL
        raise TargetError(f"the server does not answer as PostgreSQL does: {error or type(error).__name__}") from error
    finally:
        connection.answers_until = math.inf


class Look(Enum):
    """The finding of another session."""

    WORKS = "the server answers, and the session works or cannot be seen"
    IDLE = "the server answers, and the session waits for pgdyno"
    REFUSED = "the server rejects new connections"
    SILENT = "the server does not answer"


class SilentServerError(TargetError):
    """A server that answered before has stopped answering."""


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that closes when its server falls silent, or answers without end."""

    look: Callable[[int], Look] | None = None
    """Asks the server for the state of the session with this process number; None before it is known how."""
    answers_until = math.inf
    """When all answers must have come, in seconds of the monotonic clock."""

    def wait(self, gen: PQGen[_T], interval: float = _ASK_EVERY_S, timeout: float | None = None) -> _T:
        """Wait as psycopg does. Raises SilentServerError if no answer comes, or one without an end."""
        return super().wait(self._watch_reads(gen), interval, timeout)

    def _watch_reads(self, gen: PQGen[_T]) -> PQGen[_T]:
        """Return `gen` with checks where psycopg resumes it: when the socket is ready, and every `interval`."""
        pid, before = self.info.backend_pid, self._received_bytes()
        quiet = Quiet(lambda: Look.WORKS if self.look is None else self.look(pid))
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                reason = None
                if ready:
                    quiet.renew()
                    # at each read: on a busy machine, one is of many MiB
                    if self._received_bytes() - before > ANSWER_BYTES:
                        reason = f"the server answered one statement with more than {format_bytes(ANSWER_BYTES)}"
                else:
                    reason = quiet.reason()
                if time.monotonic() > self.answers_until:
                    reason = f"the server did not answer what pgdyno asked within {ANSWER_S:g} s"
                if reason is not None:
                    self.pgconn.finish()
                    raise SilentServerError(reason, hint=HINT)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result
        except (KeyboardInterrupt, SystemExit):
            # psycopg could not continue with the statement
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=CANCEL_S)
            self.pgconn.finish()
            raise

    def _received_bytes(self) -> int:
        """Return the bytes received over TCP; 0 through a Unix socket, whose server is on this host."""
        with socket.socket(fileno=os.dup(self.fileno())) as own, suppress(OSError, struct.error):
            (received,) = _BYTES_RECEIVED.unpack(
                own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
            )
            return int(received)
        return 0


def connected_within(limit_s: float | None, connect: Callable[[], WatchedConnection]) -> WatchedConnection:
    """Return the result of `connect` or raise its exception. Raises TimeoutError after `limit_s`; None sets no limit.

    `connect` runs in a thread, so that signals interrupt the wait, and pgdyno's exit does not wait for it; a connection
    that arrives too late is closed.
    """
    future: Future[WatchedConnection] = Future()

    def run() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=CONNECT_THREAD, daemon=True).start()
    try:
        return future.result(limit_s)
    except BaseException:
        future.add_done_callback(_close_late)
        raise


def _close_late(future: Future[WatchedConnection]) -> None:
    if future.exception() is None:
        future.result().close()


class Quiet:
    """Measures for how long nothing was received, and checks the server once that exceeds `ANSWER_S`."""

    def __init__(self, look: Callable[[], Look]) -> None:
        """The time counts from now; `look` may take as long as a connection and an answer may."""
        self._look = look
        self._last: list[Look] = []
        self.renew()

    def renew(self) -> None:
        self._since = time.monotonic()
        self._last = []

    def reason(self) -> str | None:
        """Return why no answer can be expected, or None. Checks the server when it is time."""
        if time.monotonic() - self._since < ANSWER_S:
            return None
        found = self._look()
        self._last = [*(each for each in self._last if each is found), found]
        limit = f"within {ANSWER_S:g} s"
        if found is Look.SILENT:
            return f"the server stopped responding: it answers neither the last statement nor a new session {limit}"
        if found is Look.IDLE and len(self._last) > 1:
            return f"the answer to a statement did not come {limit}, and the server's session waits for the next one"
        if len(self._last) >= _MOST_REFUSALS and found is Look.REFUSED:
            return f"the server did not answer the last statement {limit}, and refuses new sessions"
        self._since = time.monotonic()
        if found is Look.IDLE:
            # the answer may have been sent just now
            self._since -= 0.9 * ANSWER_S
        return None
