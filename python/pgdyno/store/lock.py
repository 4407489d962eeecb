"""Locks a run folder, so that only one pgdyno works on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pgdyno.errors import StoreError
from pgdyno.store.storing import storing

LOCK = ".lock"
"""It remains in the folder: if it were removed, two processes could hold it."""


@contextmanager
def run_lock(run: Path) -> Iterator[None]:
    """Lock the run folder `run`; the lock ends with the process.

    Raises StoreError if another pgdyno holds it.
    """
    lock = FileLock(run / LOCK, thread_local=False)
    with storing("lock", run):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"cannot resume the run {run.name}: another pgdyno works on it", hint="wait until it has ended"
            ) from None
    try:
        yield
    finally:
        lock.release()
