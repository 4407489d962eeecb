"""Executes a plan's events on a server during a trial."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pgdyno.errors import TargetError
from pgdyno.plan.model import EventSpec
from pgdyno.plan.own_data.psql_reader import read_statements
from pgdyno.targets.cluster.postmaster import START_DEADLINE_S, find_postmaster
from pgdyno.targets.cluster.processes import ProcessId, descendants
from pgdyno.targets.operations.backup import backup_command
from pgdyno.targets.operations.run_sql import run_statements
from pgdyno.targets.server import Server
from pgdyno.units import quantity

_POLL_S = 0.05
_READ_BYTES = 65_536
_SHOWN = 200
"""Characters of a command's last line in the message."""
_END_S = 5.0
"""How long a command may take to end after SIGTERM."""


class Until(Protocol):
    """Tells an action whether the trial has ended."""

    def is_cut(self) -> bool:
        """Return whether the trial is over."""

    def wait(self, seconds: float) -> bool:
        """Wait up to the timeout, or until the trial is over; return whether it is over."""

    def stop_at_end(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `stop` if the trial ends during the block."""


@dataclass(frozen=True, slots=True)
class Acts:
    """Executes the events of a plan on `server`."""

    server: Server
    folder: Path
    """The working directory of commands."""
    log: Path
    """The file for the commands' output."""
    log_name: str
    """The path at which users find `log` after the trial."""

    def __call__(self, event: EventSpec, until: Until) -> str | None:
        """Execute `event`; return a description. Raises TargetError, psycopg.Error, OSError."""
        if event.command is not None:
            return self._shell(event.command, event.wants_password, until)
        acts: dict[str, Callable[[EventSpec, Until], str | None]] = {
            "sql": lambda event, until: self._statements(event.sql or "", until),
            "backup": self._backup,
            "checkpoint": lambda _event, until: self._statements("CHECKPOINT", until),
            "vacuum": lambda _event, until: self._statements("VACUUM", until),
            "restart": self._restart,
            "kill": self._kill,
            "promote": self._promote,
            "pause": self._pause,
        }
        return acts[event.name](event, until)

    def undo(self, event: EventSpec, until: Until) -> None:
        """Run the SQL that undoes `event`, if it has any. Raises TargetError."""
        if event.undo is not None:
            self._statements(event.undo, until)

    def invalid_indexes(self) -> set[str]:
        """Return the indexes that a CREATE INDEX CONCURRENTLY left unfinished. Raises TargetError, psycopg.Error."""
        query = "SELECT indexrelid::regclass::text FROM pg_catalog.pg_index WHERE NOT indisvalid"
        with self.server.connect() as connection:
            return {name for (name,) in connection.execute(query).fetchall()}

    def _statements(self, sql: str, until: Until) -> None:
        with self.server.connect() as connection, until.stop_at_end(connection.cancel):
            if until.is_cut():
                # a query that has not begun cannot be cancelled
                raise TargetError(f"the trial ended before {sql} began")
            run_statements(connection, read_statements(sql, self.folder), "the server refused it", until.is_cut)

    def _backup(self, event: EventSpec, until: Until) -> str:
        folders = []
        if self.server.machine is not None:
            with suppress(OSError, TargetError):
                folders.append(Path(f"/proc/{_postmaster(self.server).pid}/exe").readlink().parent)
        with self.server.connect() as connection:
            version = connection.info.server_version
        # in the trial's folder, which is removed if pgdyno is killed meanwhile
        to = self.log.parent.parent / "backup"
        command = backup_command(version, to, event.max_rate, folders)
        try:
            # its words are kept in memory: it may fill the disk with the log
            with open(os.memfd_create("pg_basebackup"), "w+b") as output:  # noqa: PTH123 - no path
                self._command(command, output, until, password=True)
            size = sum(each.stat().st_size for each in to.rglob("*") if each.is_file())
        finally:
            shutil.rmtree(to, ignore_errors=True)
        return f"{size:,} bytes"

    def _restart(self, _event: EventSpec, _until: Until) -> None:
        port = self.server.port
        self.server.restart()
        if self.server.port != port:
            raise TargetError(f"the server came back on port {self.server.port}, but clients connect to port {port}")

    def _kill(self, _event: EventSpec, _until: Until) -> str:
        postmaster = _postmaster(self.server)
        children = descendants(postmaster)
        for child in children:
            child.send(signal.SIGKILL)
        return f"{quantity(len(children), 'process', 'processes')} killed"

    def _promote(self, _event: EventSpec, _until: Until) -> str:
        # checked first, so that the primary is not stopped in vain
        self.server.followers()
        postmaster = _postmaster(self.server)
        # a stopped process starts no others, and without its postmaster the server does not recover
        postmaster.halt()
        processes = [*descendants(postmaster), postmaster]
        for process in processes:
            process.send(signal.SIGKILL)
        began = time.monotonic()
        self.server.promote()
        took_s = time.monotonic() - began
        return f"{quantity(len(processes), 'process', 'processes')} killed, the replica took over after {took_s:.3f} s"

    def _pause(self, event: EventSpec, until: Until) -> str:
        assert event.lasts is not None
        with pause_server(_postmaster(self.server)) as count:
            if until.wait(event.lasts):
                raise TargetError("the trial ended during the pause")
        return f"{quantity(count, 'process', 'processes')} stopped"

    def _shell(self, command: str, wants_password: bool, until: Until) -> str:
        with self.log.open("a+b") as log:
            self._command(["/bin/sh", "-c", command], log, until, password=wants_password)
        return "exit code 0"

    def _command(self, command: Sequence[str], log: IO[bytes], until: Until, *, password: bool) -> None:
        environment = {**os.environ, **self.server.commands_environment()}
        if not password:
            # the command's children would inherit it, and expose it to whoever may read their environment
            environment.pop("PGPASSWORD", None)
        if command[0] != "/bin/sh":
            # the line that tells the error is found by its English words
            environment["LC_ALL"] = "C"
        before = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # its children must end with it
            start_new_session=True,
        )
        try:
            while process.poll() is None and not until.wait(_POLL_S):
                pass
        finally:
            _end_group(process)
        if process.returncode != 0:
            last = self._telling_line(log, before)
            name = "the command" if command[0] == "/bin/sh" else command[0]
            said = f"{name} ended with exit code {process.returncode}{f': {last}' if last else ''}"
            raise TargetError(f"{said}; its output is in {self.log_name}" if name == "the command" else said)

    def _telling_line(self, log: IO[bytes], offset: int) -> str:
        log.seek(max(offset, log.seek(0, os.SEEK_END) - _READ_BYTES))
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        # programs of PostgreSQL say after an error what follows from it, and what they remove
        last = next((line for line in lines if ": error: " in line), lines[-1] if lines else "")
        last = last.replace(self.server.password, "********") if self.server.password else last
        return last if len(last) <= _SHOWN else f"{last[: _SHOWN // 2]}…{last[-_SHOWN // 2 :]}"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        end = time.monotonic() + _END_S
        # the shell may end before its children, which have the same time
        while time.monotonic() < end:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(_POLL_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _postmaster(server: Server) -> ProcessId:
    postmaster = find_postmaster(server.data_directory)
    if postmaster is None:
        raise TargetError("the server does not run")
    return postmaster


@contextmanager
def pause_server(postmaster: ProcessId) -> Iterator[int]:
    """Stop (SIGSTOP) the server and all its processes for the block; yield their number.

    They continue after the block, however it ends. If pgdyno itself is killed, a shell that it started before continues
    them.
    """
    stopped = [postmaster]
    # it reads until this end of the pipe closes, and is in no process group that Ctrl-C reaches
    guard = subprocess.Popen(
        ["/bin/sh", "-c", 'pids=; while read -r pid; do pids="$pids $pid"; done; kill -CONT $pids 2>/dev/null'],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _announce(guard, postmaster)
        # the postmaster comes first: a stopped process starts no others
        postmaster.halt()
        for child in descendants(postmaster):
            _announce(guard, child)
            stopped.append(child)
            child.send(signal.SIGSTOP)
        yield len(stopped)
    finally:
        for process in stopped:
            process.send(signal.SIGCONT)
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()


def _announce(guard: subprocess.Popen[bytes], process: ProcessId) -> None:
    assert guard.stdin is not None
    guard.stdin.write(f"{process.pid}\n".encode())
    guard.stdin.flush()


def wait_accepting(server: Server) -> None:
    """Wait until `server` accepts connections again, as after a crash. Raises TargetError if it does not."""
    end = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            server.connect().close()
        except TargetError:
            if time.monotonic() > end or not server.alive():
                raise
            time.sleep(_POLL_S)
        else:
            return
