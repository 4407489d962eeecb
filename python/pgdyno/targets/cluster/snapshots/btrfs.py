"""Subvolumes of btrfs: a snapshot of such a folder takes constant time, whatever its size."""

import secrets
import shutil
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.mounts import mounted_at
from pgdyno.targets.cluster.folders import run_tool
from pgdyno.targets.home import target_errors

KIND = "btrfs"
PROGRAM = "btrfs"
_ROOT_INODE = 256
"""The inode number of every subvolume's root folder (BTRFS_FIRST_FREE_OBJECTID)."""


def refusal(folder: Path) -> str | None:
    """Return why `folder`, which exists, cannot hold subvolumes, or None; it creates one and removes it."""
    mount = mounted_at(folder)
    if mount is None or mount.kind != KIND:
        return f"{folder} is on {mount.kind if mount else 'an unknown file system'}, not on btrfs"
    if shutil.which(PROGRAM) is None:
        return "the program btrfs is not on the PATH (Debian's package btrfs-progs)"
    trial = folder / f".pgdyno-{secrets.token_hex(4)}"
    try:
        create(trial)
    except TargetError as error:
        return error.message
    remove(trial)
    return None


def is_subvolume(path: Path) -> bool:
    """Return whether the folder `path` is a subvolume."""
    if not path.is_dir() or path.is_symlink() or path.stat().st_ino != _ROOT_INODE:
        return False
    mount = mounted_at(path)
    return mount is not None and mount.kind == KIND


def create(path: Path) -> None:
    """Create an empty subvolume with access only for its owner. Raises TargetError."""
    run_tool(PROGRAM, "subvolume", "create", str(path))
    with target_errors(path, "cannot close"):
        path.chmod(0o700)


def snapshot(source: Path, to: Path) -> None:
    """Create `to` as a snapshot of the subvolume `source`, synced to disk. Raises TargetError."""
    run_tool(PROGRAM, "subvolume", "snapshot", str(source), str(to))


def remove(path: Path) -> None:
    """Remove a subvolume with its content, file by file if the right to delete subvolumes is missing.

    Raises TargetError.
    """
    try:
        run_tool(PROGRAM, "subvolume", "delete", str(path))
    except TargetError:
        with target_errors(path, "cannot remove"):
            if path.exists():
                shutil.rmtree(path)
