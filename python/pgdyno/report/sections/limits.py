"""What limited a trial, as far as the probe saw it: waits of active sessions, the host's processors, its disks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.records import TrialRecord
from pgdyno.report.extras import Beside

BUSY = 0.85
"""Share of the host's processor time from which on it is full."""
DISK_FULL = 0.9
MOST = 0.5
"""Share of active sessions that is called most of them."""
CLASSES = ("CPU", "I/O", "WAL", "Lock", "LWLock", "Client", "other")
"""Classes of waits, in the order in which pictures stack them."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limited a trial."""

    word: str
    """`CPU`, `WAL`; `not known`."""
    about: str
    """The figures behind it."""


UNKNOWN = Limit("not known", "no probe beside it")


def wait_class(wait_type: str, wait: str) -> str:
    """The class that a wait is drawn as: what writes or syncs WAL is apart from other I/O."""
    if wait.upper().startswith("WAL"):
        return "WAL"
    return {"CPU": "CPU", "IO": "I/O", "Lock": "Lock", "LWLock": "LWLock", "Client": "Client"}.get(wait_type, "other")


def limit_of(trial: TrialRecord, beside: Beside | None) -> Limit:
    """What most active sessions of the measured part did, and whether the host had time left."""
    if beside is None or not (beside.waits or beside.series):
        return UNKNOWN
    first = trial.warmup_s / beside.step_s
    end = (trial.warmup_s + (trial.duration_s or 1e9)) / beside.step_s
    shares, top = _wait_shares(beside, first, end)
    busy, disk = _busy(beside, first, end), _disk(beside, first, end)
    about = []
    if shares:
        chief = max(shares, key=lambda name: shares[name])
        of = "on a processor" if chief == "CPU" else f"waiting: {top[chief]}"
        about.append(f"{_percent(shares[chief])} of active sessions {of}")
    if busy is not None:
        about.append(f"host {_percent(busy)} busy")
    if disk is not None and disk >= MOST:
        about.append(f"disk {_percent(disk)} busy")
    return Limit(_word(shares, busy, disk), ", ".join(about) or "the probe saw no active session")


def _word(shares: Mapping[str, float], busy: float | None, disk: float | None) -> str:
    chief = max(shares, key=lambda name: shares[name], default=None)
    if chief not in (None, "CPU", "Client") and shares[chief or ""] >= MOST:
        return chief or ""
    if busy is not None and busy >= BUSY:
        return "CPU"
    if disk is not None and disk >= DISK_FULL:
        return "disk"
    if chief == "Client" and shares[chief] >= MOST:
        return "clients"
    return "nothing alone" if chief is not None else "not known"


def _wait_shares(beside: Beside, first: float, end: float) -> tuple[dict[str, float], dict[str, str]]:
    """Share of each class of all active sessions, and the wait that is most of it."""
    sums: dict[str, float] = defaultdict(float)
    waits: dict[tuple[str, str], float] = defaultdict(float)
    for each in beside.waits:
        if first <= each.step < end:
            of = wait_class(each.wait_type, each.wait)
            sums[of] += each.sessions
            waits[of, each.wait or each.wait_type] += each.sessions
    total = sum(sums.values())
    top = {of: max((key for key in waits if key[0] == of), key=lambda key: waits[key])[1] for of in sums}
    return ({name: value / total for name, value in sums.items()} if total else {}), top


def _busy(beside: Beside, first: float, end: float) -> float | None:
    parts: dict[int, float] = defaultdict(float)
    for each in beside.series:
        if each.source == "cpu" and each.metric != "iowait" and first <= each.step < end:
            parts[each.step] += each.value
    return sum(parts.values()) / len(parts) if parts else None


def _disk(beside: Beside, first: float, end: float) -> float | None:
    """The busiest disk's share of time with a request in flight."""
    by_disk: dict[str, list[float]] = defaultdict(list)
    for each in beside.series:
        if each.metric == "utilisation" and first <= each.step < end:
            by_disk[each.label].append(each.value)
    return max((sum(values) / len(values) for values in by_disk.values()), default=None)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
