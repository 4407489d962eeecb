"""Keeps concurrent pgdyno runs on one host, or at one server, from disturbing each other unnoticed.

The host has one lock file for all users and homes; the measuring process holds it (flock) and writes its identity into
it. For a server over the network, a session holds an advisory lock for as long as the session lasts; its
application_name identifies the run to others in pg_stat_activity.
"""

import fcntl
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.targets.connection import Address
from pgdyno.targets.home import Progress

FOLDER_VARIABLE = "PGDYNO_LOCKS"
"""The variable that names another folder for the host's lock, such as one that containers share."""
FILE = "pgdyno-measuring.lock"
LOCK_KEY = (0x7067, 0x64796E6F)
"""The key of the advisory lock: "pg", "dyno". docs/guides/targets.md documents both for readers of pg_locks."""
POLL_S = 2.0
_LONGEST_NAME = 63
_LONGEST_RECORD = 4096
_OWN = secrets.token_hex(4)
"""Distinguishes the sessions of this process from those of others."""

_HOLDER = """
    SELECT a.application_name, a.usename, host(a.client_addr), to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ')
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objid = %s AND l.granted
      AND coalesce(a.application_name, '') NOT LIKE %s
    ORDER BY a.backend_start LIMIT 1
"""
"""Searches all databases, because advisory locks belong to one database each."""


class WhenBusy(StrEnum):
    """What to do when another pgdyno is measuring already."""

    REFUSE = "refuse"
    WAIT = "wait"
    ALONGSIDE = "alongside"


@dataclass(frozen=True, slots=True)
class Use:
    """Who measures, and what to do when another pgdyno is measuring already."""

    plan: str = ""
    when_busy: WhenBusy = WhenBusy.REFUSE
    alongside: Message | None = None
    """The note about another pgdyno that measures on this host at the same time."""


HINT = "wait for it with --wait, or measure anyway with --alongside"


# ---- the host ----


@contextmanager
def host_in_use(use: Use, progress: Progress, folder: Path | None = None) -> Iterator[Message | None]:
    """Hold the host's lock for the block. Yields a note if it measures alongside another pgdyno.

    Raises TargetError if another holds the lock and `use` refuses that, or if the lock file is not usable.
    """
    path = (folder or lock_folder()) / FILE
    handle = _open_lock(path)
    try:
        other = _settle(
            use,
            progress,
            attempt=lambda: try_flock(handle),
            holder=lambda: _describe_host_holder(handle),
            place="on this host",
        )
        if other is None:
            record = {"pid": os.getpid(), "plan": use.plan, "since": datetime.now(UTC).isoformat(timespec="seconds")}
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(record).encode(), 0)
        try:
            yield (
                None
                if other is None
                else Message(
                    "alongside-on-host",
                    "measured alongside: another pgdyno is measuring on this host: {holder}",
                    holder=other,
                )
            )
        finally:
            if other is None:
                os.ftruncate(handle, 0)
    finally:
        # the last handle releases the lock; engines and servers have not inherited it
        os.close(handle)


def lock_folder() -> Path:
    """Return the folder of the host's lock, which is the same for every user."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    runtime = Path("/run/lock")
    if os.access(runtime, os.W_OK | os.X_OK):
        return runtime
    return Path(tempfile.gettempdir())


def _open_lock(path: Path) -> int:
    hint = f"remove it if no pgdyno is measuring, or set {FOLDER_VARIABLE} to another folder"
    # opens an existing file without O_CREAT: Linux refuses that for another user's file in a world-writable folder
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with suppress(FileExistsError):
            handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(handle, 0o666)
            return handle
        return os.open(path, flags)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            hint = f"create the folder {path.parent}, or set {FOLDER_VARIABLE} to another one"
        raise TargetError(
            f"cannot open the lock {path}: {(error.strerror or str(error)).lower()}", hint=hint
        ) from error


def try_flock(handle: int) -> bool:
    """Locks an open file without waiting; returns False if another process has the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _describe_host_holder(handle: int) -> str:
    try:
        said = json.loads(os.pread(handle, _LONGEST_RECORD, 0))
        pid, plan, since = int(said["pid"]), str(said["plan"]), str(said["since"])
    except (ValueError, KeyError, TypeError):
        return "its lock does not name it"
    shown = "".join(each if each.isprintable() else "?" for each in f"plan {plan}, since {since}")
    return f"process {pid}, {shown}"


# ---- a server ----


@contextmanager
def server_in_use(address: Address, dbname: str, use: Use, progress: Progress) -> Iterator[Message | None]:
    """Hold the server's lock in a separate session in `dbname`. Yields a note, as `host_in_use` does.

    Raises TargetError if another holds it and `use` refuses that, or if the server is unreachable.
    """
    name = f"pgdyno {_OWN} {os.getpid()}@{socket.gethostname()[:20]} {use.plan}"
    session = address.connect(
        dbname, application_name=name.encode()[:_LONGEST_NAME].decode(errors="ignore"), keepalives_idle="60"
    )
    try:
        with suppress(psycopg.errors.UndefinedObject):
            session.execute("SET idle_session_timeout = 0")
        other = _settle(
            use,
            progress,
            attempt=lambda: _try_advisory(session),
            holder=lambda: _describe_holder(_holder(session)),
            place="this server",
        )
        yield (
            None
            if other is None
            else Message(
                "alongside-at-server",
                "measured alongside: another pgdyno is measuring this server: {holder}",
                holder=other,
            )
        )
    finally:
        session.close()


def server_holder(connection: psycopg.Connection[tuple[Any, ...]]) -> str | None:
    """Describe who measures the server of `connection` now; None if only this process does."""
    found = _holder(connection)
    return None if found is None else _describe_holder(found)


def _try_advisory(session: psycopg.Connection[tuple[Any, ...]]) -> bool:
    if _holder(session) is not None:
        return False
    row = session.execute("SELECT pg_try_advisory_lock_shared(%s, %s)", LOCK_KEY).fetchone()
    assert row is not None
    if _holder(session) is None:
        return bool(row[0])
    # two processes asked at the same moment: both release the lock, and retry at different times
    session.execute("SELECT pg_advisory_unlock_shared(%s, %s)", LOCK_KEY)
    time.sleep(secrets.randbelow(1000) / 1000)
    return False


def _holder(connection: psycopg.Connection[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    return connection.execute(_HOLDER, [*LOCK_KEY, f"pgdyno {_OWN} %"]).fetchone()


def _describe_holder(row: tuple[Any, ...] | None) -> str:
    if row is None or row[0] is None:
        return "a session whose details this role cannot see"
    name, user, client, since = row
    return f"session {name!r} of {user} from {client or 'a local socket'}, since {since}"


# ---- both ----


def _settle(
    use: Use, progress: Progress, *, attempt: Callable[[], bool], holder: Callable[[], str], place: str
) -> str | None:
    """Return None if this process has the lock, else the holder, alongside which it is to measure."""
    shown = ""
    while not attempt():
        other = holder()
        said = f"another pgdyno is measuring {place}: {other}"
        if use.when_busy is WhenBusy.REFUSE:
            raise TargetError(said, hint=HINT)
        if use.when_busy is WhenBusy.ALONGSIDE:
            return other
        if said != shown:
            progress.step(f"waiting: {said}")
            shown = said
        time.sleep(POLL_S)
    return None


@dataclass(slots=True)
class JournalLock:
    """The lock of a file or folder, held until `release` or the end of the process."""

    _handle: int | None = field(default=None, repr=False)

    def hold(self, path: Path) -> bool:
        """Locks `path`; returns False if another process has the lock, or removed `path`."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        if not try_flock(handle):
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
