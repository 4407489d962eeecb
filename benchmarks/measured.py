"""What processes cost."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """What a child said, and what it cost."""

    out: str
    err: str
    wall_s: float
    cpu_s: float
    """User and system time of the process itself, from wait4."""
    peak_bytes: int
    """Most memory that was resident at once (VmHWM)."""


def run_measured(command: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Runs a command to its end; one that fails ends the benchmark."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **environment})
        peak = _PeakMemory(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        peak.join()
        wall_s = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said, complained = out.read().decode(), err.read().decode()
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {complained}{said}")
    return Measured(said, complained, wall_s, usage.ru_utime + usage.ru_stime, peak.bytes)


def process_cpu_s(pid: int) -> float:
    """User and system time of a process until now. Raises FileNotFoundError when it is gone."""
    return sum(process_ticks(pid)[:2]) / os.sysconf("SC_CLK_TCK")


def process_ticks(pid: int) -> list[int]:
    """User and system time of a process, and of children that it has waited for, as proc_pid_stat(5) has them.

    In clock ticks. Raises FileNotFoundError or ProcessLookupError when it is gone.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


class _PeakMemory(threading.Thread):
    """Reads a process's VmHWM until it is gone: ru_maxrss would start at the size of our own fork."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self.bytes = 0
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.02):
            try:
                status = self._status.read_text()
            except OSError:
                return
            found = re.search(r"VmHWM:\s+(\d+) kB", status)
            if found is None:  # a zombie has no memory
                return
            self.bytes = max(self.bytes, int(found[1]) * 1024)
