"""Checks the file systems of data and WAL: type, options, free space."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.doctor.check import good, note, stop, unknown, warning
from pgdyno.doctor.needs import Place
from pgdyno.doctor.system import System
from pgdyno.mounts import Mount, mount_above, parse_mounts
from pgdyno.records import Check
from pgdyno.units import format_bytes

MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2", "afs", "9p", "virtiofs"}
)
COPY_ON_WRITE = frozenset({"btrfs", "zfs", "bcachefs"})
NO_BARRIER = frozenset({"nobarrier", "barrier=0", "barrier=off"})
VIRTUAL = ("/dev/vd", "/dev/xvd")
SYNCHRONOUS = frozenset({"sync", "dirsync"})
TIGHT = 0.8
"""The share of free space above which a plan's need is called tight."""


def mount_of(system: System, path: Path) -> Mount | None:
    """Returns the mount of the resolved `path`."""
    return mount_above(parse_mounts(system.lines("proc/self/mountinfo")), path)


def disk_kind(system: System, mount: Mount) -> str | None:
    """Returns `solid state, write back cache`; None without a block device."""
    device = system.root / "sys/dev/block" / mount.number
    # a partition's queue is in its parent folder
    for folder in (device, device.resolve().parent):
        try:
            rotational = (folder / "queue/rotational").read_text().strip()
        except OSError:
            continue
        cache = system.text(str((folder / "queue/write_cache").relative_to(system.root)))
        # virtual disks report themselves as rotating
        virtual = mount.device.startswith(VIRTUAL)
        kind = "virtual disk" if virtual else "rotating disk" if rotational == "1" else "solid state"
        return f"{kind}, {cache} cache" if cache else kind
    return None


def described(system: System, mount: Mount) -> str:
    """`ext4 on /dev/vda, virtual disk, write back cache`."""
    disk = disk_kind(system, mount)
    return f"{mount.kind} on {mount.device}" + (f", {disk}" if disk else "")


def file_system(system: System, place: Place) -> Check:
    """`storage.file-system`: the file system of `place`."""
    name = "storage.file-system"
    mount = mount_of(system, place.path)
    if mount is None:
        return unknown(name, f"{place.title}: file system not visible")
    found = f"{place.title}: {described(system, mount)}"
    kind = mount.kind
    if kind in MEMORY and place.in_memory:
        means = "as the plan requires: nothing is durable, and commits do not wait for a disk"
        return note(name, found, means, "compare only with runs in memory")
    if kind in MEMORY:
        means = "nothing is durable, commits do not wait for a disk, and the dataset uses memory"
        return warning(name, found, means, "compare only with runs in memory, or move the data")
    if kind in NETWORK or (kind.startswith("fuse") and kind != "fuseblk"):
        means = "each write and sync goes through a network or another program, which others share"
        return warning(name, found, means, "put data and WAL on a local file system, such as ext4 or XFS")
    if kind == "overlay":
        means = "the first write to a file copies it, and a container's layer is slower than a volume"
        return warning(name, found, means, "put data and WAL on a volume of the container")
    if kind in COPY_ON_WRITE:
        means = "blocks move on every write: results change as the file system ages, and full_page_writes cost twice"
        return note(name, found, means, "give every run a fresh file system, or use ext4 or XFS")
    return good(name, found)


def mount_options(system: System, place: Place) -> Check:
    """`storage.mount-options`: options that weaken durability or cost time."""
    name = "storage.mount-options"
    mount = mount_of(system, place.path)
    if mount is None:
        return unknown(name, f"{place.title}: mount options not visible")
    found = f"{mount.point}: {', '.join(sorted(mount.options))}"
    options = mount.options
    if "ro" in options:
        return stop(name, found, "the file system is read-only", f"mount -o remount,rw {mount.point}")
    if options & NO_BARRIER:
        means = "syncs do not reach the disk: commits are fast, and lost on a power failure"
        return warning(name, found, means, f"mount -o remount,barrier=1 {mount.point}")
    if options & SYNCHRONOUS:
        means = "every write waits for the disk, not only syncs"
        return warning(name, found, means, f"mount -o remount,async {mount.point}")
    if "data=journal" in options:
        return note(name, found, "each page is written twice, first into the journal", "use data=ordered")
    if not options & {"noatime", "relatime"} and mount.kind not in MEMORY:
        means = "each read of a file updates its access time"
        return note(name, found, means, f"mount -o remount,noatime {mount.point}")
    if "discard" in options:
        means = "removed files (old WAL, dropped tables) trim the disk immediately, during trials"
        return note(name, found, means, "mount without discard and run fstrim between runs")
    return good(name, found)


def free_bytes(path: Path) -> tuple[int, int]:
    """Returns the bytes available to an ordinary user at `path`, and the total. Raises OSError."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


def free(place: Place, free_now: int, whole: int) -> Check:
    """`storage.free`: `free_now` of `whole` bytes compared with the plan's need in `place`."""
    name = "storage.free"
    found = f"{place.title}: {format_bytes(free_now)} of {format_bytes(whole)} free"
    if place.limit_bytes is not None:
        free_now = min(free_now, place.limit_bytes)
        found += f", of which the plan allows {format_bytes(place.limit_bytes)}"
    measured = {"free_bytes": free_now, "needed_bytes": place.bytes}
    if place.bytes:
        found += f"; the plan needs about {format_bytes(place.bytes)}"
    change = "free some space, put the cluster on a larger disk (environment.data), or choose a smaller scale"
    if place.limit_bytes is not None:
        change = "raise tmpfs_size, or choose a smaller scale"
    if place.bytes > free_now:
        if place.kept:
            means = "it may suffice, because a kept cluster may already contain the dataset"
            return warning(name, found, means, change, measured)
        return stop(
            name, found, "loads fail when the disk is full, and a full WAL disk stops the server", change, measured
        )
    if place.bytes > TIGHT * free_now:
        means = "WAL may exceed max_wal_size under load; a full disk stops the server"
        return warning(name, found, means, change, measured)
    if free_now < 0.05 * whole:
        return note(name, found, "almost full file systems fragment and slow down writes", change, measured)
    return good(name, found, measured)
