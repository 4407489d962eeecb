"""Waiting for what comes about, however long a machine takes: no test sleeps and hopes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""What only something that hangs takes, however busy the machine."""


def wait_until(true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Returns once `true()` is; fails after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"it did not come about within {patience_s:g} s"
        time.sleep(0.02)
