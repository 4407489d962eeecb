"""Signals to processes of programs under test, which may end them at any moment."""

import os
from collections.abc import Iterable
from contextlib import suppress


def send_signal(number: int, pids: Iterable[int]) -> None:
    """Sends a signal to those of the processes that have not ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
