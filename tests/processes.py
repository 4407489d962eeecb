"""Processes of this host that a test may have started: each may end while it is looked at, or gets a signal."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path


def find_processes(is_sought: Callable[[Path], bool]) -> list[int]:
    """Returns the processes whose folder in /proc `is_sought`; what it cannot read is not."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if is_sought(folder):
                found.append(int(folder.name))
    return found


def processes_with(words: bytes) -> list[int]:
    """Returns the processes that have these words in their command line."""
    return find_processes(lambda each: words in (each / "cmdline").read_bytes())


def command_line(pid: int) -> bytes:
    """Returns its words, each ended by a NUL; nothing of a process that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def send_signal(number: int, pids: Iterable[int]) -> None:
    """Sends a signal to those of the processes that have not ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
