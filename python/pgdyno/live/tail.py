"""A file that grows, read in whole lines as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGEST = 32 << 20
"""Bytes that are read of what was there before anybody looked; of more, the end."""


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
            with self.path.open("rb") as file:
                if self._at is None:
                    size = file.seek(0, 2)
                    self._at = max(size - LARGEST, 0)
                file.seek(self._at)
                content = file.read()
        except OSError:
            return []
        self._at += len(content)
        *whole, self._rest = (self._rest + content).split(b"\n")
        return [line for line in map(_parsed, whole) if line is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
