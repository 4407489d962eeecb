"""Runs Linux's perf while a load runs, and reads what it recorded. See docs/guides/profiles.md."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

from pgdyno.errors import ExitCode, PgdynoError
from pgdyno.probe.folded_stacks import FoldedStacks, fold, lines_of
from pgdyno.run.process import without_libpq

HZ = 99
"""Not 100: samples must not keep time with anything that happens 100 times a second."""
STACK_BYTES = 8192
"""Of each sample's stack. Distributions build without frame pointers, so perf unwinds a copy of the stack."""
MOST_DATA = "4G"
"""Limit of perf's file: about 0.8 MB a second of a busy processor."""
READY_S, STOP_S, READ_S = 30.0, 60.0, 600.0
"""How long perf may take to begin, to end, and to print its samples before it is killed."""
_NOT_ALLOWED = ("paranoid", "permission", "not permitted", "perfmon")
"""In the messages of a perf that may not sample."""
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_MOST_MESSAGES, _LONGEST = 65_536, 200
"""Characters of its messages that are read, and of the one that is shown."""


class PerfError(PgdynoError):
    """There is no profile; the run does not need it."""

    exit_code = ExitCode.ENGINE


@contextmanager
def recording(pids: Sequence[int], data: Path, log: Path) -> Iterator[None]:
    """Samples the processes `pids`, and all that they start, into the file `data` while the block runs.

    perf's messages go to `log`. perf has ended after the block. Raises PerfError if it does not begin or not end.
    """
    # events are enabled at once: with --delay, perf 6.1 misses the start of processes, and cannot unwind their stacks
    command = ["record", "-F", str(HZ), "--call-graph", f"dwarf,{STACK_BYTES}", "-k", "CLOCK_MONOTONIC"]
    # without its cache of programs in the home directory
    command += ["-N", "-B", f"--max-size={MOST_DATA}", "-o", str(data), "-p", ",".join(map(str, pids))]
    # perf starts a command when it has begun, and ends with it: this one says so, and ends when pgdyno closes its input
    # or is killed itself
    command += ["--", "sh", "-c", "echo begun; exec cat"]
    with _perf(command, log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], READY_S)
        if not ready:
            raise PerfError(f"perf did not start within {READY_S:.0f} s")
        if not process.stdout.read(1):
            process.wait()
            raise _failure(log)
        yield
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise PerfError(f"perf did not end within {STOP_S:.0f} s") from None
        # it ends its command with SIGTERM, and so itself, when its file has the size allowed
        if process.returncode not in (0, -signal.SIGTERM):
            raise _failure(log)


def recorded(data: Path, since_s: float, until_s: float, log: Path) -> FoldedStacks:
    """Returns the stacks in the file `data` between two times of `time.monotonic`. Raises PerfError."""
    command = ["script", "-i", str(data), "--no-inline", f"--time={since_s:.6f},{until_s:.6f}"]
    command += ["-F", "comm,event,ip,sym,dso"]
    with _perf(command, log) as process:
        assert process.stdout is not None
        # of a perf that hangs, the end closes the pipe
        timer = Timer(READ_S, process.kill)
        timer.start()
        try:
            found = fold(lines_of(process.stdout))
            process.wait()
        finally:
            timer.cancel()
        if process.returncode != 0:
            raise _failure(log)
    if not found.samples:
        raise PerfError("perf recorded no sample", hint="profile a load that keeps the server's processors busy")
    return found


@contextmanager
def _perf(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a running perf, which has ended after the block: killed, if it has not ended by itself."""
    program = shutil.which("perf")
    if program is None:
        packages = "linux-perf on Debian, linux-tools-generic on Ubuntu, perf elsewhere"
        raise PerfError("perf is not installed", hint=f"install its package ({packages}), and resume the run")
    with log.open("wb") as messages:
        try:
            process = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                # perf would look for symbols on servers of the distribution
                env=without_libpq(os.environ) | {"DEBUGINFOD_URLS": ""},
                # Ctrl-C is for pgdyno alone
                start_new_session=True,
            )
        except OSError as error:
            raise PerfError(f"cannot start perf: {(error.strerror or str(error)).lower()}") from error
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                # with the command that it started
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _failure(log: Path) -> PerfError:
    """Returns why perf failed, by its messages."""
    with log.open(errors="replace") as file:
        messages = file.read(_MOST_MESSAGES)
    if any(word in messages.lower() for word in _NOT_ALLOWED):
        try:
            is_set = f" (kernel.perf_event_paranoid is {_PARANOID.read_text().strip()})"
        except OSError:
            is_set = ""
        hint = "sysctl kernel.perf_event_paranoid=1, and in a container --cap-add=PERFMON; then resume the run"
        return PerfError(f"perf may not sample the server{is_set}", hint=hint)
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return PerfError(f"perf failed{f': {lines[-1][:_LONGEST]}' if lines else ''}")
