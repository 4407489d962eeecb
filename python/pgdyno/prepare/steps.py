"""The steps before a trial, timed as they are done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pgdyno.records import PrepareStep
from pgdyno.targets import Progress

T = TypeVar("T")


class Steps:
    """Does steps in turn: shows each, times it, keeps the record."""

    def __init__(self, progress: Progress) -> None:
        """Nothing is done yet."""
        self._progress = progress
        self.done: list[PrepareStep] = []

    @property
    def seconds(self) -> float:
        """All of them together."""
        return sum(step.seconds for step in self.done)

    def do(self, name: str, shown: str, work: Callable[[], str | None]) -> None:
        """Does `work`, which may give the record's detail, while the progress says `shown`."""
        self._progress.step(shown)
        started = time.monotonic()
        detail = work()
        self.note(name, time.monotonic() - started, detail)

    def note(self, name: str, seconds: float, detail: str | None = None) -> None:
        """Keeps a step that was done elsewhere."""
        self.done.append(PrepareStep(name=name, seconds=round(seconds, 6), detail=detail))
