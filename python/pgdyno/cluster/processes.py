"""Processes below one: which they are, and the CPU time of them all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    name: str
    state: str
    user: int
    system: int


def tree_cpu_us(root: int, proc: Path = PROC) -> dict[str, int]:
    """CPU time of process `root` and of its living descendants, microseconds; pgdrive tells its own."""
    found = _all(proc)
    user = system = 0
    for pid, process in found.items():
        if process.name != "pgdrive" and _is_below(pid, root, found):
            user += process.user
            system += process.system
    return {"user": user * 1_000_000 // _TICKS, "system": system * 1_000_000 // _TICKS}


def descendants(root: int, proc: Path = PROC) -> list[int]:
    """All that `root` started and what those did, as far as they live; without itself."""
    found = _all(proc)
    return [
        pid for pid, process in found.items() if pid != root and process.state != "Z" and _is_below(pid, root, found)
    ]


def _all(proc: Path) -> dict[int, _Process]:
    found = {}
    for folder in proc.glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text(errors="replace")
        except OSError:
            # it has just ended
            continue
        _, _, rest = text.partition("(")
        name, _, rest = rest.rpartition(")")
        fields = rest.split()
        # behind the name: state, parent … utime, stime (proc_pid_stat(5), 14 and 15)
        found[int(folder.name)] = _Process(int(fields[1]), name, fields[0], int(fields[11]), int(fields[12]))
    return found


def _is_below(pid: int, root: int, found: dict[int, _Process]) -> bool:
    while pid != root:
        if pid not in found or pid <= 1:
            return False
        pid = found[pid].parent
    return True
