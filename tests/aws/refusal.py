"""What the simulator refuses by itself."""

from __future__ import annotations


class RefusedError(Exception):
    """What the simulator refuses by itself."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message
