"""The folder of one instance, which records the owner of its server.

It is created before anything is started and holds `instance.json`, the server's log, and the cluster unless that is
kept. The owner locks it for as long as the owner lives; a process that gets the lock of another's folder knows that the
owner is gone.
"""

import os
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from pgdyno.host import boot_id
from pgdyno.records import Record
from pgdyno.targets.cluster.processes import PROC, ProcessId, start_ticks
from pgdyno.targets.home import Home, SilentProgress, ensure_folder, target_errors, write_whole

RECORD = "instance.json"
LOCK = "owner.lock"


class InstanceRecord(Record):
    """The content of `instance.json`."""

    target: str
    owner_pid: int
    owner_start_ticks: int
    """Clock ticks from boot to the owner's start; distinguishes it from a later process with the same number."""
    pid_namespace: str
    """The namespace of `owner_pid`; a container has its own."""
    boot: str
    """The boot of the machine that the ticks count from."""
    postmaster_pid: int | None = None
    postmaster_start_ticks: int | None = None
    pooler_pid: int | None = None
    pooler_start_ticks: int | None = None
    data_directory: str
    keep_data: bool = False
    """Whether `data_directory` is a kept cluster, outside of this folder."""
    socket_directory: str | None = None
    places: list[str] = []
    """The server's folders at other locations."""
    mount: str | None = None
    """The mount point of its tmpfs, within this folder."""
    replicas: list[str] = []
    """The data directories of its standbys."""

    @property
    def owner(self) -> ProcessId:
        """Return the pgdyno process that owns the instance."""
        return ProcessId(self.owner_pid, self.owner_start_ticks)

    @property
    def postmaster(self) -> ProcessId | None:
        """Return the server's process, if it was started."""
        if self.postmaster_pid is None or self.postmaster_start_ticks is None:
            return None
        return ProcessId(self.postmaster_pid, self.postmaster_start_ticks)

    @property
    def pooler(self) -> ProcessId | None:
        """Return the pooler's first process, if one was started."""
        if self.pooler_pid is None or self.pooler_start_ticks is None:
            return None
        return ProcessId(self.pooler_pid, self.pooler_start_ticks)

    def owner_lives(self) -> bool:
        """Return whether the owner is visibly alive; an owner of another boot or container is not visible."""
        here = self.boot == boot_id() and self.pid_namespace == pid_namespace()
        return here and self.owner.is_alive()


class Claim:
    """The folder of an instance that this process owns."""

    def __init__(self, home: Home, folder: Path, lock: FileLock, record: InstanceRecord) -> None:
        """Only `make_claim` calls this; nothing is on disk before `begin`."""
        self.folder = folder
        self._home = home
        self.record = record
        self._lock = lock

    @property
    def log_path(self) -> Path:
        return self.folder / "server.log"

    @property
    def data_directory(self) -> Path:
        """The path of a cluster that is not kept."""
        return self.folder / "data"

    def begin(self) -> None:
        """Create and lock the folder, and write the first record. Raises TargetError."""
        ensure_folder(self.folder)
        with target_errors(self.folder, "cannot lock"):
            self._lock.acquire(timeout=0)
        self.note()

    def note(self, **changes: object) -> None:
        """Write changed fields of the record to disk. Raises TargetError."""
        record = self.record.model_copy(update=changes)
        write_whole(self.folder / RECORD, record.model_dump_json(indent=2).encode())
        self.record = record

    def remove(self) -> None:
        """Remove the folder with its content, and unlocks it. Raises TargetError."""
        remove_folder(self._home, self.folder, self._lock)


def make_claim(home: Home, target: str) -> Claim:
    """Create a folder for this process under `home.instances`. Raises TargetError."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = home.instances / f"{now}-{os.getpid()}-{secrets.token_hex(3)}"
    own_ticks = start_ticks(os.getpid())
    record = InstanceRecord(
        target=target,
        owner_pid=os.getpid(),
        owner_start_ticks=own_ticks or 0,
        pid_namespace=pid_namespace(),
        boot=boot_id(),
        data_directory=str(folder / "data"),
    )
    ensure_folder(home.instances)
    # a sweep holds this lock as well, so that it never sees a half-made folder
    claim = Claim(home, folder, _owner_lock(folder), record)
    try:
        with home.hold_lock("instances", SilentProgress(), ""):
            claim.begin()
    except BaseException:
        claim.remove()
        raise
    return claim


def take_over(folder: Path) -> FileLock | None:
    """Take the lock of a folder whose owner has released it; None while an owner holds it. Raises OSError."""
    lock = _owner_lock(folder)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    return lock


def read_record(folder: Path) -> InstanceRecord | None:
    """Read the record in a folder; None if it is missing or damaged."""
    try:
        return InstanceRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def remove_folder(home: Home, folder: Path, lock: FileLock) -> None:
    """Remove an instance's folder, whose `lock` this process holds, and unlocks it. Raises TargetError."""
    with target_errors(folder, "cannot remove"):
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()
    # otherwise a sweep could recreate the lock file in a folder that is being removed
    with home.hold_lock("instances", SilentProgress(), ""), target_errors(folder, "cannot remove"):
        (folder / LOCK).unlink(missing_ok=True)
        if folder.is_dir():
            folder.rmdir()
    lock.release()


def pid_namespace() -> str:
    """Return the name of the PID namespace of this process."""
    try:
        return str((PROC / "self" / "ns" / "pid").readlink())
    except OSError:
        return ""


def _owner_lock(folder: Path) -> FileLock:
    return FileLock(folder / LOCK, thread_local=False)
