"""What may be wrong with another host."""

from __future__ import annotations

from pgdyno.errors import TargetError


class RemoteError(TargetError):
    """A host that cannot be reached over SSH, or on which our program cannot run."""

    def __init__(self, message: str, *, hint: str | None = None, passing: bool = False) -> None:
        """`passing`: the same may succeed a moment later."""
        super().__init__(message, hint=hint)
        self.passing = passing
