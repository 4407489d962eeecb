"""What starts Ray on a host and ends it with whoever holds its standard input: `pgdyno generator-node`.

The first line of standard input is the order, in JSON; Ray is started at the word `go`, and each further line renews
a lease. When the input closes, the
lease runs out, or Ray ends by itself, all that was started here is killed, however it was detached from us.
Only the standard library is needed up to the moment at which everything is known to be there.
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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from pgdyno import __version__
from pgdyno.cluster.processes import descendants
from pgdyno.cluster.requirements import FOLDER, GO, NODE_FOLDER, REFUSED, python_version

LOOK_S = 0.2
REACH_S = 5.0
"""For a connection to the head."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): what our children leave behind becomes ours."""
QUIET = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}


class _RefusedError(Exception):
    """Why Ray is not started here."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def main() -> int:
    """Its exit code: 0, or REFUSED with the reason as the last line of standard error, in JSON."""
    # without a buffer: a thread that waits in one keeps an interpreter from ending
    orders = sys.stdin.buffer.raw  # type: ignore[union-attr]
    line = orders.readline()
    if not line:
        return 0
    order = json.loads(line)
    try:
        _check(order)
        # what does not suit is said at once; Ray's other nodes must not be there before its head is
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
            "generators and driver reach each other on any port: look at routes and firewalls",
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
    # a short path: those of sockets may have 107 bytes only
    folder = tempfile.mkdtemp(prefix="pgdyno-ray-", dir="/tmp")
    environment = {
        **os.environ,
        **QUIET,
        "RAY_AUTH_TOKEN": order["token"],
        "PATH": f"{here}:{os.environ.get('PATH', '')}",
        NODE_FOLDER: folder,
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
            # of a driver that ends in order, too: it does not mind
            shutil.rmtree(order["logs"], ignore_errors=True)


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """What is below us, until nothing is: one that starts another in the meantime is met again."""
    while below := descendants(os.getpid()):
        # stopped first: none is to see how another one dies, and to make a tale of it
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        process.poll()
        _reap(process.pid)
        time.sleep(0.02)


def _reap(known: int) -> None:
    """Takes leave of those that became ours, as init does; `known` is waited for by its own object."""
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
