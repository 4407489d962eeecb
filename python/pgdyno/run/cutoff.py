"""Tells what goes on beside a trial that the trial is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cutoff:
    """Cut once; may be asked and waited for by any thread."""

    def __init__(self) -> None:
        """Not cut yet."""
        self._cut = threading.Event()
        self._lock = threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def is_cut(self) -> bool:
        """True once the trial is over."""
        return self._cut.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits for so long, or until it is cut; True when it is."""
        return self._cut.wait(seconds)

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Calls `stop` (from another thread, or at once) if it is cut within the block."""
        with self._lock:
            self._stops.append(stop)
            late = self._cut.is_set()
        try:
            if late:
                stop()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)

    def cut(self) -> None:
        """The trial is over."""
        with self._lock:
            self._cut.set()
            stops = list(self._stops)
        for stop in stops:
            stop()
