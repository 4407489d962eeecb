"""What a target says while it is being made ready."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Where the steps of getting a server are shown."""

    def step(self, text: str) -> None:
        """A new step begins; `text` is lowercase and has no full stop: "unpacking PostgreSQL 18.6"."""

    def bytes(self, done: int, total: int | None) -> None:
        """`done` bytes of the step's `total` are there; None when the server doesn't say how many come."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """`done` rows of the dataset's `total` are loaded, `per_s` a second; the rest needs about `left_s`."""


class SilentProgress:
    """Shows nothing."""

    def step(self, text: str) -> None:
        """Ignores the step."""

    def bytes(self, done: int, total: int | None) -> None:
        """Ignores the count."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Ignores the count."""
