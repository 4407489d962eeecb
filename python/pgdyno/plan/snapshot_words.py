"""Methods to copy a stopped cluster for restoring it."""

from __future__ import annotations

from typing import Literal

SnapshotWay = Literal["copy", "reflink", "btrfs", "zfs"]
"""Copy files, share their blocks, or use a snapshot of the file system."""

FILE_SYSTEMS: dict[SnapshotWay, str] = {"btrfs": "btrfs", "zfs": "zfs"}
"""The required file systems, by the kernel's names."""
PROGRAMS: dict[SnapshotWay, str] = {"btrfs": "btrfs", "zfs": "zfs"}
NO_REFLINK = frozenset({"ext2", "ext3", "ext4", "tmpfs", "ramfs", "f2fs"})
"""File systems in which files cannot share blocks."""


def snapshot_way(value: object) -> object:
    """Validates the method, with a reason for common wrong names. Raises ValueError."""
    if value == "lvm":
        raise ValueError(
            "LVM brings back a whole volume, with whatever else lies there, and only while it is unmounted: "
            'have XFS on the volume, and "reflink"'
        )
    return value
