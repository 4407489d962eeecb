"""The attempts at a run: when and where each began and ended, and what changed between them."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from pgdyno import __version__
from pgdyno.host import boot_id, describe_host
from pgdyno.records import Attempt, Manifest

KILLED = "was killed"
MACHINE_WENT_DOWN = "went down with the machine"


def new_attempt(pgdrive: str) -> Attempt:
    """Return an attempt that begins now, with version `pgdrive` of the engine."""
    return Attempt(
        started_at=datetime.now(UTC),
        pid=os.getpid(),
        boot=boot_id(),
        host=describe_host(),
        pgdyno=__version__,
        pgdrive=pgdrive,
    )


def attempts_so_far(manifest: Manifest) -> list[Attempt]:
    """Return the attempts of `manifest`; one that was killed gets an end, and an old manifest one attempt."""
    if manifest.host is None:
        raise ValueError("an imported run has no attempts")
    attempts = manifest.attempts or [
        Attempt(
            started_at=manifest.started_at,
            ended_at=manifest.ended_at,
            ended=None if manifest.outcome is None else "came to its end",
            pid=0,
            boot="",
            host=manifest.host,
            pgdyno=manifest.pgdyno,
            pgdrive=manifest.pgdrive or "",
        )
    ]
    return [attempt if attempt.ended is not None else _killed(attempt) for attempt in attempts]


def _killed(attempt: Attempt) -> Attempt:
    rebooted = attempt.boot != "" and attempt.boot != boot_id() and attempt.host == describe_host()
    return attempt.model_copy(update={"ended": MACHINE_WENT_DOWN if rebooted else KILLED})


def changes(before: Attempt, now: Attempt) -> list[str]:
    """Return in words what differs between the trials from `now` on and those before."""
    found = []
    for name, words in _HOST.items():
        old, new = getattr(before.host, name), getattr(now.host, name)
        if old != new:
            found.append(f"{words} is {new} now, and was {old} in earlier trials")
    for program in ("pgdyno", "pgdrive"):
        old, new = getattr(before, program), getattr(now, program)
        if old != new:
            found.append(f"{program} is {new} now, and was {old} in earlier trials")
    return found


_HOST = {
    "cpu_model": "the processor",
    "cores": "the number of cores",
    "memory_bytes": "the memory in bytes",
    "kernel": "the kernel",
    "os": "the operating system",
    "architecture": "the architecture",
}
