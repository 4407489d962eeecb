"""A cluster on a ZFS dataset of its own, whose snapshot can be rolled back in constant time.

The first snapshot creates the dataset below the one that contains the cluster, and mounts it in place of the data
directory. It is destroyed with the cluster. Its name shows that pgdyno created it.
"""

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.mounts import mounted_at
from pgdyno.targets.cluster.folders import copy_tree, run_tool
from pgdyno.targets.home import target_errors
from pgdyno.targets.server_user import Account

KIND = "zfs"
PROGRAM = "zfs"
SNAPSHOT = "pgdyno"
_OURS = re.compile(r".+/pgdyno-[0-9a-f]{8}")


def refusal(folder: Path, *, kept: bool) -> str | None:
    """Return why a cluster in `folder` cannot have a dataset, or None if it is worth trying."""
    mount = mounted_at(folder)
    if mount is None or mount.kind != KIND:
        return f"{folder} is on {mount.kind if mount else 'an unknown file system'}, not on ZFS"
    if kept:
        return "keep_data keeps the cluster, and its dataset would never be destroyed"
    if shutil.which(PROGRAM) is None:
        return "the program zfs is not on the PATH"
    return None if os.geteuid() == 0 else "only root may mount a dataset"


def create_snapshot(data_directory: Path, account: Account) -> None:
    """Move the stopped cluster to a dataset of its own unless it has one, and take a snapshot.

    Raises TargetError.
    """
    dataset = own_dataset(data_directory)
    if dataset is None:
        dataset = _move(data_directory, account)
    else:
        with suppress(TargetError):
            # it may not exist; one that remains makes the next snapshot fail with a message
            run_tool(PROGRAM, "destroy", f"{dataset}@{SNAPSHOT}")
    run_tool(PROGRAM, "snapshot", f"{dataset}@{SNAPSHOT}")


def roll_back(data_directory: Path) -> None:
    """Roll the stopped cluster back to its snapshot, atomically. Raises TargetError."""
    run_tool(PROGRAM, "rollback", f"{own_dataset(data_directory)}@{SNAPSHOT}")


def destroy(data_directory: Path) -> None:
    """Destroys the dataset of a cluster that is removed, if it has one. Raises TargetError."""
    for path in (data_directory, _unfinished_folder(data_directory)):
        dataset = own_dataset(path)
        if dataset is not None:
            run_tool(PROGRAM, "destroy", "-r", "-f", dataset)


def own_dataset(path: Path) -> str | None:
    """Return the dataset that `create_snapshot` mounted at `path`, or None."""
    mount = mounted_at(path) if path.is_dir() else None
    if mount is None or mount.kind != KIND or mount.point != str(path.resolve()) or not _OURS.fullmatch(mount.device):
        return None
    return mount.device


def _move(data_directory: Path, account: Account) -> str:
    below = mounted_at(data_directory)
    assert below is not None
    dataset = f"{below.device}/pgdyno-{secrets.token_hex(4)}"
    unfinished, discarded = _unfinished_folder(data_directory), data_directory.with_name("data.discarded")
    run_tool(PROGRAM, "create", "-o", f"mountpoint={unfinished}", dataset)
    with target_errors(unfinished, "cannot give away"):
        unfinished.chmod(0o700)
        account.take(unfinished)
    copy_tree(data_directory, unfinished, account, "auto")
    with target_errors(data_directory, "cannot move away"):
        data_directory.rename(discarded)
    # unmounts it at the old path, creates the folder, and mounts it at the new one
    run_tool(PROGRAM, "set", f"mountpoint={data_directory}", dataset)
    with target_errors(discarded, "cannot remove"):
        shutil.rmtree(discarded)
    return dataset


def _unfinished_folder(data_directory: Path) -> Path:
    return data_directory.with_name("data.zfs")
