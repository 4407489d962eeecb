"""File systems under data and WAL: kind, options, room, commit latency, and snapshots of the cluster."""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pgdyno.doctor.check import good, grade_value, note, stop, unknown, warning
from pgdyno.doctor.cpu import is_virtual
from pgdyno.doctor.needs import Needs, Place
from pgdyno.doctor.system import System
from pgdyno.messages import Message
from pgdyno.mounts import Mount, mount_above, parse_mounts
from pgdyno.plan.checks.reset import folder_refusal
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.records import Check
from pgdyno.targets.cluster.snapshots.cluster_copy import WORDS, best_method, refusal_of
from pgdyno.units import format_bytes

MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2", "afs", "9p", "virtiofs"}
)
COPY_ON_WRITE = frozenset({"btrfs", "zfs", "bcachefs"})
NO_BARRIER = frozenset({"nobarrier", "barrier=0", "barrier=off"})
VIRTUAL = ("/dev/vd", "/dev/xvd")
SYNCHRONOUS = frozenset({"sync", "dirsync"})
CAP_SYS_ADMIN = 1 << 21
"""The bit of the right to mount (capabilities(7)), which root in a container usually lacks."""
TIGHT = 0.8
"""The share of free space above which a plan's need is called tight."""


def mount_of(system: System, path: Path) -> Mount | None:
    return mount_above(parse_mounts(system.lines("proc/self/mountinfo")), path)


def disk_kind(system: System, mount: Mount) -> str | None:
    """Return `solid state, write back cache`; None without a block device."""
    device = system.root / "sys/dev/block" / mount.number
    # a partition's queue is in its parent folder
    for folder in (device, device.resolve().parent):
        try:
            rotational = (folder / "queue/rotational").read_text().strip()
        except OSError:
            continue
        cache = system.text(str((folder / "queue/write_cache").relative_to(system.root)))
        # virtual disks report themselves as rotating, also below LVM or under another name
        virtual = mount.device.startswith(VIRTUAL) or (rotational == "1" and is_virtual(system))
        kind = "virtual disk" if virtual else "rotating disk" if rotational == "1" else "solid state"
        return f"{kind}, {cache} cache" if cache else kind
    return None


def describe_mount(system: System, mount: Mount) -> str:
    """`ext4 on /dev/vda, virtual disk, write back cache`."""
    disk = disk_kind(system, mount)
    return f"{mount.kind} on {mount.device}" + (f", {disk}" if disk else "")


def file_system(system: System, place: Place) -> Check:
    name = "storage.file-system"
    mount = mount_of(system, place.path)
    if mount is None:
        return unknown(name, Message("file-system-hidden", "{place}: file system not visible", place=place.title))
    found = Message(
        "file-system", "{place}: {file_system}", place=place.title, file_system=describe_mount(system, mount)
    )
    kind = mount.kind
    if kind in MEMORY and place.in_memory:
        means = Message(
            "memory-as-planned", "as the plan requires: nothing is durable, and commits do not wait for a disk"
        )
        return note(name, found, means, "compare only with runs in memory")
    if kind in MEMORY:
        means = Message(
            "memory-instead-of-disk", "nothing is durable, commits do not wait for a disk, and the dataset uses memory"
        )
        return warning(name, found, means, "compare only with runs in memory, or move the data")
    if kind in NETWORK or (kind.startswith("fuse") and kind != "fuseblk"):
        means = Message(
            "storage-shared", "each write and sync goes through a network or another program, which others share"
        )
        return warning(name, found, means, "put data and WAL on a local file system, such as ext4 or XFS")
    if kind == "overlay":
        means = Message(
            "container-layer", "the first write to a file copies it, and a container's layer is slower than a volume"
        )
        return warning(name, found, means, "put data and WAL on a volume of the container")
    if kind in COPY_ON_WRITE:
        means = Message(
            "copy-on-write",
            "blocks move on every write: results change as the file system ages, and full_page_writes cost twice",
        )
        return note(name, found, means, "give every run a fresh file system, or use ext4 or XFS")
    return good(name, found)


def mount_options(system: System, place: Place) -> Check:
    """`storage.mount-options`: options that weaken durability or cost time."""
    name = "storage.mount-options"
    mount = mount_of(system, place.path)
    if mount is None:
        return unknown(name, Message("mount-options-hidden", "{place}: mount options not visible", place=place.title))
    found = Message(
        "mount-options", "{mount}: {options}", mount=str(mount.point), options=", ".join(sorted(mount.options))
    )
    options = mount.options
    if "ro" in options:
        means = Message("read-only", "the file system is read-only")
        return stop(name, found, means, f"mount -o remount,rw {mount.point}")
    if options & NO_BARRIER:
        means = Message("no-barrier", "syncs do not reach the disk: commits are fast, and lost on a power failure")
        return warning(name, found, means, f"mount -o remount,barrier=1 {mount.point}")
    if options & SYNCHRONOUS:
        means = Message("writes-synchronous", "every write waits for the disk, not only syncs")
        return warning(name, found, means, f"mount -o remount,async {mount.point}")
    if "data=journal" in options:
        means = Message("pages-journalled", "each page is written twice, first into the journal")
        return note(name, found, means, "use data=ordered")
    if not options & {"noatime", "relatime"} and mount.kind not in MEMORY:
        means = Message("access-times", "each read of a file updates its access time")
        return note(name, found, means, f"mount -o remount,noatime {mount.point}")
    if "discard" in options:
        means = Message(
            "trims-in-trials", "removed files (old WAL, dropped tables) trim the disk immediately, during trials"
        )
        return note(name, found, means, "mount without discard and run fstrim between runs")
    return good(name, found)


def unwritable(place: Place, error: OSError) -> Message:
    """Return what is found where a file cannot be written."""
    return Message(
        "cannot-write", "{place}: cannot write there: {error}", place=place.title, error=error.strerror or str(error)
    )


def free_bytes(path: Path) -> tuple[int, int]:
    """Return the bytes available to an ordinary user at `path`, and the total. Raises OSError."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


def room(system: System, place: Place) -> tuple[int, int]:
    """Return the bytes that a server can use in `place`, and the total. Raises OSError.

    A cluster in memory whose size the plan limits gets a tmpfs of its own if pgdyno may mount one, whatever is free in
    /dev/shm.
    """
    if place.in_memory and place.limit_bytes is not None and _may_mount(system):
        available, whole = system.memory_bytes("MemAvailable"), system.memory_bytes("MemTotal")
        if available is not None and whole is not None:
            return available, whole
    return free_bytes(place.path)


def _may_mount(system: System) -> bool:
    capabilities = system.fields("proc/self/status").get("CapEff", "0")
    return os.geteuid() == 0 and bool(int(capabilities, 16) & CAP_SYS_ADMIN)


def free(place: Place, free_now: int, whole: int) -> Check:
    """`storage.free`: `free_now` of `whole` bytes compared with the plan's need in `place`."""
    name = "storage.free"
    found = Message(
        "space-free",
        "{place}: {free} of {whole} free",
        place=place.title,
        free=format_bytes(free_now),
        whole=format_bytes(whole),
    )
    is_almost_full = free_now < 0.05 * whole
    if place.limit_bytes is not None:
        free_now = min(free_now, place.limit_bytes)
        found = Message(
            "space-allowed",
            "{space}, of which the plan allows {limit}",
            space=found,
            limit=format_bytes(place.limit_bytes),
        )
    measured = {"free_bytes": free_now, "needed_bytes": place.bytes}
    if place.bytes:
        found = Message(
            "space-needed", "{space}; the plan needs about {needed}", space=found, needed=format_bytes(place.bytes)
        )
    change = "free some space, put the cluster on a larger disk (environment.data), or choose a smaller scale"
    if place.limit_bytes is not None:
        change = "raise tmpfs_size, or choose a smaller scale"
    if place.bytes > free_now:
        if place.kept:
            means = Message(
                "kept-cluster-may-suffice",
                "the free space may suffice, because a kept cluster may already contain the dataset",
            )
            return warning(name, found, means, change, measured)
        means = Message("disk-too-small", "loads fail when the disk is full, and a full WAL disk stops the server")
        return stop(name, found, means, change, measured)
    if place.bytes > TIGHT * free_now:
        means = Message("disk-almost-too-small", "WAL may exceed max_wal_size under load; a full disk stops the server")
        return warning(name, found, means, change, measured)
    if is_almost_full:
        means = Message("disk-almost-full", "almost full file systems fragment and slow down writes")
        return note(name, found, means, change, measured)
    return good(name, found, measured)


BLOCK = 8192
SEGMENT = 16 << 20
"""The size of a WAL segment: syncs of a file that does not grow need no metadata."""
TOO_FAST_US = 5.0
"""No device flushes faster: a shorter time means that nothing was flushed."""
MEDIAN_NOTE_US, MEDIAN_WARNING_US = 2_000, 10_000
TAIL = 10
"""A p99 of this many medians is unsteady if it also exceeds `TAIL_US`."""
TAIL_US = 2_000


@dataclass(frozen=True, slots=True)
class SyncTime:
    """Times of one write with its fdatasync."""

    median_us: float
    p99_us: float
    count: int


def measure_sync(folder: Path, seconds: float) -> SyncTime:
    """Write and syncs blocks of a temporary file in `folder` for `seconds`. Raises OSError."""
    block = os.urandom(BLOCK)
    took_ns: list[int] = []
    with tempfile.TemporaryFile(prefix="pgdyno-doctor-", dir=folder, buffering=0) as file:
        handle = file.fileno()
        for _ in range(SEGMENT // (1 << 20)):
            file.write(os.urandom(1 << 20))
        os.fsync(handle)
        end = time.monotonic() + seconds
        while time.monotonic() < end or not took_ns:
            begin = time.monotonic_ns()
            os.pwrite(handle, block, 0)
            os.fdatasync(handle)
            took_ns.append(time.monotonic_ns() - begin)
    took_ns.sort()
    return SyncTime(_nearest_rank(took_ns, 0.5) / 1e3, _nearest_rank(took_ns, 0.99) / 1e3, len(took_ns))


def _nearest_rank(ordered: list[int], share: float) -> int:
    """Return a percentile by nearest rank."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def sync_time(place: Place, needs: Needs, took: SyncTime) -> Check:
    """`storage.fsync`: the measurement in `place`."""
    name = "storage.fsync"
    found = Message(
        "sync-time",
        "{place}: median {median} ms, p99 {p99} ms (n = {n:,d})",
        place=place.title,
        median=_ms(took.median_us),
        p99=_ms(took.p99_us),
        n=took.count,
    )
    measured = {"median_us": round(took.median_us, 2), "p99_us": round(took.p99_us, 2), "n": took.count}
    if place.in_memory:
        return good(name, Message("sync-time-memory", "{time}; in memory, as the plan requires", time=found), measured)
    if took.median_us < TOO_FAST_US:
        means = Message(
            "nothing-flushed",
            "no disk is this fast: nothing is flushed (memory, a disabled barrier), so commits are not durable",
        )
        return warning(name, found, means, "see storage.file-system and storage.mount-options", measured)
    if not needs.writes:
        return good(name, Message("sync-time-reads", "{time}; the scripts only read", time=found), measured)
    if not needs.durable:
        unused = Message("sync-time-unused", "{time}; commits of this plan do not wait for it", time=found)
        return good(name, unused, measured)
    means = Message(
        "commits-limited",
        "one client commits at most {most:,.0f} times per second; several clients share a sync",
        most=1e6 / took.median_us,
    )
    change = "use a disk with a protected write cache, or put the WAL on one"
    if took.p99_us > max(TAIL * took.median_us, TAIL_US):
        means = Message(
            "commits-limited-unsteady",
            "{limit}; one sync in a hundred takes much longer, and so does the p99 of commits",
            limit=means,
        )
        return grade_value(
            name, took.p99_us, [(0, note), (MEDIAN_WARNING_US * 2, warning)], found, means, change, measured
        )
    limits = [(MEDIAN_NOTE_US, note), (MEDIAN_WARNING_US, warning)]
    # the limit of commits matters on a good disk, too
    return grade_value(name, took.median_us, limits, found, means, change, measured, always_means=True)


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1e3:.3g}"


NAME = "storage.snapshot"


def snapshot(place: Place, wanted: SnapshotMethod | None) -> Check:
    """Try methods in `place` with temporary files; `wanted` is the plan's reset.snapshot."""
    try:
        if wanted is not None:
            reason = folder_refusal(wanted, place.path) or refusal_of(wanted, place.path, kept=place.kept)
            if reason is not None:
                found = Message("snapshot-refused", "{place}: {reason}", place=place.title, reason=reason)
                means = Message("snapshot-impossible", 'reset.snapshot = "{way}" is not possible here', way=wanted)
                change = "remove reset.snapshot, or put the data on such a file system (environment.data)"
                return stop(NAME, found, means, change)
        way = wanted or best_method(place.path, kept=place.kept)
    except OSError as error:
        return unknown(NAME, unwritable(place, error))
    found = Message("snapshot-way", "{place}: {way}", place=place.title, way=WORDS[way])
    if way == "copy":
        means = Message(
            "snapshot-copies",
            "every trial waits for a copy of the whole cluster, which needs the same disk space again",
        )
        return note(NAME, found, means, "put the data on XFS or btrfs (environment.data), where files can share blocks")
    return good(NAME, found)
