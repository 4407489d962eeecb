"""Buffers an engine's output until the driver fetches it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

LEASE_S = 4.0
"""An engine without contact for so long stops."""
GONE_S = 8.0
"""The time for an engine to stop before it is killed; it takes up to 5 s to cancel its statements."""
MOST_LINES = 5_000
"""The limit of one answer."""
RENEWAL = b"alive\n"
AWAITING = (f"--lease={LEASE_S:g}", "--await-start")
"""Options of every engine that makes a share of a load."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An engine's output since the last call."""

    lines: list[bytes]
    code: int | None
    """The exit code, once it has ended and all lines were returned."""
    errors: str
    """Its standard error, once it has ended."""


class Lines:
    """Lines of one engine, added by one thread and taken by another."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._news = threading.Condition()
        self._ended = False

    def add(self, line: bytes) -> None:
        """Adds a line."""
        with self._news:
            self._lines.append(line)
            self._news.notify_all()

    def end(self) -> None:
        """Marks the end."""
        with self._news:
            self._ended = True
            self._news.notify_all()

    def take(self, wait_s: float) -> tuple[list[bytes], bool]:
        """Returns new lines, after up to `wait_s`, and whether they are the last."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._ended, wait_s)
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MOST_LINES))]
            return lines, self._ended and not self._lines
