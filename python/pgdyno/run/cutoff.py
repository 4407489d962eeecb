"""Signals the end of a trial to the threads that work while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cutoff:
    """A one-way flag that any thread can read and wait for."""

    def __init__(self) -> None:
        self._cut = threading.Event()
        self._lock = threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def is_cut(self) -> bool:
        return self._cut.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits up to the timeout; returns whether the trial is over."""
        return self._cut.wait(seconds)

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Calls `stop`, from another thread or at once, if the trial ends during the block."""
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
        """Signals the end."""
        with self._lock:
            self._cut.set()
            stops = list(self._stops)
        for stop in stops:
            stop()
