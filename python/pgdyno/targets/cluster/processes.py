"""Processes of this machine, as /proc shows them.

A process number alone does not identify a process, because the kernel reuses numbers; with the start time it does.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SERVER_PROGRAMS = {"postgres", "postmaster", "initdb", "callgrind-amd64", "callgrind-arm64"}
"""Also Valgrind's tool, whose name a server under it has; the kernel shows 15 characters."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, distinct from a later one with the same number."""

    pid: int
    start_ticks: int
    """Clock ticks from boot to its start."""

    def is_alive(self) -> bool:
        """Return False if it is gone or a zombie."""
        return start_ticks(self.pid) == self.start_ticks

    def send(self, number: signal.Signals) -> None:
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def halt(self) -> None:
        """Stop it (SIGSTOP) and return when it has stopped or is gone, so that it starts no more children.

        The signal takes effect only when the process next leaves the kernel, where it may be forking.
        """
        self.send(signal.SIGSTOP)
        while (stat := _read_stat(self.pid)) is not None and stat.start_ticks == self.start_ticks:
            if stat.state in "TtZX":
                return
            time.sleep(0.001)


@dataclass(frozen=True, slots=True)
class _Stat:
    name: str
    state: str
    parent: int
    session: int
    start_ticks: int


def identify(pid: int) -> ProcessId | None:
    """Return the process that has the number `pid` now, or None."""
    ticks = start_ticks(pid)
    return None if ticks is None else ProcessId(pid, ticks)


def start_ticks(pid: int) -> int | None:
    """Return the start time of a living process in clock ticks since boot; None for a zombie or no process."""
    stat = _read_stat(pid)
    return None if stat is None or stat.state in "ZX" else stat.start_ticks


def is_zombie(pid: int) -> bool:
    """Return whether `pid` is a zombie: it has ended, but its parent has not waited for it."""
    stat = _read_stat(pid)
    return stat is not None and stat.state == "Z"


def descendants(root: ProcessId) -> list[ProcessId]:
    """Return the living descendants of `root`."""
    living = list(_living())
    found: list[ProcessId] = []
    parents = {root.pid} if root.is_alive() else set()
    while parents:
        below = [process for process, stat in living if stat.parent in parents]
        found += below
        parents = {process.pid for process in below}
    return found


def session_members(leader: ProcessId) -> list[ProcessId]:
    """Return the living processes of the session that `leader` began; the leader itself may be gone."""
    first = _read_stat(leader.pid)
    if first is not None and first.start_ticks != leader.start_ticks:
        # the number is another process's now, and so no session of the leader's is left
        return []
    return [
        process for process, stat in _living() if stat.session == leader.pid and stat.start_ticks >= leader.start_ticks
    ]


def end_session(leader: ProcessId, deadline_s: float) -> bool:
    """End all processes of the session that `leader` began, after `deadline_s` with SIGKILL; return whether any ran."""
    members = session_members(leader)
    for process in members:
        process.send(signal.SIGTERM)
    end = time.monotonic() + deadline_s
    while left := session_members(leader):
        if time.monotonic() > end:
            for process in left:
                process.send(signal.SIGKILL)
        time.sleep(0.01)
    return bool(members)


def servers_in(data_directory: Path) -> list[ProcessId]:
    """Return the PostgreSQL processes that work in this data directory, by program name and working directory.

    Other processes in that directory, such as a shell, do not count.
    """
    name, within = os.fsencode(data_directory), str(data_directory)
    # its working directory is still another one, or never changes: initdb, and a server in its first moments
    return [
        process
        for process, stat in _living()
        if stat.name in SERVER_PROGRAMS and (_working_folder(process) == within or name in _arguments(process))
    ]


def end_copies(folder: Path) -> None:
    """End every `cp` from or to a path below `folder` that a killed pgdyno left running."""
    below = os.fsencode(f"{folder}/")
    for process, stat in _living():
        if stat.name == "cp" and any(argument.startswith(below) for argument in _arguments(process)):
            process.send(signal.SIGKILL)
            while process.is_alive():
                time.sleep(0.01)


def _arguments(process: ProcessId) -> list[bytes]:
    try:
        return (PROC / str(process.pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _working_folder(process: ProcessId) -> str | None:
    link = PROC / str(process.pid) / "cwd"
    try:
        at = str(link.readlink())
    except PermissionError:
        return _ask_as_owner(process)
    except OSError:
        return None
    return at.removesuffix(" (deleted)")


_asked: dict[ProcessId, str] = {}
"""The answers of `_ask_as_owner`: a server changes its working directory only once."""


def _ask_as_owner(process: ProcessId) -> str | None:
    """Asks a child of the process's own user for the working directory, which root in a container may not read."""
    if os.geteuid() != 0:
        return None
    if process not in _asked:
        place = PROC / str(process.pid)
        try:
            owner = place.stat()
            answer = subprocess.run(
                ["readlink", str(place / "cwd")],  # noqa: S607 - wherever this system has it
                user=owner.st_uid,
                group=owner.st_gid,
                extra_groups=[],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        at = os.fsdecode(answer.stdout).rstrip("\n").removesuffix(" (deleted)")
        if at in ("", "/"):
            return None
        _asked[process] = at
    return _asked[process]


def _living() -> Iterator[tuple[ProcessId, _Stat]]:
    for entry in PROC.iterdir():
        stat = _read_stat(int(entry.name)) if entry.name.isdecimal() else None
        if stat is not None and stat.state not in "ZX":
            yield ProcessId(int(entry.name), stat.start_ticks), stat


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # the name stands in parentheses and may contain anything, including parentheses
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    return _Stat(head.partition("(")[2], fields[0], int(fields[1]), int(fields[3]), int(fields[19]))
