"""Subvolumes of btrfs: a folder of which a snapshot is made at once, whatever its size."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.mounts import mounted_at
from pgdyno.targets.cluster.folders import run_tool
from pgdyno.targets.home import storing

KIND = "btrfs"
PROGRAM = "btrfs"
_ROOT_INODE = 256
"""That of every subvolume's own folder (BTRFS_FIRST_FREE_OBJECTID)."""


def refusal(folder: Path) -> str | None:
    """Why there can be no subvolumes in `folder`, which is there; None when there can: one is made and removed."""
    mount = mounted_at(folder)
    if mount is None or mount.kind != KIND:
        return f"{folder} lies on {mount.kind if mount else 'nothing that is to be seen'}, not on btrfs"
    if shutil.which(PROGRAM) is None:
        return "there is no program btrfs on the PATH (Debian's package btrfs-progs)"
    trial = folder / f".pgdyno-{secrets.token_hex(4)}"
    try:
        create(trial)
    except TargetError as error:
        return error.message
    remove(trial)
    return None


def is_subvolume(path: Path) -> bool:
    """Whether the folder `path` is one of its own."""
    if not path.is_dir() or path.is_symlink() or path.stat().st_ino != _ROOT_INODE:
        return False
    mount = mounted_at(path)
    return mount is not None and mount.kind == KIND


def create(path: Path) -> None:
    """Makes an empty one that is closed to others. Raises TargetError."""
    run_tool(PROGRAM, "subvolume", "create", str(path))
    with storing(path, "cannot close"):
        path.chmod(0o700)


def snapshot(source: Path, to: Path) -> None:
    """Makes `to` what the subvolume `source` is now, on disk. Raises TargetError."""
    run_tool(PROGRAM, "subvolume", "snapshot", str(source), str(to))


def remove(path: Path) -> None:
    """Removes one with all in it; without the right to do that at once, file by file. Raises TargetError."""
    try:
        run_tool(PROGRAM, "subvolume", "delete", str(path))
    except TargetError:
        with storing(path, "cannot remove"):
            if path.exists():
                shutil.rmtree(path)
