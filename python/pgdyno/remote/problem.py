"""The error of another host."""

from __future__ import annotations

from pgdyno.errors import TargetError


class RemoteError(TargetError):
    """A host cannot be reached over SSH, or a program cannot run on it."""

    def __init__(self, message: str, *, hint: str | None = None, passing: bool = False) -> None:
        """`passing` marks an error that may disappear on a retry."""
        super().__init__(message, hint=hint)
        self.passing = passing
