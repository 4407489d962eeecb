"""Checks: their names, and short ways to make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pgdyno.records import Check, CheckVerdict

CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "cpu.cores": "processors, and limits of the control group",
        "cpu.governor": "who sets the processors' frequency",
        "cpu.turbo": "frequencies above the nominal one",
        "cpu.steal": "time that the hypervisor gave to others",
        "memory.size": "memory, limits, and what the plan needs of it",
        "memory.dataset": "the dataset against memory",
        "memory.swap": "swap in use, and swappiness",
        "memory.huge-pages": "huge pages for shared buffers",
        "memory.thp": "transparent huge pages",
        "storage.file-system": "where data and WAL lie",
        "storage.mount-options": "options that weaken or slow down a file system",
        "storage.fsync": "how long a commit's fdatasync takes",
        "storage.free": "room for datasets and WAL",
        "storage.snapshot": "how a plan's snapshots of the cluster are made",
        "clock.source": "what the kernel reads the time from",
        "clock.cost": "what reading the time costs",
        "limits.open-files": "files and processes for the clients planned",
        "machine.load": "what else uses the processors",
        "machine.others": "other servers and load generators",
        "generator.ceiling": "what pgdrive reaches against a server that answers at once",
        "network.round-trip": "the way to the server and back",
        "probe.ssh": "the database's host over SSH: reached, key known, pgprobe runs there",
    }
)
"""Every check with what it looks at, in the order in which they are shown; docs/reference/doctor.md has them all."""

ONLY_WHERE_ASKED = frozenset({"storage.snapshot", "probe.ssh"})
"""Checks of what a plan has only where it says so."""

SERIOUSNESS = tuple(CheckVerdict)

Values = Mapping[str, float | int | str]


def good(name: str, found: str, measured: Values | None = None, means: str = "") -> Check:
    """Nothing to say against it."""
    return _said(CheckVerdict.GOOD, name, found, means, "", measured)


def unknown(name: str, found: str, means: str = "", change: str = "") -> Check:
    """It cannot be seen from here; `found` says why."""
    return Check(id=name, verdict=CheckVerdict.UNKNOWN, found=found, means=means, change=change)


def note(name: str, found: str, means: str, change: str = "", measured: Values | None = None) -> Check:
    """Worth knowing before figures are believed."""
    return _said(CheckVerdict.NOTE, name, found, means, change, measured)


def warning(name: str, found: str, means: str, change: str = "", measured: Values | None = None) -> Check:
    """Figures will show this rather than the server."""
    return _said(CheckVerdict.WARNING, name, found, means, change, measured)


def stop(name: str, found: str, means: str, change: str, measured: Values | None = None) -> Check:
    """The plan cannot be run like this."""
    return _said(CheckVerdict.STOP, name, found, means, change, measured)


def _said(verdict: CheckVerdict, name: str, found: str, means: str, change: str, measured: Values | None) -> Check:
    return Check(id=name, verdict=verdict, found=found, means=means, change=change, measured=dict(measured or {}))


def graded(
    name: str,
    value: float,
    limits: Sequence[tuple[float, Callable[..., Check]]],
    found: str,
    means: str,
    change: str,
    measured: Values | None = None,
) -> Check:
    """The check of the highest of `limits` that `value` reaches; good, without `means`, when it reaches none."""
    for limit, make in sorted(limits, key=lambda pair: -pair[0]):
        if value >= limit:
            return make(name, found, means, change, measured)
    return good(name, found, measured)


def worst(checks: Sequence[Check]) -> CheckVerdict:
    """The most serious verdict; good when there are none."""
    return max((check.verdict for check in checks), key=SERIOUSNESS.index, default=CheckVerdict.GOOD)


def not_fine(checks: Sequence[Check]) -> list[Check]:
    """What somebody should read before a run: notes, warnings and stops."""
    return [check for check in checks if check.verdict not in (CheckVerdict.GOOD, CheckVerdict.UNKNOWN)]
