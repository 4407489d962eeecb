"""Detects which runs are in progress: a pgdyno holds the lock of their folder. Reads the lock table, never tries the
lock.
"""

from __future__ import annotations

from pathlib import Path

from pgdyno.store.lock import LOCK

LOCKS = Path("/proc/locks")


def is_running(run: Path, locks: Path = LOCKS) -> bool:
    """Return whether a pgdyno works on the folder `run`, by the kernel's list of locks."""
    try:
        inode = (run / LOCK).stat().st_ino
        lines = locks.read_text().splitlines()
    except OSError:
        return False
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF, with -> for a process that waits
    held = (line.split() for line in lines if "->" not in line)
    return any(len(words) > 5 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode) for words in held)
