"""Starts pgdyno by forking a process that has already imported it: `tests.forked` uses it.

A start of pgdyno takes up to a second of CPU for imports, and the tests start it a thousand times. A forked process
runs the same entry point; tests/unit/test_start_up.py starts real ones.
"""

import array
import atexit
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel

from pgdyno.report import html
from pgdyno.report.translation import current_language
from pgdyno.targets.aws import boto3_clients
from tests.known_versions import ask_never

PAGE = Path(html.__file__).parent / "page"
PACKAGES = ("pgdyno.commands", "pgdyno.experiment", "pgdyno.metrics", "pgdyno.targets", "pgdyno.workloads")
LIBRARIES = (
    "asyncssh", "boto3", "hdrh.codec", "jinja2", "pgdyno.analyse.history", "pgdyno.cli", "pgdyno.importers.write",
    "pgdyno.live.server.web_server", "pgdyno.metrics", "pgdyno.report.analysis", "pgdyno.synthesise.model_folder",
    "pgdyno.watch.page", "pgdyno.watch.sampling", "ruptures", "scipy.optimize", "scipy.special", "scipy.stats",
)  # fmt: skip
"""What commands import later than their own module."""


def main() -> None:
    listener, alive = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in LIBRARIES:
        importlib.import_module(name)
    prepare()
    # the simulated Amazon's time passes with requests: long pauses between them prove nothing
    boto3_clients.FIRST_S = boto3_clients.LONGEST_S = 0.05
    ask_never()
    # it would wait for what all servers of tests have written
    os.sync = lambda: None
    # a collection in a forked process would otherwise look at every object of these modules, and so copy their memory
    gc.collect()
    gc.freeze()
    # a thread would not be in the forked process, and code that waits for it would wait for ever
    assert len(os.listdir("/proc/self/task")) == 1, "an import has started a thread"  # noqa: PTH208
    running = Running(listener, alive)
    # without a request, the tests have ended
    while fds := running.report_until_asked():
        request = socket.socket(fileno=fds[0])
        with request.makefile("rb") as file:
            asked = json.loads(file.readline())
        pid = os.fork()
        if pid == 0:
            for each in (request, *running.sockets):
                each.close()
            become(asked, fds[1:])
        for fd in fds[1:]:
            os.close(fd)
        running.add(pid, request)


class Running:
    """The forked processes that have not ended. One process waits for all: a fork copies the tables of 50,000 pages,
    which takes 20 ms of CPU.
    """

    def __init__(self, listener: socket.socket, alive: int) -> None:
        self._listener, self._alive = listener, alive
        self._workers: dict[int, socket.socket] = {}
        """Connections of the tests' processes, by their file descriptor."""
        self._found: dict[int, tuple[int, socket.socket]] = {}
        """Process and request, by the file descriptor of the process."""

    @property
    def sockets(self) -> list[socket.socket]:
        return [self._listener, *self._workers.values(), *(request for _, request in self._found.values())]

    def add(self, pid: int, request: socket.socket) -> None:
        request.sendall(f"{pid}\n".encode())
        self._found[os.pidfd_open(pid)] = pid, request

    def report_until_asked(self) -> list[int]:
        """Tells exit codes until there is a request, and returns its descriptors; at the tests' end, nothing."""
        while True:
            poll = select.poll()
            for fd in (self._alive, self._listener.fileno(), *self._workers, *self._found):
                poll.register(fd, select.POLLIN)
            ready = [fd for fd, _ in poll.poll()]
            if self._alive in ready:
                return []
            asking = [fd for fd in ready if fd in self._workers]
            for fd in ready:
                if fd in self._found:
                    self._report(fd)
                elif fd == self._listener.fileno():
                    worker, _ = self._listener.accept()
                    self._workers[worker.fileno()] = worker
            for fd in asking:
                if fds := receive_request(self._workers[fd]):
                    return fds
                self._workers.pop(fd).close()

    def _report(self, process: int) -> None:
        pid, request = self._found.pop(process)
        os.close(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # who asked may have given up
        with request, contextlib.suppress(OSError):
            request.sendall(f"{code}\n".encode())


def prepare() -> None:
    """Makes what commands make on first use: the validators of records and plans, and the templates of the report."""
    models = BaseModel.__subclasses__()
    for model in models:
        models += model.__subclasses__()
        if model.__module__.startswith("pgdyno."):
            model.model_rebuild()
    environment = html.page_environment(current_language())
    for template in PAGE.rglob("*.j2"):
        environment.get_template(str(template.relative_to(PAGE)))


def receive_request(control: socket.socket) -> list[int]:
    """Returns the connection of a request and its three standard streams; nothing from a worker that has ended."""
    fds = array.array("i")
    _, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(4 * fds.itemsize))
    for _, _, data in ancillary:
        fds.frombytes(data)
    return list(fds)


def become(asked: dict[str, object], streams: list[int]) -> NoReturn:
    """Runs pgdyno in this process."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update({str(name): str(value) for name, value in dict(asked["env"]).items()})  # type: ignore[call-overload]
    os.chdir(str(asked["cwd"]))
    sys.argv = [str(word) for word in asked["argv"]]  # type: ignore[attr-defined]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # so that the program is not called "python -m tests.fork_server"
    sys.modules["__main__"].__package__ = None
    from pgdyno.__main__ import main as pgdyno_main

    try:
        pgdyno_main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    # what the interpreter does at its end, without removing all modules, which takes longer than most commands
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
