"""CPU time of a process and all that it started."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_us(root: int, proc: Path = PROC) -> dict[str, int]:
    """CPU time of process `root` and of its living descendants, microseconds; pgdrive tells its own."""
    found: dict[int, tuple[int, str, int, int]] = {}
    for folder in proc.glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            # it has just ended
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        # behind the name: state, parent … utime, stime (proc_pid_stat(5), 14 and 15)
        found[int(folder.name)] = (int(fields[1]), name, int(fields[11]), int(fields[12]))
    user = system = 0
    for pid, (_, name, utime, stime) in found.items():
        if name != "pgdrive" and _is_below(pid, root, found):
            user += utime
            system += stime
    return {"user": user * 1_000_000 // _TICKS, "system": system * 1_000_000 // _TICKS}


def _is_below(pid: int, root: int, found: dict[int, tuple[int, str, int, int]]) -> bool:
    while pid != root:
        if pid not in found or pid <= 1:
            return False
        pid = found[pid][0]
    return True
