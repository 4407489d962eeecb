"""Measures how long a commit waits for the disk, as pg_test_fsync does: writes 8 kB, then calls fdatasync."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pgdyno.doctor.check import good, graded, note, warning
from pgdyno.doctor.needs import Needs, Place
from pgdyno.records import Check

BLOCK = 8192
SEGMENT = 16 << 20
"""The size of a WAL segment: syncs of a file that does not grow need no metadata."""
TOO_FAST_US = 5.0
"""No device flushes faster: a shorter time means that nothing was flushed."""
MEDIAN_NOTE_US, MEDIAN_WARNING_US = 2_000, 10_000
TAIL = 10
"""A p99 of this many medians is unsteady if it also exceeds `TAIL_US`."""
TAIL_US = 2_000


@dataclass(frozen=True, slots=True)
class SyncTime:
    """Times of one write with its fdatasync."""

    median_us: float
    p99_us: float
    count: int


def measure_sync(folder: Path, seconds: float) -> SyncTime:
    """Writes and syncs blocks of a temporary file in `folder` for `seconds`. Raises OSError."""
    block = os.urandom(BLOCK)
    took_ns: list[int] = []
    with tempfile.TemporaryFile(prefix="pgdyno-doctor-", dir=folder, buffering=0) as file:
        handle = file.fileno()
        for _ in range(SEGMENT // (1 << 20)):
            file.write(os.urandom(1 << 20))
        os.fsync(handle)
        end = time.monotonic() + seconds
        while time.monotonic() < end or not took_ns:
            begin = time.monotonic_ns()
            os.pwrite(handle, block, 0)
            os.fdatasync(handle)
            took_ns.append(time.monotonic_ns() - begin)
    took_ns.sort()
    return SyncTime(_nearest(took_ns, 0.5) / 1e3, _nearest(took_ns, 0.99) / 1e3, len(took_ns))


def _nearest(ordered: list[int], share: float) -> int:
    """Returns a percentile by nearest rank."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def sync_time(place: Place, needs: Needs, took: SyncTime) -> Check:
    """`storage.fsync`: the measurement in `place`."""
    name = "storage.fsync"
    found = f"{place.title}: median {_ms(took.median_us)} ms, p99 {_ms(took.p99_us)} ms (n = {took.count:,})"
    measured = {"median_us": round(took.median_us, 2), "p99_us": round(took.p99_us, 2), "n": took.count}
    if place.in_memory:
        return good(name, f"{found}; in memory, as the plan requires", measured)
    if took.median_us < TOO_FAST_US:
        means = "no disk is this fast: nothing is flushed (memory, a disabled barrier), so commits are not durable"
        return warning(name, found, means, "see storage.file-system and storage.mount-options", measured)
    if not needs.writes or not needs.durable:
        why = "the scripts only read" if not needs.writes else "commits of this plan do not wait for it"
        return good(name, f"{found}; {why}", measured)
    means = f"one client commits at most {1e6 / took.median_us:,.0f} times per second; several clients share a sync"
    change = "use a disk with a protected write cache, or put the WAL on one"
    if took.p99_us > max(TAIL * took.median_us, TAIL_US):
        means += "; one sync in a hundred takes much longer, and so does the p99 of commits"
        return graded(name, took.p99_us, [(0, note), (MEDIAN_WARNING_US * 2, warning)], found, means, change, measured)
    limits = [(MEDIAN_NOTE_US, note), (MEDIAN_WARNING_US, warning)]
    check = graded(name, took.median_us, limits, found, means, change, measured)
    # the limit of commits matters on a good disk, too
    return check.model_copy(update={"means": means})


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1e3:.3g}"
