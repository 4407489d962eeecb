"""How a stopped cluster is kept to be brought back, in a plan's words."""

from __future__ import annotations

from typing import Literal

SnapshotWay = Literal["copy", "reflink", "btrfs", "zfs"]
"""Files one by one, with blocks shared, or by the file system's own snapshot."""

FILE_SYSTEMS: dict[SnapshotWay, str] = {"btrfs": "btrfs", "zfs": "zfs"}
"""What the cluster must lie on, as the kernel calls it."""
PROGRAMS: dict[SnapshotWay, str] = {"btrfs": "btrfs", "zfs": "zfs"}
NO_REFLINK = frozenset({"ext2", "ext3", "ext4", "tmpfs", "ramfs", "f2fs"})
"""File systems of which it is known that no two files have the same blocks."""


def snapshot_way(value: object) -> object:
    """Refuses what people may look for, with the reason. Raises ValueError."""
    if value == "lvm":
        raise ValueError(
            "LVM brings back a whole volume, with whatever else lies there, and only while it is unmounted: "
            'have XFS on the volume, and "reflink"'
        )
    return value
