"""The names of checks, and constructors for their results."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from pgdyno.messages import Message
from pgdyno.records import Check, CheckVerdict, KeptMessage

CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "cpu.cores": "processors and limits of the control group",
        "cpu.governor": "governor of the processors' frequency",
        "cpu.turbo": "frequencies above the nominal one",
        "cpu.steal": "processor time taken by other guests of the hypervisor",
        "memory.size": "memory, its limits, and the plan's needs",
        "memory.dataset": "dataset size relative to memory",
        "memory.swap": "used swap, and swappiness",
        "memory.huge-pages": "huge pages for shared buffers",
        "memory.thp": "transparent huge pages",
        "storage.file-system": "file systems of data and WAL",
        "storage.mount-options": "mount options that weaken or slow down a file system",
        "storage.fsync": "duration of a commit's fdatasync",
        "storage.free": "disk space for datasets and WAL",
        "storage.snapshot": "method of the plan's cluster snapshots",
        "clock.source": "the kernel's clock source",
        "clock.cost": "cost of reading the time",
        "limits.open-files": "open files and processes for the plan's clients",
        "machine.load": "processor use of other programs",
        "machine.others": "other servers and load generators",
        "generator.ceiling": "throughput of pgdrive against a null server",
        "network.round-trip": "network round trip to the server",
        "probe.ssh": "the database's host over SSH: connection, host key, pgprobe",
    }
)
"""Every check with its subject, in the order of display; docs/reference/doctor.md describes them."""

SERIOUSNESS = tuple(CheckVerdict)

Values = Mapping[str, float | int | str]


NOT_REPORTED = Message("not-reported", "the kernel does not report it")


def good(name: str, found: Message, measured: Values | None = None, means: Message | None = None) -> Check:
    return _check(CheckVerdict.GOOD, name, found, means, "", measured)


def _check(
    verdict: CheckVerdict,
    name: str,
    found: Message,
    means: Message | None = None,
    change: str = "",
    measured: Values | None = None,
) -> Check:
    return Check(
        id=name,
        verdict=verdict,
        found=str(found),
        found_details=KeptMessage.from_message(found),
        means="" if means is None else str(means),
        means_details=None if means is None else KeptMessage.from_message(means),
        change=change,
        measured=dict(measured or {}),
    )


unknown = partial(_check, CheckVerdict.UNKNOWN)
"""Returns a check whose subject is not visible; `found` says why."""
note = partial(_check, CheckVerdict.NOTE)
"""Returns a check to know before interpreting results."""
warning = partial(_check, CheckVerdict.WARNING)
"""Returns a check for a condition that distorts the results."""
stop = partial(_check, CheckVerdict.STOP)
"""Returns a check for a condition under which the plan cannot run."""


def grade_value(
    name: str,
    value: float,
    limits: Sequence[tuple[float, Callable[..., Check]]],
    found: Message,
    means: Message,
    change: str,
    measured: Values | None = None,
    *,
    always_means: bool = False,
) -> Check:
    """Return a check by the highest of `limits` that `value` reaches.

    It is good if it reaches none, and has `means` then only if it is to be known in any case.
    """
    for limit, make in sorted(limits, key=lambda pair: -pair[0]):
        if value >= limit:
            return make(name, found, means, change, measured)
    return good(name, found, measured, means if always_means else None)


def worst(checks: Sequence[Check]) -> CheckVerdict:
    """Return the most serious verdict; good without any check."""
    return max((check.verdict for check in checks), key=SERIOUSNESS.index, default=CheckVerdict.GOOD)


def not_fine(checks: Sequence[Check]) -> list[Check]:
    """Return the notes, warnings and stops."""
    return [check for check in checks if check.verdict not in (CheckVerdict.GOOD, CheckVerdict.UNKNOWN)]
