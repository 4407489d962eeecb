"""Reads a growing file in complete lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.store.bounded import open_regular, parsed

LARGEST = 32 << 20
"""Bytes of existing content that are read at once; of a larger file, the end."""
LONGEST_LINE = 4 << 20
"""Bytes; a longer line is left out."""


class Tail:
    """Reads one file from its beginning, or from near its end if it is large."""

    def __init__(self, path: Path) -> None:
        """The file at `path` may not exist yet."""
        self.path = path
        self._at: int | None = None
        self._rest = b""

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines since the last call; lines that are not JSON are left out."""
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
        # discard a line that exceeds the limit: it is then not JSON
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
