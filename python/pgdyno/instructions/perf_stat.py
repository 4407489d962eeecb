"""Counts instructions by the processor's counters, with Linux's `perf stat`, of a server and the sessions it starts."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from pgdyno.instructions.count_error import CountError

EVENT = "instructions:u"
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def instructions_of(process: int, work: Callable[[], None], event: str = EVENT) -> int:
    """Return what `process`, and all that it starts meanwhile, executes during `work`.

    Raises CountError if perf is missing or may not count, or if the machine has no such counter.
    """
    program = shutil.which("perf")
    if program is None:
        raise CountError("perf is not installed", hint="install the package valgrind, or linux-perf")
    # perf starts this command when it counts, and ends with it
    command = [program, "stat", "-x,", "-e", event, "-p", str(process), "--", "sh", "-c", "echo begun; exec cat"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
        # Ctrl-C is for pgdyno alone
        start_new_session=True,
    ) as perf:
        assert perf.stdin is not None
        assert perf.stdout is not None
        assert perf.stderr is not None
        try:
            if perf.stdout.readline() == b"begun\n":
                work()
            perf.stdin.close()
            said = perf.stderr.read().decode(errors="replace")
        except BaseException:
            os.killpg(perf.pid, signal.SIGKILL)
            raise
    return read_count(said, event)


def read_count(said: str, event: str = EVENT) -> int:
    """Return the number of `event` in what `perf stat -x,` printed. Raises CountError."""
    fields = next((line.split(",") for line in said.splitlines() if f",{event}" in line), [""])
    if fields[0].isdigit():
        return int(fields[0])
    if fields[0].startswith("<not"):
        hint = "install the package valgrind, which needs no counters"
        raise CountError("this machine has no counter of instructions, as many virtual machines", hint=hint)
    if "paranoid" in said or "permission" in said.lower():
        try:
            is_set = f" (kernel.perf_event_paranoid is {_PARANOID.read_text().strip()})"
        except OSError:
            is_set = ""
        hint = "sysctl kernel.perf_event_paranoid=1, and in a container --cap-add=PERFMON; or install valgrind"
        raise CountError(f"perf may not count in the server{is_set}", hint=hint)
    raise CountError(f"perf failed: {(said.strip().splitlines() or ['it printed nothing'])[-1]}")
