"""What an engine says, from where it is read until the driver asks for it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

LEASE_S = 4.0
"""An engine that was not spoken to for so long stops."""
GONE_S = 8.0
"""For an engine that was told to end, until it is killed: it takes up to 5 s to end its statements in the server."""
MOST_LINES = 5_000
"""Handed over in one answer."""
RENEWAL = b"alive\n"
AWAITING = (f"--lease={LEASE_S:g}", "--await-start")
"""Options of every engine that makes a part of a load."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What an engine said since the last time."""

    lines: list[bytes]
    code: int | None
    """Its exit code, once it has ended and all of its lines are told."""
    errors: str
    """Its standard error, once it has ended."""


class Lines:
    """Of one engine: put in as they come, taken by who listens."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._lines: deque[bytes] = deque()
        self._news = threading.Condition()
        self._ended = False

    def add(self, line: bytes) -> None:
        """One more."""
        with self._news:
            self._lines.append(line)
            self._news.notify_all()

    def end(self) -> None:
        """There will be no more."""
        with self._news:
            self._ended = True
            self._news.notify_all()

    def take(self, wait_s: float) -> tuple[list[bytes], bool]:
        """What is new, waited for up to `wait_s`; and whether that was all."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._ended, wait_s)
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MOST_LINES))]
            return lines, self._ended and not self._lines
