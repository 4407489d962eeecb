"""How long a run has gone on, over all its attempts, from the times of its journal's lines."""

from __future__ import annotations


class Ran:
    """Adds up; the time between two attempts counts for nothing."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._before_s = 0.0
        self._since: float | None = None
        self._last = 0.0

    def heard(self, kind: str, wall_s: float) -> None:
        """A line of the journal: `run` begins an attempt, `end` ends it; a killed one ends with its last line."""
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
        """Up to the last line."""
        return self._before_s + (self._last - self._since if self._since is not None else 0.0)
