"""Finds and removes what killed runs left behind: servers that still run, and folders without an owner."""

from collections.abc import Set
from pathlib import Path

from filelock import FileLock

from pgdyno.errors import TargetError
from pgdyno.host import boot_id
from pgdyno.messages import Message
from pgdyno.targets.cluster.folders import remove_places
from pgdyno.targets.cluster.instance_record import InstanceRecord, read_record, remove_folder, take_over
from pgdyno.targets.cluster.postmaster import KEPT_DEADLINES, Deadlines, find_postmaster, stop_servers
from pgdyno.targets.cluster.processes import end_copies, end_session, servers_in
from pgdyno.targets.cluster.snapshots.cluster_copy import ClusterCopy
from pgdyno.targets.home import Home, SilentProgress

POOLER_END_S = 5.0


def sweep_leftovers(home: Home) -> list[Message]:
    """Stop servers whose pgdyno is gone and remove their folders; return one note per action.

    Kept clusters are stopped but not removed. It never touches a server whose pgdyno lives, nor a process that is not a
    PostgreSQL of that data directory. Two sweeps may run at once. The notes also name what could not be cleaned up; the
    next sweep tries again.
    """
    if not home.instances.is_dir():
        return []
    said = []
    abandoned = _lock_abandoned(home)
    folders = {folder for folder, _ in abandoned}
    for folder, lock in abandoned:
        try:
            said.append(_sweep(folder, lock, home, folders))
        except TargetError as error:
            said.append(
                Message("leftover-stays", "cannot clean up {folder}: {error}", folder=str(folder), error=error.message)
            )
        finally:
            lock.release()
    return said


def _lock_abandoned(home: Home) -> list[tuple[Path, FileLock]]:
    found = []
    with home.hold_lock("instances", SilentProgress(), ""):
        for folder in sorted(home.instances.iterdir()):
            if not folder.is_dir():
                continue
            try:
                lock = take_over(folder)
            except OSError:
                # the folder belongs to another user
                continue
            if lock is None:
                continue
            record = read_record(folder)
            # the lock shows that the owner is gone; a reused process number must not contradict that
            if record is not None and record.owner_lives():
                lock.release()
                continue
            found.append((folder, lock))
    return found


def _sweep(folder: Path, lock: FileLock, home: Home, abandoned: Set[Path]) -> Message:
    record = read_record(folder)
    data_directory = folder / "data" if record is None else Path(record.data_directory)
    if record is not None and record.pooler is not None and record.boot == boot_id():
        end_session(record.pooler, POOLER_END_S)
    for replica in [] if record is None else record.replicas:
        end_copies(Path(replica).parent)
        _stop(Path(replica), Deadlines())
    is_kept = record is not None and record.keep_data
    # looked for first: a later run on a kept cluster notes that before it starts its server
    is_running, stopped = bool(servers_in(data_directory)), False
    if not (is_kept and _is_used(data_directory, home, abandoned)):
        end_copies(data_directory.parent)
        stopped = is_running and _stop(data_directory, KEPT_DEADLINES if is_kept else Deadlines())
    if record is not None:
        remove_traces(record, folder, home)
    remove_folder(home, folder, lock)
    return _describe(folder, record, stopped)


def remove_traces(record: InstanceRecord, folder: Path, home: Home) -> None:
    """Remove what a stopped server has outside of its `folder`, except a kept cluster. Raises TargetError."""
    ClusterCopy(Path(record.data_directory), home.account, record.keep_data).release()
    # only within the folder: a record must not make pgdyno unmount anything else
    mount = record.mount if record.mount is not None and Path(record.mount).parent == folder else None
    sockets = [] if record.socket_directory is None else [record.socket_directory]
    remove_places([*record.places, *sockets], mount, home.account)


def _is_used(data_directory: Path, home: Home, abandoned: Set[Path]) -> bool:
    records = [read_record(folder) for folder in home.instances.iterdir() if folder not in abandoned]
    return any(record is not None and record.data_directory == str(data_directory) for record in records)


def _stop(data_directory: Path, deadlines: Deadlines) -> bool:
    if not servers_in(data_directory):
        return False
    stop_servers(data_directory, find_postmaster(data_directory), deadlines)
    return True


def _describe(folder: Path, record: InstanceRecord | None, stopped: bool) -> Message:
    if record is None:
        return Message(
            "leftover-of-nobody",
            "stopped the server; removed {folder}" if stopped else "found the folder of a server; removed {folder}",
            folder=str(folder),
        )
    whose: dict[str, str | int] = {"target": record.target, "process": record.owner_pid, "folder": str(folder)}
    if record.keep_data:
        return Message(
            "leftover-kept",
            "stopped the server of target {target}, left by process {process}; removed {folder}; its cluster "
            "{data_directory} is kept"
            if stopped
            else "found the folder of a server of target {target}, left by process {process}; removed {folder}; its "
            "cluster {data_directory} is kept",
            data_directory=record.data_directory,
            **whose,
        )
    return Message(
        "leftover-removed",
        "stopped the server of target {target}, left by process {process}; removed {folder}"
        if stopped
        else "found the folder of a server of target {target}, left by process {process}; removed {folder}",
        **whose,
    )
