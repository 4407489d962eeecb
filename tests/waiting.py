"""Waiting for what comes about, however long a machine takes: no test sleeps and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], patience_s: float = 120.0) -> None:
    """Returns once `true()` is; fails after `patience_s`, which only what hangs takes."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"it did not come about within {patience_s:g} s"
        time.sleep(0.02)
