"""Checks limits of processes: how many files and backends there may be."""

from pgdyno.doctor.check import NOT_REPORTED, good, stop, unknown
from pgdyno.doctor.needs import Needs
from pgdyno.doctor.system import System
from pgdyno.messages import Message
from pgdyno.records import Check

SPARE_FILES = 64
"""Files of the engine in addition to its connections."""
SPARE_TASKS = 64
"""Processes of a server and of pgdyno in addition to the backends."""


def open_files(system: System, needs: Needs) -> Check:
    """`limits.open-files`: files for the engine's connections, processes for the server's backends."""
    name = "limits.open-files"
    limits = _limits(system)
    if "Max open files" not in limits:
        return unknown(name, NOT_REPORTED)
    soft, hard = limits["Max open files"]
    # a load in the background has its own engine
    most = max(needs.clients, needs.background_clients)
    wanted, tasks = most + SPARE_FILES, system.tasks_limit()
    found = Message(
        "open-files",
        "{soft}, at most {hard}; {count} client needs about {needed}",
        "{soft}, at most {hard}; {count} clients need about {needed}",
        soft=_limit_text(soft),
        hard=_limit_text(hard),
        count=most,
        needed=wanted,
    )
    if hard is not None and hard < wanted:
        means = Message("connections-limited", "the engine cannot open a connection for every client")
        return stop(name, found, means, f"ulimit -Hn {wanted}, or LimitNOFILE of the service")
    backends = needs.backends + SPARE_TASKS
    if needs.on_this_host and tasks is not None and tasks < backends:
        found = Message(
            "processes-allowed",
            "{files}; the control group allows {count} process",
            "{files}; the control group allows {count} processes",
            files=found,
            count=tasks,
        )
        means = Message("backends-limited", "the server cannot start a backend for every client")
        return stop(name, found, means, f"pids.max = {backends} or more")
    return good(name, found)


def _limits(system: System) -> dict[str, tuple[int | None, int | None]]:
    """Return soft and hard limit by name; None is unlimited."""
    found = {}
    for line in system.lines("proc/self/limits")[1:]:
        name, values = line[:26].strip(), line[26:].split()
        if len(values) >= 2:
            soft, hard = (int(value) if value.isdigit() else None for value in values[:2])
            found[name] = (soft, hard)
    return found


def _limit_text(limit: int | None) -> str:
    return "unlimited" if limit is None else str(limit)
