"""Times the steps before a trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pgdyno.records import PrepareStep
from pgdyno.targets import Progress

T = TypeVar("T")


class Steps:
    """Runs steps in turn: shows, times and records each."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.done: list[PrepareStep] = []

    @property
    def seconds(self) -> float:
        """The sum of all steps."""
        return sum(step.seconds for step in self.done)

    def do(self, name: str, shown: str, work: Callable[[], str | None]) -> None:
        """Runs `work`, which may return a detail for the record; the progress shows `shown`."""
        self._progress.step(shown)
        started = time.monotonic()
        detail = work()
        self.note(name, time.monotonic() - started, detail)

    def note(self, name: str, seconds: float, detail: str | None = None) -> None:
        """Records a step that was done elsewhere."""
        self.done.append(PrepareStep(name=name, seconds=round(seconds, 6), detail=detail))
