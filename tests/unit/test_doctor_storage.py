"""Checks of file systems, free space and syncs: on artificial trees, and the measurement itself on this machine."""

from pathlib import Path

import pytest

from pgdyno.doctor import Needs, Place, storage
from pgdyno.doctor.storage import SyncTime, free_bytes, mount_of, snapshot
from pgdyno.doctor.system import System
from tests.unit.doctor_sample import tree

GIB = 1 << 30
PLACE = Place(Path("/data/pg"), ("data and WAL of pg18",))
LOCAL = Needs(plan="p", servers=1)


def mountinfo(kind: str = "ext4", options: str = "rw,relatime", device: str = "/dev/sda1", super_: str = "rw") -> str:
    return (
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "27 1 8:2 / / rw,relatime - ext4 /dev/root rw\n"
        f"30 27 8:1 / /data {options} shared:1 - {kind} {device} {super_}\n"
        "31 27 8:3 / /database rw - xfs /dev/other rw\n"
        "32 27 8:4 / /with\\040space rw - xfs /dev/space rw\n"
    )


def mounted(root: Path, **kind: str) -> System:
    return tree(root, {"proc/self/mountinfo": mountinfo(**kind)})


def test_the_nearest_mount_above_counts_and_the_last_of_two_at_one_point(tmp_path: Path) -> None:
    for path, device in (
        ("/data", "/dev/sda1"),
        ("/data/pg", "/dev/sda1"),
        ("/dat", "/dev/root"),
        ("/with space/x", "/dev/space"),
        ("/database", "/dev/other"),
    ):
        mount = mount_of(mounted(tmp_path), Path(path))
        assert mount is not None
        assert mount.device == device
        text = mountinfo() + "40 30 0:50 / /data rw - tmpfs none rw\n"
        mount = mount_of(tree(tmp_path, {"proc/self/mountinfo": text}), Path("/data/x"))
        assert mount is not None
        assert mount.kind == "tmpfs"


def test_file_systems(tmp_path: Path) -> None:
    for verdict, kinds in (
        ("good", "ext4 xfs fuseblk"),
        ("note", "btrfs zfs"),
        ("warning", "tmpfs overlay nfs4 fuse.sshfs 9p"),
    ):
        for kind in kinds.split():
            check = storage.file_system(mounted(tmp_path, kind=kind), PLACE)
            assert check.verdict == verdict
            assert f"{kind} on /dev/sda1" in check.found
            assert bool(check.means) == (verdict != "good")
    assert storage.mount_options(mounted(tmp_path, kind="tmpfs", options="rw"), PLACE).verdict == "good"
    place = Place(PLACE.path, PLACE.roles, in_memory=True)
    assert storage.file_system(mounted(tmp_path, kind="tmpfs"), place).verdict == "note"
    assert storage.sync_time(place, LOCAL, SyncTime(1, 2, 1000)).verdict == "good"


def test_disks(tmp_path: Path) -> None:
    for device, rotational, more, kind in (
        ("/dev/nvme0n1", "0", {"queue/write_cache": "write back\n"}, "solid state, write back cache"),
        ("/dev/sda", "1", {"queue/write_cache": "write back\n"}, "rotating disk, write back cache"),
        ("/dev/vda", "1", {"queue/write_cache": "write back\n"}, "virtual disk, write back cache"),
        # a logical volume of a virtual machine does not rotate
        ("/dev/mapper/vg-data", "1", {"cpuinfo": "flags\t: fpu hypervisor\n"}, "virtual disk"),
        ("/dev/mapper/vg-data", "1", {"cpuinfo": "flags\t: fpu\n"}, "rotating disk"),
    ):
        files = {
            "proc/self/mountinfo": mountinfo(device=device),
            "sys/dev/block/8:1/queue/rotational": f"{rotational}\n",
        }
        files |= {
            f"proc/{name}" if name == "cpuinfo" else f"sys/dev/block/8:1/{name}": each for name, each in more.items()
        }
        assert storage.file_system(tree(tmp_path, files), PLACE).found.endswith(f"{device}, {kind}")
    disk = {"sys/block/sda/queue/rotational": "0\n", "sys/block/sda/sda1/partition": "1\n"}
    system = tree(tmp_path, disk | {"proc/self/mountinfo": mountinfo()})
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/8:1").symlink_to(tmp_path / "sys/block/sda/sda1")
    assert storage.file_system(system, PLACE).found.endswith("/dev/sda1, solid state")


def test_mount_options(tmp_path: Path) -> None:
    for options, super_, verdict, remedy in (
        ("rw,noatime", "rw", "good", ""),
        ("rw,relatime", "rw", "good", ""),
        ("rw", "rw", "note", "noatime"),
        ("rw,relatime", "rw,discard", "note", "fstrim"),
        ("rw,relatime", "rw,data=journal", "note", "data=ordered"),
        ("rw,relatime", "rw,nobarrier", "warning", "barrier=1"),
        ("rw,relatime", "rw,barrier=0", "warning", "barrier=1"),
        ("rw,relatime,sync", "rw", "warning", "async"),
        ("ro,relatime", "rw", "stop", "remount,rw"),
    ):
        check = storage.mount_options(mounted(tmp_path, options=options, super_=super_), PLACE)
        assert check.verdict == verdict
        assert remedy in check.change


def test_free_space() -> None:
    for needed, free, kept, verdict in (
        (0, 50, False, "good"),
        (10, 50, False, "good"),
        (45, 50, False, "warning"),
        (51, 50, False, "stop"),
        (51, 50, True, "warning"),
        (0, 4, False, "note"),
    ):
        place = Place(Path("/x"), ("data of a",), bytes=needed * GIB, kept=kept)
        check = storage.free(place, free * GIB, 100 * GIB)
        assert (check.verdict, check.measured) == (verdict, {"free_bytes": free * GIB, "needed_bytes": needed * GIB})
    for needed, limit, free, verdict in (
        (10, 12, 60, "warning"),
        (10, 9, 60, "stop"),
        (10, 50, 60, "good"),
        # a small limit of the plan leaves enough of a large memory, and not of a small one
        (1, 2, 60, "good"),
        (1, 2, 4, "note"),
    ):
        place = Place(Path("/x"), ("data of a",), bytes=needed * GIB, in_memory=True, limit_bytes=limit * GIB)
        check = storage.free(place, free * GIB, 100 * GIB)
        assert check.verdict == verdict
        assert ("tmpfs_size" in check.change) == (verdict != "good")


def test_a_tmpfs_of_its_own_has_the_memory_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for capabilities, own in (("000001ffffffffff", True), ("00000000a80425fb", False)):
        status = f"Name:\tpgdyno\nCapEff:\t{capabilities}\n"
        memory = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"
        system = tree(tmp_path, {"proc/self/status": status, "proc/meminfo": memory})
        monkeypatch.setattr("os.geteuid", lambda: 0)
        limited = Place(tmp_path, ("data of a",), in_memory=True, limit_bytes=GIB)
        free, whole = storage.room(system, limited)
        assert (whole, free == 8 * GIB) == ((16 * GIB, True) if own else (free_bytes(tmp_path)[1], False))
        assert storage.room(system, Place(tmp_path, in_memory=True, roles=()))[1] == free_bytes(tmp_path)[1]


def test_syncs() -> None:
    for median, p99, verdict in (
        (150, 400, "good"),
        (3, 9, "warning"),
        (2_500, 4_000, "note"),
        (12_000, 15_000, "warning"),
        (150, 1_900, "good"),
        (150, 5_000, "note"),
        (150, 30_000, "warning"),
    ):
        check = storage.sync_time(PLACE, LOCAL, SyncTime(median, p99, 1000))
        assert (check.verdict, check.measured) == (verdict, {"median_us": median, "p99_us": p99, "n": 1000})
    check = storage.sync_time(PLACE, LOCAL, SyncTime(200, 400, 1000))
    assert check.means.startswith("one client commits at most 5,000 times per second")
    # slow ones for which nobody waits
    for needs in (Needs(plan="p", writes=False), Needs(plan="p", durable=False)):
        assert storage.sync_time(PLACE, needs, SyncTime(50_000, 90_000, 100)).verdict == "good"


def test_this_machine_is_measured_and_nothing_stays(tmp_path: Path) -> None:
    free, whole = free_bytes(tmp_path)
    assert 0 < free <= whole
    took = storage.measure_sync(tmp_path, 0.05)
    assert 0 < took.median_us <= took.p99_us
    assert took.count >= 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="No such file"):
        storage.measure_sync(tmp_path / "nowhere", 0.05)


def test_how_snapshots_can_be_made() -> None:
    # a file system in memory cannot share blocks
    place = Place(Path("/dev/shm"), ("data of a",))
    found = snapshot(place, None)
    assert (found.id, found.verdict) == ("storage.snapshot", "note")
    assert found.found == "/dev/shm (data of a): copied whole"
    assert snapshot(place, "copy").verdict == "note"
    refusal = snapshot(place, "btrfs")
    assert (refusal.verdict, refusal.found) == ("stop", "/dev/shm (data of a): /dev/shm is on tmpfs")
    # only data is kept in snapshots
    assert [Place(Path("/x"), (role,)).holds_data for role in ("data and WAL of a", "WAL of a")] == [True, False]
