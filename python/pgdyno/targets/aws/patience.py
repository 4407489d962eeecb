"""Waiting for Amazon: often at first, then less and less often."""

from __future__ import annotations

import time

FIRST_S = 0.25
LONGEST_S = 15.0
GROWTH = 1.5


class Patience:
    """A deadline, and pauses that grow until it."""

    def __init__(self, within_s: float) -> None:
        """Ends `within_s` from now."""
        self._end = time.monotonic() + within_s
        self._next_s = FIRST_S

    def over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._end

    def pause(self) -> None:
        """Waits; longer each time, and not past the deadline."""
        left_s = self._end - time.monotonic()
        time.sleep(max(0.0, min(self._next_s, left_s)))
        self._next_s = min(self._next_s * GROWTH, LONGEST_S)
