"""Stretches that a signal must not cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP that come inside take effect behind the block.

    Between a fork and the note of the child's number, an exception from a signal handler would lose the
    child; in the middle of a clean-up, it would leave the rest. Only the main thread runs handlers, so
    elsewhere there is nothing to defer. (A blocked signal mask is no way: children inherit it, and other
    threads take the signal.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in _HELD_BACK}

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    try:
        # None stands for a handler that was not set from Python and could not be put back
        for held_back, handler in before.items():
            if handler is not None:
                signal.signal(held_back, note)
        yield
    finally:
        _restore(list(before.items()))
        for number in dict.fromkeys(arrived):
            signal.raise_signal(number)


def _restore(handlers: list[tuple[signal.Signals, Any]]) -> None:
    if not handlers:
        return
    number, handler = handlers[0]
    try:
        if handler is not None:
            signal.signal(number, handler)
    finally:
        # also when the signal comes between the two
        _restore(handlers[1:])
