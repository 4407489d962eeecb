"""A cluster on a ZFS dataset of its own, whose snapshot is rolled back at once.

The dataset is made below the one that the cluster lies on when the snapshot is made, is mounted where the data
directory was, and is destroyed with it. Its name tells that it is ours.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.mounts import mounted_at
from pgdyno.targets.account import Account
from pgdyno.targets.cluster.folders import copy_tree, run_tool
from pgdyno.targets.home import storing

KIND = "zfs"
PROGRAM = "zfs"
SNAPSHOT = "pgdyno"
_OURS = re.compile(r".+/pgdyno-[0-9a-f]{8}")


def refusal(folder: Path, *, kept: bool) -> str | None:
    """Why a cluster in `folder` cannot have a dataset; None when that can be tried."""
    mount = mounted_at(folder)
    if mount is None or mount.kind != KIND:
        return f"{folder} lies on {mount.kind if mount else 'nothing that is to be seen'}, not on ZFS"
    if kept:
        return "a kept cluster would leave a dataset behind that nobody destroys (keep_data)"
    if shutil.which(PROGRAM) is None:
        return "there is no program zfs on the PATH"
    return None if os.geteuid() == 0 else "only root may mount a dataset"


def make(data_directory: Path, account: Account) -> None:
    """Moves the stopped cluster onto a dataset of its own unless it is on one, and makes its snapshot.

    Raises TargetError.
    """
    dataset = own_dataset(data_directory)
    if dataset is None:
        dataset = _move(data_directory, account)
    else:
        with suppress(TargetError):
            # there may be none; one that stays is in the way of the next, which says so
            run_tool(PROGRAM, "destroy", f"{dataset}@{SNAPSHOT}")
    run_tool(PROGRAM, "snapshot", f"{dataset}@{SNAPSHOT}")


def roll_back(data_directory: Path) -> None:
    """Makes the stopped cluster what it was; whole or not at all. Raises TargetError."""
    run_tool(PROGRAM, "rollback", f"{own_dataset(data_directory)}@{SNAPSHOT}")


def destroy(data_directory: Path) -> None:
    """Destroys the dataset of a cluster that goes; nothing when it has none. Raises TargetError."""
    for path in (data_directory, _unfinished(data_directory)):
        dataset = own_dataset(path)
        if dataset is not None:
            run_tool(PROGRAM, "destroy", "-r", "-f", dataset)


def own_dataset(path: Path) -> str | None:
    """The dataset that `make` mounted at `path`; None when there is none."""
    mount = mounted_at(path) if path.is_dir() else None
    if mount is None or mount.kind != KIND or mount.point != str(path.resolve()) or not _OURS.fullmatch(mount.device):
        return None
    return mount.device


def _move(data_directory: Path, account: Account) -> str:
    below = mounted_at(data_directory)
    assert below is not None
    dataset = f"{below.device}/pgdyno-{secrets.token_hex(4)}"
    unfinished, discarded = _unfinished(data_directory), data_directory.with_name("data.discarded")
    run_tool(PROGRAM, "create", "-o", f"mountpoint={unfinished}", dataset)
    with storing(unfinished, "cannot give away"):
        unfinished.chmod(0o700)
        account.take(unfinished)
    copy_tree(data_directory, unfinished, account, "auto")
    with storing(data_directory, "cannot move away"):
        data_directory.rename(discarded)
    # unmounts it there, makes the folder, mounts it here
    run_tool(PROGRAM, "set", f"mountpoint={data_directory}", dataset)
    with storing(discarded, "cannot remove"):
        shutil.rmtree(discarded)
    return dataset


def _unfinished(data_directory: Path) -> Path:
    return data_directory.with_name("data.zfs")
