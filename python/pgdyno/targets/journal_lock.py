"""The lock of a rental journal, which says that a process uses what was rented."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.targets.lock import try_flock


@dataclass(slots=True)
class JournalLock:
    """The lock of a file or folder, held until `release` or the end of the process."""

    _handle: int | None = field(default=None, repr=False)

    def hold(self, path: Path) -> bool:
        """Locks `path`; returns False if another process has the lock, or removed `path`."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        if not try_flock(handle):
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
