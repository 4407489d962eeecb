"""Tells a server that works for long from one that has fallen silent.

A statement such as VACUUM or CREATE DATABASE may take hours, so that none has a limit of its own. When an answer has
not come for `bounds.ANSWER_S`, another session asks the server what the first one does.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from pgdyno.errors import TargetError
from pgdyno.targets import bounds
from pgdyno.units import format_bytes

_T = TypeVar("_T")
_LOOK_EVERY_S = 0.1
_MOST_REFUSALS = 10
"""Looks in a row: a server whose sessions are all taken refuses them for as long as its load runs."""
HINT = "see whether the server, its host and the network path still work"


class Look(Enum):
    """What another session found out."""

    WORKS = "the server answers, and the session works or cannot be seen"
    IDLE = "the server answers, and the session waits for us"
    REFUSED = "the server lets nobody in"
    SILENT = "the server does not answer"

    def if_answered(self) -> Look:
        """For who does not care what the session does."""
        return Look.WORKS if self is Look.IDLE else self


class SilentServerError(TargetError):
    """A server that answered before, and no longer does."""


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A session that is cut when its server has fallen silent, or answers without an end."""

    look: Callable[[int], Look] | None = None
    """What the session of this process of the server does; None: nobody watches."""

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        """As psycopg. Raises SilentServerError when an answer does not come."""
        with self._watched():
            return super().wait(gen, interval, timeout)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        if self.look is None:
            yield
            return
        over, cut = threading.Event(), threading.Lock()
        reasons: list[str] = []
        # of our own: psycopg may close its socket meanwhile
        own = socket.socket(fileno=os.dup(self.fileno()))
        arguments = (own, self.info.backend_pid, self.look, over, cut, reasons)
        threading.Thread(target=_watch, args=arguments, name="silence", daemon=True).start()
        try:
            yield
        except psycopg.Error as error:
            if reasons:
                raise SilentServerError(reasons[0], hint=HINT) from error
            raise
        finally:
            with cut:
                over.set()


def _watch(
    own: socket.socket,
    pid: int,
    look: Callable[[int], Look],
    over: threading.Event,
    cut: threading.Lock,
    reasons: list[str],
) -> None:
    """Shuts the socket down when no answer is to be expected; why is in `reasons` before that."""
    with own:
        first = before = bounds.received(own)
        quiet = Quiet(lambda: look(pid))
        while not over.wait(_LOOK_EVERY_S):
            now = bounds.received(own)
            if now != before:
                quiet.heard()
            before = now
            reason = quiet.reason(over)
            if now - first > bounds.ANSWER_BYTES:
                limit = format_bytes(bounds.ANSWER_BYTES)
                reason = f"the server answered one statement with more than {limit}"
            if reason is not None:
                # under the lock: a session whose answer has come after all is not cut
                with cut, suppress(OSError):
                    if not over.is_set():
                        reasons.append(reason)
                        own.shutdown(socket.SHUT_RDWR)
                return


class Quiet:
    """How long nothing was heard, and what looks at the server said of it."""

    def __init__(self, look: Callable[[], Look]) -> None:
        """Begins now; `look` may take as long as a connection and an answer may."""
        self._look = look
        self._last: list[Look] = []
        self.heard()

    def heard(self) -> None:
        """Something came."""
        self._since = time.monotonic()
        self._last = []

    def reason(self, over: threading.Event) -> str | None:
        """Why nothing is to be expected any more; None while there is hope. Looks when it is time."""
        if time.monotonic() - self._since < bounds.ANSWER_S:
            return None
        found = self._look()
        self._last = [*(each for each in self._last if each is found), found]
        limit = f"within {bounds.ANSWER_S:g} s"
        if found is Look.SILENT:
            return f"the server fell silent: it answers neither the last statement nor a new session {limit}"
        if found is Look.IDLE and len(self._last) > 1:
            return f"the answer to a statement did not come {limit}, and the server's session waits for the next one"
        if len(self._last) >= _MOST_REFUSALS and found is Look.REFUSED:
            return f"the server did not answer the last statement {limit}, and refuses new sessions"
        if found is Look.IDLE:
            # the answer may just be on its way
            over.wait(bounds.ANSWER_S / 10)
        else:
            self._since = time.monotonic()
        return None
