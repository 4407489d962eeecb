"""A file that grows, read in whole lines as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.store.bounded import open_regular, parsed

LARGEST = 32 << 20
"""Bytes that are read at once, of what was there before anybody looked; of more, the end."""
LONGEST_LINE = 4 << 20
"""Bytes; a longer line is left out."""


class Tail:
    """One file from its beginning on, or from near its end where it is large."""

    def __init__(self, path: Path) -> None:
        """Of the file at `path`, which may not be there yet."""
        self.path = path
        self._at: int | None = None
        self._rest = b""

    def lines(self) -> list[dict[str, Any]]:
        """What has come since the last time; what is no line of JSON is left out."""
        try:
            with open_regular(self.path) as file:
                if self._at is None:
                    size = file.seek(0, 2)
                    self._at = max(size - LARGEST, 0)
                file.seek(self._at)
                content = file.read(LARGEST)
        except (OSError, StoreError):
            return []
        self._at += len(content)
        *whole, self._rest = (self._rest + content).split(b"\n")
        # what is longer than any line is not kept until its end comes: that is then no JSON
        self._rest = self._rest[: LONGEST_LINE + 1]
        return [line for line in map(_parsed, whole) if line is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    if len(line) > LONGEST_LINE:
        return None
    try:
        found = parsed(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
