"""A child process with what it cost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """What a child said, and what it cost."""

    out: str
    err: str
    wall_s: float
    cpu_s: float
    """User and system time of the process itself, from wait4."""


def run_measured(command: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Runs a command to its end; one that fails ends the benchmark."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **environment})
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said, complained = out.read().decode(), err.read().decode()
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {complained}")
    return Measured(said, complained, wall_s, usage.ru_utime + usage.ru_stime)
