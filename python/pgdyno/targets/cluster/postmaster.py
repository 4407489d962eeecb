"""One server process: started at a free port, awaited, explained if it fails, and stopped with its children."""

import re
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.processes import ProcessId, descendants, identify, is_zombie, servers_in
from pgdyno.targets.cluster.subprocesses import spawn
from pgdyno.targets.home import no_space_hint, target_errors
from pgdyno.targets.server_user import Account

CORRECT_SETTINGS = "correct settings"
"""The remedy of a setting that the server refuses."""
TAIL_LINES = 10
TAIL_BYTES = 64 * 1024

WRONG_SETTINGS = "contains errors"
"""PostgreSQL's summary of a wrong configuration, whose reasons are in the lines before it."""
_LINE = re.compile(r"^.*?\b(LOG|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT):\s+(.*)$")


def log_size(path: Path) -> int:
    """Return the current size of the log in bytes; 0 without a log."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_log(path: Path, offset: int = 0) -> str:
    """Read the log from byte `offset` on; of a long one only the end."""
    try:
        with path.open("rb") as file:
            file.seek(max(offset, log_size(path) - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def explain(text: str) -> str:
    """Return the lines of a log that say why the server died, or its last lines."""
    said = [(match[1], match[2]) for line in text.splitlines() if (match := _LINE.match(line))]
    fatal = [place for place, (level, _) in enumerate(said) if level in ("FATAL", "PANIC")]
    if not fatal:
        return tail(text) or "it printed nothing"
    last = fatal[-1]
    if WRONG_SETTINGS in said[last][1]:
        # an earlier line reports every wrong line of the configuration
        reasons = [message for level, message in said[:last] if level in ("LOG", "HINT", "DETAIL")]
        return "; ".join(reasons) or said[last][1]
    message = said[last][1]
    for level, more in said[last + 1 :]:
        if level not in ("DETAIL", "HINT"):
            break
        message += f" ({more})"
    return message


def explain_whole(text: str) -> str:
    """Return `explain` followed by the log's last lines, for a log that is removed with its server."""
    reason = explain(text)
    lines = [line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip()]
    more = [line for line in lines if _message(line) not in reason and WRONG_SETTINGS not in line]
    return "\n  ".join([reason, "the server's log:", *more]) if more else reason


def _message(line: str) -> str:
    match = _LINE.match(line)
    return match[2] if match else line


def tail(text: str) -> str:
    """Return the last lines of a log, joined to one line."""
    return " | ".join(line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip())


START_DEADLINE_S = 900.0
"""The time limit for a start; recovery of a kept cluster that was not shut down may take long."""

_POLL_S = 0.02
_PORT_TAKEN = ("Address already in use", "could not create any TCP/IP sockets")


class PortTakenError(Exception):
    """Another process took the port after it was found free."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The time limit of each shutdown mode, in seconds."""

    fast_s: float = 30.0
    """Fast (SIGINT): ends sessions and writes a checkpoint."""
    immediate_s: float = 10.0
    """Immediate (SIGQUIT): writes no checkpoint."""
    kill_s: float = 10.0


KEPT_DEADLINES = Deadlines(fast_s=300)
"""Time limits for a kept cluster, for which a shutdown checkpoint is worth its time."""


@dataclass(slots=True)
class Postmaster:
    """The server of one data directory."""

    installation: Installation
    data_directory: Path
    log_path: Path
    account: Account
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the server in addition to those of every program of the installation."""
    wrapper: Sequence[str] = ()
    """A command that replaces itself by the server, and the options of that command."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    identity: ProcessId | None = None

    def launch(self) -> None:
        """Start the process without waiting for readiness; the caller defers signals until the process is recorded."""
        program = self.installation.program("postgres")
        _remove_lock_of_zombie(self.data_directory)
        with target_errors(self.log_path, "cannot write"):
            log = self.log_path.open("ab")
        with log, signals_deferred():
            environment = {**self.installation.environment(), **self.variables}
            argv = [*self.wrapper, program, "-D", str(self.data_directory)]
            self.process = spawn(argv, self.account, environment, log)
            self.identity = identify(self.process.pid)

    def wait_ready(self, log_offset: int, settings: Mapping[str, str]) -> None:
        """Wait until the server accepts connections.

        `log_offset` is where the log of this start begins. Raises PortTakenError, and TargetError with the server's
        message if it dies; `settings` are those of the plan, one of which may be the cause.
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
        return self.process is not None and self.process.poll() is None

    def stop(self, deadlines: Deadlines) -> None:
        """Stop it with all its children. Raises TargetError if a process remains."""
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
        elif settings and WRONG_SETTINGS in text:
            hint = f"{CORRECT_SETTINGS}: {', '.join(settings)}"
        elif settings:
            hint = f"see the target's settings: {', '.join(settings)}"
        status = 0 if self.process is None else self.process.returncode
        # a library may end it before it says anything
        killed = f"{signal.Signals(-status).name} ended it: " if status < 0 else ""
        reason = killed + explain_whole(text)
        return TargetError(f"cannot start PostgreSQL {self.installation.version}: {reason}", hint=hint)


def read_status(data_directory: Path, pid: int) -> str | None:
    """Return the status of the server `pid` in postmaster.pid (starting, ready, stopping), or None."""
    try:
        lines = (data_directory / "postmaster.pid").read_text(errors="replace").splitlines()
    except OSError:
        return None
    # the file may belong to an earlier server
    if len(lines) < 8 or lines[0].strip() != str(pid):
        return None
    return lines[7].strip()


def _remove_lock_of_zombie(data_directory: Path) -> None:
    path = data_directory / "postmaster.pid"
    try:
        first = path.read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return
    if first.isdecimal() and is_zombie(int(first)) and not servers_in(data_directory):
        with target_errors(path, "cannot remove"):
            path.unlink(missing_ok=True)


def find_postmaster(data_directory: Path) -> ProcessId | None:
    """Return the server that runs on this data directory, whoever started it."""
    running = {process.pid: process for process in servers_in(data_directory)}
    try:
        first = (data_directory / "postmaster.pid").read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return None
    return running.get(int(first)) if first.isdecimal() else None


def stop_servers(data_directory: Path, postmaster: ProcessId | None, deadlines: Deadlines) -> None:
    """Stop `postmaster`, its descendants, and all server processes in `data_directory`.

    Tries fast shutdown, then immediate shutdown, then SIGKILL. Without a postmaster it skips fast shutdown: the
    remaining processes may wait for ever for a lock whose holder is gone. Raises TargetError, which names the remaining
    processes.
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
    raise TargetError(f"cannot stop the server in {data_directory}: still running after SIGKILL: process {pids}")


HOST = "127.0.0.1"
MAX_SOCKET_PATH_BYTES = 107
"""Linux limits sun_path to 108 bytes with the terminating zero (unix(7))."""

_LONGEST_SOCKET = "/.s.PGSQL.65535.lock"


def free_port() -> int:
    """Return a free TCP port of the loopback address, which another process may take at any time."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def make_socket_folder(account: Account, announce: Callable[[Path], None]) -> Path:
    """Create a folder for sockets that only `account` (and root) can enter, with a short path.

    Calls `announce` with the path before it creates the folder. Raises TargetError.
    """
    folder = _short_parent(account) / f"pgdyno-{secrets.token_hex(4)}"
    announce(folder)
    with target_errors(folder, "cannot create the folder"):
        folder.mkdir(0o700)
        account.take(folder)
    return folder


def _short_parent(account: Account) -> Path:
    # S108: the name is random, and mkdir fails for an existing path
    tried = list(dict.fromkeys([tempfile.gettempdir(), "/tmp"]))  # noqa: S108
    for place in tried:
        folder = Path(place) / "pgdyno-12345678"
        short = len(str(folder)) + len(_LONGEST_SOCKET) <= MAX_SOCKET_PATH_BYTES
        # the server's user may have no access to the folder for temporary files
        if short and _writable(folder.parent) and account.blocked_at(folder) is None:
            return folder.parent
    raise TargetError(
        f"cannot create a folder for the server's socket: none of {', '.join(tried)} is suitable",
        hint="set TMPDIR to a folder with a short path that can be written to",
    )


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


PORT_ATTEMPTS = 5


def start_at_free_port(
    postmaster: Postmaster,
    configure: Callable[[int], None],
    launch: Callable[[], None],
    settings: Mapping[str, str],
    wanted_port: int | None,
) -> int:
    """Start the server and wait until it is ready, at `wanted_port` if that is free; return its port.

    `configure` writes a port into the configuration, `launch` starts the process; `settings` are the plan's, one of
    which may prevent the start. Raises TargetError.
    """
    reason = ""
    for attempt in range(PORT_ATTEMPTS):
        port = wanted_port if wanted_port is not None and attempt == 0 else free_port()
        configure(port)
        offset = log_size(postmaster.log_path)
        launch()
        try:
            postmaster.wait_ready(offset, settings)
        except PortTakenError as taken:
            reason = str(taken)
            with signals_deferred():
                postmaster.stop(Deadlines())
            continue
        return port
    version = postmaster.installation.version
    raise TargetError(f"cannot start PostgreSQL {version}: {PORT_ATTEMPTS} ports were taken: {reason}")
