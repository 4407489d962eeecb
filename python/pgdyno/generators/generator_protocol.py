"""What a load needs of a generator, which is one engine with a share of the load: here, or on another host."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pgdyno.doctor.round_trips import Trips
from pgdyno.generators.shared_load import Share

LEASE_S = 4.0
"""An engine without contact for so long stops."""
GONE_S = 8.0
"""The time for an engine to stop before it is killed; it takes up to 5 s to cancel its statements."""
HEARTBEAT_S = 1.0
SILENCE_S = 3.0
"""A generator without an answer for so long is lost."""
MOST_LINES = 5_000
"""The limit of one answer."""
RENEWAL = b"alive\n"
AWAITING = (f"--lease={LEASE_S:g}", "--await-start")
"""Options of every engine that makes a share of a load."""


class LostError(Exception):
    """A generator does not answer."""

    number: int | None = None
    """Its number within the load, from 0, for callers that do not know it."""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """An engine's output since the last call."""

    lines: list[bytes]
    code: int | None
    """The exit code, once it has ended and all lines were returned."""
    errors: str
    """Standard error of the engine, once it has ended."""


class Lines:
    """Lines of one engine, added by one thread and taken by another."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._news = threading.Condition()
        self._ended = False

    def add(self, line: bytes) -> None:
        with self._news:
            self._lines.append(line)
            self._news.notify_all()

    def end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()

    def take(self, wait_s: float) -> tuple[list[bytes], bool]:
        """Return new lines, after up to `wait_s`, and whether they are the last."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._ended, wait_s)
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), MOST_LINES))]
            return lines, self._ended and not self._lines


class Generator(Protocol):
    """A generator during a load; each call raises LostError."""

    name: str
    facts: Mapping[str, Any]

    def begin(self, share: Share, environment: Mapping[str, str]) -> None:
        """Start its engine, after ending a previous one."""

    def start(self, epoch_us: int) -> None:
        """Set the start time, by its own clock."""

    def listen(self, wait_s: float) -> EngineOutput:
        """Renews its lease, and returns its output after up to `wait_s`."""

    def clock_us(self) -> int:
        """Return its wall clock in microseconds since 1970."""

    def interrupt(self) -> None:
        """Stop its engine without waiting."""


class Standing(Generator, Protocol):
    """A generator for a whole run; each call raises LostError, or EngineError for a failure on its host."""

    def ceiling(self, protocol: str, clients: int, seconds: float) -> float:
        """Return its engine's transactions per second against a null server."""

    def trips(self, environment: Mapping[str, str], protocol: str) -> Trips:
        """Measures round trips from its host to a server."""

    def end(self) -> None:
        """End its processes."""

    def abandon(self) -> None:
        """Abandons one that does not answer."""
