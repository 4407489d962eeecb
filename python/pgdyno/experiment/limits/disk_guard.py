"""Free space of the file systems that a run uses."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import StopRunError
from pgdyno.messages import Message
from pgdyno.units import format_bytes, parse_bytes

EVERY_S = 1.0


def free_bytes(path: Path) -> int:
    """Return how much an ordinary user can write below `path`. Raises OSError."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


@dataclass(slots=True)
class DiskGuard:
    """Ends the run when a file system has less free space than the plan's trial.min_free_disk."""

    limit: str | None
    """The limit as the plan gives it; None for no limit."""
    free: Callable[[Path], int] = free_bytes
    clock: Callable[[], float] = time.monotonic
    _watched: dict[int, tuple[str, Path]] = field(default_factory=dict)
    """By device: what it contains, and a path on it."""
    _looked: float = float("-inf")

    def watch(self, what: str, path: Path) -> None:
        """Check the file system of `path`, too, and call it `what` in the error; ignore a path that does not exist."""
        try:
            self._watched.setdefault(path.stat().st_dev, (what, path))
        except OSError:
            return

    def watch_cluster(self, target: str, data_directory: Path) -> None:
        """Check the file systems of a data directory, its WAL and its tablespaces."""
        self.watch(f"the data of target {target}", data_directory)
        self.watch(f"the WAL of target {target}", data_directory / "pg_wal")
        tablespaces = data_directory / "pg_tblspc"
        for space in sorted(tablespaces.iterdir()) if tablespaces.is_dir() else ():
            self.watch(f"a tablespace of target {target}", space)

    def check(self) -> None:
        """Check all file systems, at most once a second. Raises StopRunError if one has too little free space."""
        now = self.clock()
        if self.limit is None or now - self._looked < EVERY_S:
            return
        self._looked = now
        least = parse_bytes(self.limit)
        for what, path in self._watched.values():
            try:
                left = self.free(path)
            except OSError:
                # a cluster does not exist while pgdyno restores it
                continue
            if left < least:
                raise StopRunError(
                    Message(
                        "disk-full",
                        "only {free} is free at {path}, where {what} is; the plan's min_free_disk is {limit}",
                        free=format_bytes(left),
                        what=what,
                        path=str(path),
                        limit=self.limit,
                    )
                )
