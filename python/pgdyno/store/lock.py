"""Who works on a run folder: one pgdyno at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pgdyno.errors import StoreError
from pgdyno.store.storing import storing

LOCK = ".lock"
"""Stays in the folder: a lock that is removed can be held twice."""


@contextmanager
def run_lock(run: Path) -> Iterator[None]:
    """Holds the run folder `run`; the lock goes with the process, however it ends.

    Raises StoreError when another pgdyno holds it.
    """
    lock = FileLock(run / LOCK, thread_local=False)
    with storing("lock", run):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"cannot go on with the run {run.name}: another pgdyno works on it", hint="wait until it has ended"
            ) from None
    try:
        yield
    finally:
        lock.release()
