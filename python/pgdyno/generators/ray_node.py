"""The program that starts Ray on a host and stops it with its parent: `pgdyno generator-node`.

The first line of standard input is the order, in JSON; the line `go` starts Ray, and each further line renews a lease.
When the input closes, the lease runs out, or Ray ends by itself, the program kills all processes that it started, even
detached ones. Until it has checked that all packages are installed, it needs only the standard library.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from pgdyno import __version__

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    name: str
    state: str
    user: int
    system: int


def tree_cpu_us(root: int) -> dict[str, int]:
    """Return the CPU time of process `root` and of its living descendants in microseconds; pgdrive reports its own."""
    found = _list_processes()
    user = system = 0
    for pid, process in found.items():
        if process.name != "pgdrive" and _is_below(pid, root, found):
            user += process.user
            system += process.system
    return {"user": user * 1_000_000 // _TICKS, "system": system * 1_000_000 // _TICKS}


def descendants(root: int) -> list[int]:
    found = _list_processes()
    return [
        pid for pid, process in found.items() if pid != root and process.state != "Z" and _is_below(pid, root, found)
    ]


def _list_processes() -> dict[int, _Process]:
    found = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text(errors="replace")
        except OSError:
            # the process has just ended
            continue
        _, _, rest = text.partition("(")
        name, _, rest = rest.rpartition(")")
        fields = rest.split()
        # after the name: state, parent … utime, stime (proc_pid_stat(5), 14 and 15)
        found[int(folder.name)] = _Process(int(fields[1]), name, fields[0], int(fields[11]), int(fields[12]))
    return found


def _is_below(pid: int, root: int, found: dict[int, _Process]) -> bool:
    while pid != root:
        if pid not in found or pid <= 1:
            return False
        pid = found[pid].parent
    return True


REFUSED = 78
"""The exit code of a node that refuses to start (EX_CONFIG of sysexits.h)."""
LEASE_S = 7.0
"""A node without contact for so long ends: later than its engines (4 s and 3 s), and within 10 s."""

GO = b"go\n"
"""The line that starts a node after its order."""
FOLDER = "{folder}"
"""A placeholder in a command for the folder that a node creates and removes."""

NODE_FOLDER = "PGDYNO_NODE_FOLDER"
"""The variable with this folder for programs on the node."""


def python_version() -> str:
    """Return the version without the patch level, which Ray requires to be equal on all nodes."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def wanted_versions() -> dict[str, str]:
    return {"pgdyno": __version__, "python": python_version(), "ray": version("ray")}


LOOK_S = 0.2
REACH_S = 5.0
"""The time limit for connecting to the head."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2) makes this process the parent of orphaned descendants."""
OWN_SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray ends each process whose head does not answer for this long: on a busy machine, its default of 60 s passes
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}
"""The environment of Ray's processes in a cluster that pgdyno starts."""


class _RefusedError(Exception):
    """Ray cannot start on this host."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def main() -> int:
    """Return the exit code: 0, or REFUSED with the reason as the last line of standard error, in JSON."""
    # unbuffered: a thread that waits in a buffered read prevents the interpreter from exiting
    orders = sys.stdin.buffer.raw  # type: ignore[union-attr]
    line = orders.readline()
    if not line:
        return 0
    order = json.loads(line)
    try:
        _check(order)
        # errors are reported at once; Ray's other nodes must not start before its head
        while (line := orders.readline()) != GO:
            if not line:
                return 0
        _reach(order["reach"])
    except _RefusedError as why:
        print(json.dumps({"refused": str(why), "hint": why.hint}), file=sys.stderr, flush=True)
        return REFUSED
    return _hold(order, orders)


def _check(order: Mapping[str, Any]) -> None:
    wants = order["wants"]
    there = {"pgdyno": __version__, "python": python_version(), "ray": _version("ray")}
    if there["ray"] is None:
        raise _RefusedError("Ray is not installed there", f'pip install "pgdyno[cluster]=={wants["pgdyno"]}" there')
    for name, called in (("pgdyno", "pgdyno"), ("python", "Python"), ("ray", "Ray")):
        if there[name] != wants[name]:
            raise _RefusedError(
                f"{called} is {there[name]} there, and {wants[name]} here", f"install {called} {wants[name]} there"
            )


def _reach(head: str | None) -> None:
    if head is None:
        return
    host, _, port = head.rpartition(":")
    try:
        socket.create_connection((host, int(port)), REACH_S).close()
    except OSError as error:
        raise _RefusedError(
            f"it does not reach this machine at {head}: {error}",
            "generators and driver reach each other on any port: check routes and firewalls",
        ) from error


def _version(name: str) -> str | None:
    try:
        return version(name)
    except (PackageNotFoundError, KeyError):
        return None


def _hold(order: Mapping[str, Any], orders: IO[bytes]) -> int:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    is_over, is_alone = threading.Event(), threading.Event()
    renewed = [time.monotonic()]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: is_over.set())

    def listen() -> None:
        while orders.readline():
            renewed[0] = time.monotonic()
        is_alone.set()
        is_over.set()

    threading.Thread(target=listen, daemon=True).start()
    here = str(Path(sys.executable).parent)
    # a short path, because paths of sockets are limited to 107 bytes
    folder = tempfile.mkdtemp(prefix="pgdyno-ray-", dir="/tmp")
    environment = {
        **os.environ,
        **OWN_SETTINGS,
        "PYTHONWARNINGS": "ignore",
        "RAY_AUTH_TOKEN": order["token"],
        "PATH": f"{here}:{os.environ.get('PATH', '')}",
        NODE_FOLDER: folder,
        **_encryption_variables(order, Path(folder)),
    }
    words = [word.replace(FOLDER, folder) for word in order["command"]]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        while not is_over.wait(LOOK_S) and process.poll() is None:
            _reap(process.pid)
            if time.monotonic() - renewed[0] > order["lease_s"]:
                is_alone.set()
                break
        return 0 if process.poll() is None else 1
    finally:
        _kill_all(process)
        shutil.rmtree(folder, ignore_errors=True)
        if is_alone.is_set() and order["logs"] is not None:
            # also after a driver that ends normally, which tolerates that the folder is gone
            shutil.rmtree(order["logs"], ignore_errors=True)


def _encryption_variables(order: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the variables with which Ray encrypts; none without an authority."""
    if order["tls"] is None:
        return {}
    # the library is there: the versions of the packages were checked before
    from pgdyno.generators.ray_tls import Authority

    told = order["tls"]
    return Authority(told["certificate"], told["key"]).environment(folder / "tls", told["head"])


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills all descendants, and repeats until none is left, because one may start another meanwhile."""
    while below := descendants(os.getpid()):
        # stopped first, so that none sees another one die and reports it
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        process.poll()
        _reap(process.pid)
        time.sleep(0.02)


def _reap(known: int) -> None:
    """Reaps adopted processes, as init does; except `known`, for which its own object waits."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == known:
            return
        with suppress(ChildProcessError):
            os.waitpid(found.si_pid, 0)


if __name__ == "__main__":
    sys.exit(main())
