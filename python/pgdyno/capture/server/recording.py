"""Records a server for a time, in a thread: Ctrl-C then ends the recording and interrupts nothing of it."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from pgdyno.capture.server.wait_samples import WaitSamples
from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.records.capture import Ended

EVERY_S = 1.0
LINES = 60
"""Lines of progress in a whole recording, but at most one a second and at least one a minute."""
_LOOK_S = 0.1


class Recorded(Protocol):
    """What is recorded: the server's log, or its statistics of statements."""

    def begin(self) -> None:
        """Note the state at the beginning. Raises TargetError, UsageError."""

    def step(self, *, last: bool) -> bool:
        """Record what is new, once a second and, with `last`, at the end; return whether there is room for more.

        Raises TargetError if the server is away: the recording goes on when it is back.
        """

    def reconnect(self) -> None:
        """Open the connection again. Raises TargetError."""

    def progress(self) -> str:
        """Return how much was recorded, in a few words."""


class Recording:
    """The recording of `span_s` seconds."""

    def __init__(self, recorded: Recorded, samples: WaitSamples | None, span_s: float) -> None:
        self.ended = Ended.TIME
        self.took_s = 0.0
        """Seconds from the beginning to the last step that succeeded."""
        self.lost: str | None = None
        """Why the server was away at the last step; None if it was not."""
        self._recorded, self._samples, self._span_s = recorded, samples, span_s
        self._stop = threading.Event()
        # Thread.is_alive() may be false for a running thread after a signal has interrupted join() (Python 3.11)
        self._finished = threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begins. Raises TargetError, UsageError."""
        self._recorded.begin()
        self._began_s = time.monotonic()
        threading.Thread(target=self._run, name="capture", daemon=True).start()

    def wait(self, say: Callable[[str], None]) -> None:
        """Wait for the end, and call `say` with lines of progress, at once when the server goes away or comes back.

        Raises what the recording raised.
        """
        every_s = min(60.0, max(1.0, self._span_s / LINES))
        next_s = time.monotonic() + every_s
        away = False
        while not self._finished.wait(_LOOK_S):
            was_away, away = away, self.lost is not None
            if time.monotonic() >= next_s or away != was_away:
                next_s = time.monotonic() + every_s
                say(self._progress())
        if self._error is not None:
            raise self._error

    def stop(self, say: Callable[[str], None] = lambda _: None) -> None:
        """End the recording before its time, after a last step. Raises what the recording raised."""
        self._stop.set()
        self.wait(say)

    def notes(self) -> Iterator[Message]:
        """Yield why the recording has less than it should have."""
        if self.lost is not None:
            yield Message("capture-server-lost", "the server did not come back in time: {reason}", reason=self.lost)

    def _progress(self) -> str:
        if self.lost is not None:
            return f"no connection to the server: {self.lost}"
        sessions = self._samples.now if self._samples is not None else ""
        return ", ".join(filter(None, (self._recorded.progress(), sessions)))

    def _run(self) -> None:
        try:
            self._record()
        except BaseException as error:
            self._error = error
        finally:
            self._finished.set()

    def _record(self) -> None:
        end_s = self._began_s + self._span_s
        next_s = self._began_s
        while next_s < end_s:
            if self._samples is not None:
                self._samples.sample()
            if not self._step():
                self.ended = Ended.LIMIT
                return
            next_s = max(next_s + EVERY_S, time.monotonic())
            if self._stop.wait(min(next_s, end_s) - time.monotonic()):
                self.ended = Ended.INTERRUPTED
                break
        if not self._step(last=True):
            self.ended = Ended.LIMIT
        elif self.lost is not None:
            self.ended = Ended.SERVER_LOST

    def _step(self, *, last: bool = False) -> bool:
        try:
            if self.lost is not None:
                self._recorded.reconnect()
            more = self._recorded.step(last=last)
        except TargetError as error:
            self.lost = error.message
            return True
        self.lost = None
        self.took_s = time.monotonic() - self._began_s
        return more
