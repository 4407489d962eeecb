"""One server process: started, waited for, stopped with all its children."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.installation import Installation
from pgdyno.targets.log import explain_whole, read_log
from pgdyno.targets.processes import ProcessId, descendants, identify, is_zombie, servers_in
from pgdyno.targets.programs import spawn
from pgdyno.targets.signals import signals_deferred
from pgdyno.targets.storage import no_space_hint, storing

START_DEADLINE_S = 900.0
"""A kept cluster that was not shut down recovers first, which may take long."""

_POLL_S = 0.02
_PORT_TAKEN = ("Address already in use", "could not create any TCP/IP sockets")


class PortTakenError(Exception):
    """Another process took the port since it was found free."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each way of stopping is given."""

    fast_s: float = 30.0
    """SIGINT: sessions are ended, a checkpoint is written."""
    immediate_s: float = 10.0
    """SIGQUIT: no checkpoint."""
    kill_s: float = 10.0


KEPT_DEADLINES = Deadlines(fast_s=300)
"""For a cluster that is kept, and so is worth a checkpoint."""


@dataclass(slots=True)
class Postmaster:
    """The server of one data directory."""

    installation: Installation
    data_directory: Path
    log_path: Path
    account: Account
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the server's environment, beside those that every program of the installation gets."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    identity: ProcessId | None = None

    def launch(self) -> None:
        """Starts the process; `wait_ready` waits for it. Signals are deferred until it is noted."""
        program = self.installation.program("postgres")
        _remove_lock_of_zombie(self.data_directory)
        with storing(self.log_path, "cannot write"):
            log = self.log_path.open("ab")
        with log, signals_deferred():
            environment = {**self.installation.environment(), **self.variables}
            self.process = spawn([program, "-D", str(self.data_directory)], self.account, environment, log)
            self.identity = identify(self.process.pid)

    def wait_ready(self, log_offset: int, settings: Mapping[str, str]) -> None:
        """Returns when the server accepts connections.

        `log_offset` is where the log of this start begins. Raises PortTakenError, and TargetError with the
        server's own words when it dies; `settings` are those of the plan, which it may be due to.
        """
        assert self.process is not None
        end = time.monotonic() + START_DEADLINE_S
        while read_status(self.data_directory, self.process.pid) != "ready":
            if self.process.poll() is not None:
                raise self._death(read_log(self.log_path, log_offset), settings)
            if time.monotonic() > end:
                raise TargetError(
                    f"cannot start PostgreSQL {self.installation.version}: not ready after {START_DEADLINE_S:.0f} s: "
                    f"{explain_whole(read_log(self.log_path, log_offset))}"
                )
            time.sleep(_POLL_S)

    def is_alive(self) -> bool:
        """True while the process runs."""
        return self.process is not None and self.process.poll() is None

    def stop(self, deadlines: Deadlines) -> None:
        """Stops it with all its children. Raises TargetError when something of it stays."""
        if self.process is None:
            return
        stop_servers(self.data_directory, self.identity, deadlines)
        self.process.wait()
        self.process = self.identity = None

    def _death(self, text: str, settings: Mapping[str, str]) -> Exception:
        if any(phrase in text for phrase in _PORT_TAKEN):
            return PortTakenError(explain_whole(text))
        hint = None
        if "No space left on device" in text:
            hint = no_space_hint(self.data_directory)
        elif settings:
            hint = f"see the target's settings: {', '.join(settings)}"
        return TargetError(f"cannot start PostgreSQL {self.installation.version}: {explain_whole(text)}", hint=hint)


def read_status(data_directory: Path, pid: int) -> str | None:
    """What the server `pid` says of itself in postmaster.pid: starting, ready, stopping; None before it does."""
    try:
        lines = (data_directory / "postmaster.pid").read_text(errors="replace").splitlines()
    except OSError:
        return None
    # the file may be left from an earlier server
    if len(lines) < 8 or lines[0].strip() != str(pid):
        return None
    return lines[7].strip()


def _remove_lock_of_zombie(data_directory: Path) -> None:
    """Removes a postmaster.pid whose process is dead but was not waited for, as in a container without an init.

    A server refuses to start as long as there is a process of that number.
    """
    path = data_directory / "postmaster.pid"
    try:
        first = path.read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return
    if first.isdecimal() and is_zombie(int(first)) and not servers_in(data_directory):
        with storing(path, "cannot remove"):
            path.unlink(missing_ok=True)


def find_postmaster(data_directory: Path) -> ProcessId | None:
    """The server that runs on this data directory, whoever started it."""
    running = {process.pid: process for process in servers_in(data_directory)}
    try:
        first = (data_directory / "postmaster.pid").read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return None
    return running.get(int(first)) if first.isdecimal() else None


def stop_servers(data_directory: Path, postmaster: ProcessId | None, deadlines: Deadlines) -> None:
    """Stops `postmaster`, its descendants and whatever server works in `data_directory`.

    Fast, then immediate, then by force; without its postmaster nothing of it can be stopped fast, and what it left
    may wait for ever for a lock that somebody held who is gone. Raises TargetError naming what is still there.
    """
    family: set[ProcessId] = set()

    def remaining() -> set[ProcessId]:
        if postmaster is not None and postmaster.is_alive():
            return {postmaster}
        return {process for process in family if process.is_alive()} | set(servers_in(data_directory))

    steps = (
        (signal.SIGINT, deadlines.fast_s),
        (signal.SIGQUIT, deadlines.immediate_s),
        (signal.SIGKILL, deadlines.kill_s),
    )
    is_orphaned = postmaster is not None and not postmaster.is_alive()
    for number, deadline_s in steps[1:] if is_orphaned else steps:
        for root in servers_in(data_directory) if postmaster is None else [postmaster]:
            family.update(descendants(root))
        for process in remaining() | (family if number is signal.SIGKILL else set()):
            process.send(number)
        end = time.monotonic() + deadline_s
        while left := remaining():
            if time.monotonic() > end:
                break
            time.sleep(_POLL_S)
        if not left:
            return
    pids = ", ".join(str(process.pid) for process in sorted(remaining(), key=lambda process: process.pid))
    raise TargetError(f"cannot stop the server in {data_directory}: still there by force: process {pids}")
