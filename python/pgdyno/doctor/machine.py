"""Checks other programs on the machine."""

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.doctor.check import NOT_REPORTED, good, grade_value, note, unknown, warning
from pgdyno.doctor.cpu import CpuTimes
from pgdyno.doctor.system import System
from pgdyno.messages import Message
from pgdyno.records import Check

BUSY_NOTE, BUSY_WARNING = 0.03, 0.10
"""Shares of all processors."""
SERVERS = frozenset({"postgres", "postmaster", "mysqld", "mariadbd"})
GENERATORS = frozenset({"pgdyno", "pgdrive", "pgbench", "sysbench", "hammerdbcli", "pgnull"})
ENDED = frozenset({"Z", "X"})
"""States of processes that have ended (proc(5))."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    name: str
    parent: int


def processes(system: System) -> dict[int, Process]:
    """Return all visible processes by number, without those that have ended and wait for their parent."""
    found = {}
    for text in system.texts("proc/[0-9]*/stat"):
        # the name is in parentheses and may hold any character (proc(5))
        head, _, tail = text.rpartition(")")
        number, _, name = head.partition(" (")
        fields = tail.split()
        if number.isdigit() and len(fields) >= 2 and fields[0] not in ENDED:
            found[int(number)] = Process(int(number), name, int(fields[1]))
    return found


def load(system: System, before: CpuTimes | None, after: CpuTimes | None) -> Check:
    """`machine.load`: processor use of other programs while pgdyno was idle."""
    name = "machine.load"
    average = (system.text("proc/loadavg") or "").split()
    if before is None or after is None or after.total <= before.total or not average:
        return unknown(name, NOT_REPORTED)
    share = (after.busy - before.busy) / (after.total - before.total)
    return grade_value(
        name,
        share,
        [(BUSY_NOTE, note), (BUSY_WARNING, warning)],
        Message(
            "processors-busy",
            "{percent:.1f} % of the processors busy, load average {load}",
            percent=100 * share,
            load=" ".join(average[:3]),
        ),
        Message("programs-compete", "other programs use the processors, and trials compete with them"),
        "find them with top and stop them, or wait",
        {"busy_share": round(share, 4), "load_1_min": float(average[0])},
    )


def other_processes(system: System, own: int) -> Check:
    """`machine.others`: servers and load generators other than the process `own` and its parents."""
    name = "machine.others"
    seen = processes(system)
    if not seen:
        return unknown(name, Message("processes-hidden", "processes are not visible"))
    counts = _counts(seen, _family(seen, own))
    if not counts:
        return good(name, Message("no-other-program", "no other server or load generator found"))
    found = Message(
        "other-programs",
        "{programs}",
        programs=", ".join(f"{count} {program}" for program, count in sorted(counts.items())),
    )
    change = "stop unneeded ones; two concurrent runs of pgdyno disturb each other"
    if counts.keys() & GENERATORS:
        means = Message("another-load", "another load or run takes processors, memory and disk from this one")
        return warning(name, found, means, change)
    means = Message(
        "another-server", "even an idle server uses memory and may start a vacuum or a checkpoint during a trial"
    )
    return note(name, found, means, change)


def _family(seen: Mapping[int, Process], own: int) -> set[int]:
    family: set[int] = set()
    while own in seen and own not in family:
        family.add(own)
        own = seen[own].parent
    return family


def _counts(seen: Mapping[int, Process], family: set[int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for process in seen.values():
        parent = seen.get(process.parent)
        # count the processes of a server once
        child = parent is not None and parent.name == process.name
        if process.name in SERVERS | GENERATORS and process.pid not in family and not child:
            counts[process.name] = counts.get(process.name, 0) + 1
    return counts
