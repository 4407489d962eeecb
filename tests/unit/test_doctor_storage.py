"""Checks of file systems, free space and syncs: on artificial trees, and the measurement itself on this machine."""

from pathlib import Path

import pytest

from pgdyno.doctor import Needs, Place, storage
from pgdyno.doctor.storage import SyncTime, free_bytes, mount_of, snapshot
from pgdyno.doctor.system import System
from tests.unit.doctor_sample import tree

GIB = 1 << 30
PLACE = Place(Path("/data/pg"), ("data and WAL of pg18",))


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


def test_the_nearest_mount_above(tmp_path: Path) -> None:
    system = mounted(tmp_path)
    found = {path: mount_of(system, Path(path)) for path in ("/data", "/data/pg", "/dat", "/with space/x", "/database")}
    devices = {path: mount.device if mount else None for path, mount in found.items()}
    assert devices == {
        "/data": "/dev/sda1",
        "/data/pg": "/dev/sda1",
        "/dat": "/dev/root",
        "/with space/x": "/dev/space",
        "/database": "/dev/other",
    }


def test_the_last_of_two_mounts_at_one_point_counts(tmp_path: Path) -> None:
    text = mountinfo() + "40 30 0:50 / /data rw - tmpfs none rw\n"
    mount = mount_of(tree(tmp_path, {"proc/self/mountinfo": text}), Path("/data/x"))
    assert mount is not None
    assert mount.kind == "tmpfs"


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("ext4", "good"),
        ("xfs", "good"),
        ("fuseblk", "good"),
        ("btrfs", "note"),
        ("zfs", "note"),
        ("tmpfs", "warning"),
        ("overlay", "warning"),
        ("nfs4", "warning"),
        ("fuse.sshfs", "warning"),
        ("9p", "warning"),
    ],
)
def test_file_systems(tmp_path: Path, kind: str, verdict: str) -> None:
    check = storage.file_system(mounted(tmp_path, kind=kind), PLACE)
    assert check.verdict == verdict
    assert f"{kind} on /dev/sda1" in check.found
    assert bool(check.means) == (verdict != "good")


@pytest.mark.parametrize(
    ("device", "folder", "rotational", "kind"),
    [
        ("/dev/nvme0n1", "8:1", "0", "solid state, write back cache"),
        ("/dev/sda", "8:1", "1", "rotating disk, write back cache"),
        ("/dev/vda", "8:1", "1", "virtual disk, write back cache"),
    ],
)
def test_disks(tmp_path: Path, device: str, folder: str, rotational: str, kind: str) -> None:
    queue = f"sys/dev/block/{folder}/queue"
    files = {f"{queue}/rotational": f"{rotational}\n", f"{queue}/write_cache": "write back\n"}
    files["proc/self/mountinfo"] = mountinfo(device=device)
    assert storage.file_system(tree(tmp_path, files), PLACE).found.endswith(f"{device}, {kind}")


@pytest.mark.parametrize(("flags", "kind"), [("fpu hypervisor", "virtual disk"), ("fpu", "rotating disk")])
def test_a_logical_volume_of_a_virtual_machine_does_not_rotate(tmp_path: Path, flags: str, kind: str) -> None:
    files = {"sys/dev/block/8:1/queue/rotational": "1\n", "proc/cpuinfo": f"flags\t: {flags}\n"}
    files["proc/self/mountinfo"] = mountinfo(device="/dev/mapper/vg-data")
    assert storage.file_system(tree(tmp_path, files), PLACE).found.endswith(f"/dev/mapper/vg-data, {kind}")


def test_a_partition_has_its_disks_queue(tmp_path: Path) -> None:
    system = tree(
        tmp_path,
        {
            "proc/self/mountinfo": mountinfo(),
            "sys/block/sda/queue/rotational": "0\n",
            "sys/block/sda/sda1/partition": "1\n",
        },
    )
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/8:1").symlink_to(tmp_path / "sys/block/sda/sda1")
    assert storage.file_system(system, PLACE).found.endswith("/dev/sda1, solid state")


@pytest.mark.parametrize(
    ("options", "super_", "verdict", "remedy"),
    [
        ("rw,noatime", "rw", "good", ""),
        ("rw,relatime", "rw", "good", ""),
        ("rw", "rw", "note", "noatime"),
        ("rw,relatime", "rw,discard", "note", "fstrim"),
        ("rw,relatime", "rw,data=journal", "note", "data=ordered"),
        ("rw,relatime", "rw,nobarrier", "warning", "barrier=1"),
        ("rw,relatime", "rw,barrier=0", "warning", "barrier=1"),
        ("rw,relatime,sync", "rw", "warning", "async"),
        ("ro,relatime", "rw", "stop", "remount,rw"),
    ],
)
def test_mount_options(tmp_path: Path, options: str, super_: str, verdict: str, remedy: str) -> None:
    check = storage.mount_options(mounted(tmp_path, options=options, super_=super_), PLACE)
    assert check.verdict == verdict
    assert remedy in check.change


def test_memory_needs_no_time_of_access(tmp_path: Path) -> None:
    assert storage.mount_options(mounted(tmp_path, kind="tmpfs", options="rw"), PLACE).verdict == "good"


@pytest.mark.parametrize(
    ("needed", "free", "kept", "verdict"),
    [
        (0, 50 * GIB, False, "good"),
        (10 * GIB, 50 * GIB, False, "good"),
        (45 * GIB, 50 * GIB, False, "warning"),
        (51 * GIB, 50 * GIB, False, "stop"),
        (51 * GIB, 50 * GIB, True, "warning"),
        (0, 4 * GIB, False, "note"),
    ],
)
def test_free_space(needed: int, free: int, kept: bool, verdict: str) -> None:
    check = storage.free(Place(Path("/x"), ("data of a",), bytes=needed, kept=kept), free, 100 * GIB)
    assert check.verdict == verdict
    assert check.measured == {"free_bytes": free, "needed_bytes": needed}


@pytest.mark.parametrize(("limit", "verdict"), [(12 * GIB, "warning"), (9 * GIB, "stop"), (50 * GIB, "good")])
def test_free_space_limited_by_the_plan(limit: int, verdict: str) -> None:
    place = Place(Path("/x"), ("data of a",), bytes=10 * GIB, in_memory=True, limit_bytes=limit)
    check = storage.free(place, 60 * GIB, 100 * GIB)
    assert (check.verdict, "tmpfs_size" in check.change) == (verdict, verdict != "good")


def test_a_small_limit_of_the_plan_does_not_make_the_memory_almost_full() -> None:
    place = Place(Path("/x"), ("data of a",), bytes=GIB, in_memory=True, limit_bytes=2 * GIB)
    assert storage.free(place, 60 * GIB, 100 * GIB).verdict == "good"
    assert storage.free(place, 4 * GIB, 100 * GIB).verdict == "note"


@pytest.mark.parametrize(("capabilities", "own"), [("000001ffffffffff", True), ("00000000a80425fb", False)])
def test_a_tmpfs_of_its_own_has_the_memory_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capabilities: str, own: bool
) -> None:
    files = {
        "proc/self/status": f"Name:\tpgdyno\nCapEff:\t{capabilities}\n",
        "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
    }
    system = tree(tmp_path, files)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    limited = Place(tmp_path, ("data of a",), in_memory=True, limit_bytes=GIB)
    free, whole = storage.room(system, limited)
    assert (whole, free == 8 * GIB) == ((16 * GIB, True) if own else (free_bytes(tmp_path)[1], False))
    assert storage.room(system, Place(tmp_path, in_memory=True, roles=()))[1] == free_bytes(tmp_path)[1]


def test_memory_that_the_plan_wants_is_a_note(tmp_path: Path) -> None:
    place = Place(PLACE.path, PLACE.roles, in_memory=True)
    assert storage.file_system(mounted(tmp_path, kind="tmpfs"), place).verdict == "note"
    assert storage.sync_time(place, Needs(plan="p", servers=1), SyncTime(1, 2, 1000)).verdict == "good"


def test_free_space_on_this_machine(tmp_path: Path) -> None:
    free, whole = free_bytes(tmp_path)
    assert 0 < free <= whole


@pytest.mark.parametrize(
    ("median", "p99", "verdict"),
    [
        (150, 400, "good"),
        (3, 9, "warning"),
        (2_500, 4_000, "note"),
        (12_000, 15_000, "warning"),
        (150, 1_900, "good"),
        (150, 5_000, "note"),
        (150, 30_000, "warning"),
    ],
)
def test_syncs(median: float, p99: float, verdict: str) -> None:
    check = storage.sync_time(PLACE, Needs(plan="p", servers=1), SyncTime(median, p99, 1000))
    assert check.verdict == verdict
    assert check.measured == {"median_us": median, "p99_us": p99, "n": 1000}


def test_a_good_disk_still_limits_a_client() -> None:
    check = storage.sync_time(PLACE, Needs(plan="p", servers=1), SyncTime(200, 400, 1000))
    assert check.means.startswith("one client commits at most 5,000 times per second")


@pytest.mark.parametrize(("needs"), [Needs(plan="p", writes=False), Needs(plan="p", durable=False)])
def test_slow_syncs_that_nobody_waits_for(needs: Needs) -> None:
    assert storage.sync_time(PLACE, needs, SyncTime(50_000, 90_000, 100)).verdict == "good"


def test_syncs_are_measured_and_nothing_stays(tmp_path: Path) -> None:
    took = storage.measure_sync(tmp_path, 0.05)
    assert 0 < took.median_us <= took.p99_us
    assert took.count >= 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        storage.measure_sync(tmp_path / "nowhere", 0.05)


def test_how_snapshots_can_be_made() -> None:
    # a file system in memory cannot share blocks
    place = Place(Path("/dev/shm"), ("data of a",))
    found = snapshot(place, None)
    assert (found.id, found.verdict) == ("storage.snapshot", "note")
    assert found.found == "/dev/shm (data of a): copied whole"
    assert snapshot(place, "copy").verdict == "note"
    refused = snapshot(place, "btrfs")
    assert refused.verdict == "stop"
    assert refused.found == "/dev/shm (data of a): /dev/shm is on tmpfs"


def test_only_data_is_kept_in_snapshots() -> None:
    assert Place(Path("/x"), ("data and WAL of a",)).holds_data
    assert not Place(Path("/x"), ("WAL of a",)).holds_data
