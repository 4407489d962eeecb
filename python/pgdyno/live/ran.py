"""Computes the duration of a run over all its attempts, from the times in its journal."""

from __future__ import annotations


class Ran:
    """Sums durations; the time between two attempts does not count."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since: float | None = None
        self._last = 0.0

    def heard(self, kind: str, wall_s: float) -> None:
        """Process a line of the journal: `run` begins an attempt, `end` ends it; a killed one ends with its last
        line.
        """
        if kind == "run" and self._since is not None:
            self._before_s += self._last - self._since
        if kind == "run":
            self._since = wall_s
        self._last = wall_s
        if kind == "end" and self._since is not None:
            self._before_s += wall_s - self._since
            self._since = None

    @property
    def seconds(self) -> float:
        """Return the duration up to the last line."""
        return self._before_s + (self._last - self._since if self._since is not None else 0.0)
