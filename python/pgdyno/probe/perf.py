"""Runs Linux's perf while a load runs, and counts the stacks that it recorded. See docs/guides/profiles.md."""

import os
import select
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import IO

from pgdyno.errors import ExitCode, PgdynoError
from pgdyno.run.process import without_libpq

LONGEST_LINE = 65_536
"""Bytes; of a longer line, which only a hostile symbol has, the rest is skipped."""
LONGEST_NAME = 120
MOST_FRAMES = 127
"""perf's own limit."""
MOST_STACKS = 20_000
"""Different stacks, so that memory stays bounded; the others are counted as OTHER."""
OTHER = "[other stacks]"
UNKNOWN = "[unknown]"
KERNEL = "_[k]"
"""Ends the name of a function of the kernel, as in other tools."""


@dataclass(slots=True)
class FoldedStacks:
    samples: Counter[str] = field(default_factory=Counter)
    event: str = ""
    """What perf counted, in its words."""
    unresolved: int = 0
    """Samples in a function without a symbol."""


def fold(lines: Iterable[str]) -> FoldedStacks:
    """Count the samples in the output of `perf script -F comm,event,ip,sym,dso`.

    A sample is a line `comm event:`, then a line per frame, the innermost first.
    """
    found = FoldedStacks()
    process: str | None = None
    frames: list[tuple[str, bool]] = []

    def close() -> None:
        if process is None:
            return
        stack = ";".join(
            [_clean_name(process), *(name for name, _ in reversed(frames[:MOST_FRAMES] or [(UNKNOWN, False)]))]
        )
        known = stack in found.samples or len(found.samples) < MOST_STACKS
        found.samples[stack if known else OTHER] += 1
        found.unresolved += not (frames and frames[0][1])

    for line in lines:
        if line[:1] in ("\t", " "):
            frames.append(_frame(line))
        elif line:
            close()
            process, _, event = line.strip().removesuffix(":").rpartition(" ")
            found.event, frames = _clean_name(event), []
    close()
    return found


def lines_of(stream: IO[bytes]) -> Iterator[str]:
    """Yield the lines of `stream`, of very long ones the beginning."""
    while line := stream.readline(LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        yield line.decode("utf-8", "replace").rstrip("\n")


def _frame(line: str) -> tuple[str, bool]:
    """Return the name of a frame `address symbol (file)`, and whether it has a symbol; otherwise its file's name."""
    address, _, rest = line.strip().partition(" ")
    # the kernel adds this to a file that was removed or replaced, such as a program after an upgrade
    name, _, file = rest.removesuffix(")").removesuffix(" (deleted)").rpartition(" (")
    if name in ("", UNKNOWN):
        file = file.rpartition("/")[2].strip("[]()")
        return (UNKNOWN if file in ("", "unknown") else f"[{_clean_name(file)}]"), False
    # the upper half of the addresses is the kernel's
    is_kernel = len(address) == 16 and address.startswith("ffff")
    return _clean_name(name) + (KERNEL if is_kernel else ""), True


def _clean_name(name: str) -> str:
    cut = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    return "".join(each if each.isprintable() else "?" for each in cut.replace(";", ":"))


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
def record_samples(pids: Sequence[int], data: Path, log: Path) -> Iterator[None]:
    """Sample the processes `pids`, and all that they start, into the file `data` while the block runs.

    perf's messages go to `log`. perf has ended after the block. Raises PerfError if it does not begin or not end.
    """
    # events are enabled at once: with --delay, perf 6.1 misses the start of processes, and cannot unwind their stacks
    command = ["record", "-F", str(HZ), "--call-graph", f"dwarf,{STACK_BYTES}", "-k", "CLOCK_MONOTONIC"]
    # without its cache of programs in the home directory
    command += ["-N", "-B", f"--max-size={MOST_DATA}", "-o", str(data)]
    with ExitStack() as stack:
        process = _begin_perf(stack, command, pids, log)
        assert process.stdin is not None
        yield
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise PerfError(f"perf did not end within {STOP_S:.0f} s") from None
        # it ends its command with SIGTERM, and so itself, when its file has the size allowed
        if process.returncode not in (0, -signal.SIGTERM):
            raise _failure(log)


def _begin_perf(stack: ExitStack, command: Sequence[str], pids: Sequence[int], log: Path) -> subprocess.Popen[bytes]:
    """Return a perf that samples `pids`, which `stack` ends. Raises PerfError."""
    while True:
        # perf starts a command when it has begun, and ends with it: this one says so, and ends when pgdyno closes its
        # input or is killed itself
        observed = ["-p", ",".join(map(str, pids)), "--", "sh", "-c", "echo begun; exec cat"]
        with ExitStack() as attempt:
            process = attempt.enter_context(_perf([*command, *observed], log))
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], READY_S)
            if not ready:
                raise PerfError(f"perf did not start within {READY_S:.0f} s")
            if process.stdout.read(1):
                stack.push(attempt.pop_all())
                return process
            process.wait()
        running = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        if not running or running == list(pids):
            raise _failure(log)
        # perf fails if a backend ends before perf has found it
        pids = running


def read_stacks(data: Path, since_s: float, until_s: float, log: Path) -> FoldedStacks:
    """Return the stacks in the file `data` between two times of `time.monotonic`. Raises PerfError."""
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
