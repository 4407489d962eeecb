"""Limits for servers that do not answer: before one is known to be PostgreSQL, and when one falls silent.

Before a server is known to be PostgreSQL, the time and the size of its answers are limited. libpq has no such limit: it
keeps a whole result in memory, and it computes the proof of a password with as many iterations as the server requests,
without checking the time or signals.

A statement such as VACUUM or CREATE DATABASE may take hours, so statements have no time limit. If no answer has come
for `ANSWER_S`, another session asks the server what the first one does, to tell a long statement from a silent server.
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
from enum import Enum
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from pgdyno.errors import TargetError
from pgdyno.signals_and_exit import CONNECT_THREAD
from pgdyno.units import format_bytes

ANSWER_S = 60.0
"""The time limit for answers to queries before a run, which take milliseconds."""
ANSWER_BYTES = 64 << 20
"""The size limit for these answers, which have few rows; pg_settings takes 100 kB."""
_LOOK_EVERY_S = 0.05
_BYTES_RECEIVED = struct.Struct("=128xQ")
"""Reads tcpi_bytes_received from Linux's struct tcp_info."""


@contextmanager
def answering(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Close the connection if the server exceeds `ANSWER_S` or `ANSWER_BYTES` during the block.

    Raises TargetError in this case, and for answers that the block cannot interpret.
    """
    with _cut_when_excessive(connection) as reasons:
        try:
            yield
        except psycopg.Error as error:
            if reasons:
                raise TargetError(reasons[0]) from error
            raise
        except (ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
            # rows with other columns, types or encodings than those of any PostgreSQL
            raise TargetError(
                f"the server does not answer as PostgreSQL does: {error or type(error).__name__}"
            ) from error


@contextmanager
def _cut_when_excessive(connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[list[str]]:
    over, cut = threading.Event(), threading.Lock()
    reasons: list[str] = []
    end = time.monotonic() + ANSWER_S
    # a duplicate, because psycopg may close its own socket meanwhile
    own = socket.socket(fileno=os.dup(connection.fileno()))

    def excess(size: int) -> str | None:
        if size > ANSWER_BYTES:
            return (
                f"the server sent more than {format_bytes(ANSWER_BYTES)} in answer to a query that returns a few rows"
            )
        if time.monotonic() > end:
            return f"the server did not answer what pgdyno asked within {ANSWER_S:g} s"
        return None

    def watch() -> None:
        with own:
            before = received_bytes(own)
            while not over.wait(min(_LOOK_EVERY_S, ANSWER_S)):
                reason = excess(received_bytes(own) - before)
                if reason is not None:
                    # checked under the lock: a session whose answer has arrived after all stays open
                    with cut, suppress(OSError):
                        if not over.is_set():
                            reasons.append(reason)
                            own.shutdown(socket.SHUT_RDWR)
                    return

    threading.Thread(target=watch, name="answer bounds", daemon=True).start()
    try:
        yield reasons
    finally:
        with cut:
            over.set()


def received_bytes(own: socket.socket) -> int:
    """Return the bytes received on a TCP connection; 0 for a Unix socket, whose server is on this host."""
    try:
        (received,) = _BYTES_RECEIVED.unpack(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size))
    except (OSError, struct.error):
        return 0
    return int(received)


def connected_within(
    limit_s: float | None, connect: Callable[[], psycopg.Connection[tuple[Any, ...]]]
) -> psycopg.Connection[tuple[Any, ...]]:
    """Return the result of `connect` or raise its exception. Raises TimeoutError after `limit_s`; None sets no limit.

    `connect` runs in a thread, so that signals interrupt the wait, and pgdyno's exit does not wait for it; a connection
    that arrives too late is closed.
    """
    future: Future[psycopg.Connection[tuple[Any, ...]]] = Future()

    def run() -> None:
        try:
            future.set_result(connect())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=CONNECT_THREAD, daemon=True).start()
    try:
        return future.result(limit_s)
    except BaseException:
        future.add_done_callback(_close_connection)
        raise


def _close_connection(future: Future[psycopg.Connection[tuple[Any, ...]]]) -> None:
    if future.exception() is None:
        future.result().close()


_T = TypeVar("_T")
_ASK_EVERY_S = 0.1
_READS_A_CHECK = 16
"""Reads of an answer, each of 8 KiB and more, after which its size is checked."""
CANCEL_S = 5.0
"""How long a server may take to cancel a statement that a signal ends."""
_MOST_REFUSALS = 10
"""The limit of consecutive refused checks: a fully loaded server refuses new sessions until its load ends."""
HINT = "check the server, its host and the network path"


class Look(Enum):
    """The finding of another session."""

    WORKS = "the server answers, and the session works or cannot be seen"
    IDLE = "the server answers, and the session waits for pgdyno"
    REFUSED = "the server rejects new connections"
    SILENT = "the server does not answer"

    def if_answered(self) -> Look:
        """Return the finding without the state of the session, for callers that do not use it."""
        return Look.WORKS if self is Look.IDLE else self


class SilentServerError(TargetError):
    """A server that answered before has stopped answering."""


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that closes when its server falls silent, or answers without end."""

    look: Callable[[int], Look] | None = None
    """Asks the server for the state of the session with this process number; None disables the watch."""

    def wait(self, gen: PQGen[_T], interval: float = _ASK_EVERY_S, timeout: float | None = None) -> _T:
        """Wait as psycopg does. Raises SilentServerError if no answer comes, or one without an end."""
        watched = gen if self.look is None else self._watch_reads(gen, self.look)
        return super().wait(watched, interval, timeout)

    def _watch_reads(self, gen: PQGen[_T], look: Callable[[int], Look]) -> PQGen[_T]:
        """Return `gen` with checks where psycopg resumes it: when the socket is ready, and every `interval`."""
        pid, reads, before = self.info.backend_pid, 0, self._received_bytes()
        quiet = Quiet(lambda: look(pid))
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                reason = None
                if ready:
                    quiet.renew()
                    reads += 1
                    if reads % _READS_A_CHECK == 0 and self._received_bytes() - before > ANSWER_BYTES:
                        reason = f"the server answered one statement with more than {format_bytes(ANSWER_BYTES)}"
                else:
                    reason = quiet.reason()
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
        with socket.socket(fileno=os.dup(self.fileno())) as own:
            return received_bytes(own)


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
