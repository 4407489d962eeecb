"""Waits for a condition however slow the machine is, so that no test depends on a sleep."""

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""Seconds that only a hung program exceeds, however busy the machine is."""


def wait_until(true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Returns once `true()` is true; fails after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"it did not come about within {patience_s:g} s"
        time.sleep(0.02)
