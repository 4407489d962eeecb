"""Snapshots of a cluster by its file system: btrfs, reflinks of XFS, ZFS.

The tests create btrfs and XFS in files and mount them, which needs root and a kernel that supports them. For ZFS,
`PGDYNO_TEST_ZFS=/tank/somewhere` names a folder on it. If a file system is not available, the test warns, and tests
instead that pgdyno refuses the method.
"""

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.mounts import mounted_at
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.prepare import Dataset
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.snapshots.btrfs import is_subvolume
from pgdyno.targets.cluster.snapshots.cluster_copy import WORDS, best_method, refusal_of
from tests.postgres.servers import embedded, execute, opened, preparer, rows
from tests.present import present

SETTINGS = {"fsync": "off", "shared_buffers": "32MB", "autovacuum": "off", "max_wal_size": "64MB"}
SMALL = Dataset("pgbench", 1)
PLACES: dict[SnapshotMethod, str] = {"btrfs": "btrfs", "reflink": "xfs"}
ABSENT = "is not tested here, only that it is refused"
SIZE_BYTES = 600 << 20
"""The file is sparse, so that unused space takes no room. XFS needs at least 300 MB."""


class MountError(Exception):
    """This machine cannot create or mount such a file system."""


@contextmanager
def file_system(kind: str, folder: Path) -> Iterator[Path]:
    """Mounts a new file system below `folder` until the block ends. Raises MountError."""
    if os.geteuid() != 0:
        raise MountError("only root may mount")
    if shutil.which(f"mkfs.{kind}") is None:
        raise MountError(f"there is no mkfs.{kind}")
    image, place = folder / f"{kind}.img", folder / kind
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    place.mkdir()
    _run(f"mkfs.{kind}", str(image))
    _run("mount", "-t", kind, "-o", "loop", str(image), str(place))
    try:
        place.chmod(0o755)
        yield place
    finally:
        _run("umount", str(place))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MountError(f"{' '.join(command)} failed: {done.stderr.strip()}")


@contextmanager
def place_for(way: SnapshotMethod, scratch: Path) -> Iterator[Path]:
    if way == "zfs":
        if "PGDYNO_TEST_ZFS" not in os.environ:
            raise MountError("PGDYNO_TEST_ZFS names no folder")
        yield Path(os.environ["PGDYNO_TEST_ZFS"])
    else:
        with file_system(PLACES[way], scratch) as place:
            yield place


def server_in(place: Path, home: Home) -> AbstractContextManager[Server]:
    return opened(home, embedded(settings=SETTINGS, environment={"data": str(place)}), "snapshots")


def balances(server: Server) -> tuple[int, int]:
    (found,) = rows(server, "SELECT count(*), sum(abalance) FROM pgbench_accounts")
    return found[0], found[1]


def spoil(server: Server) -> None:
    execute(
        server,
        "UPDATE pgbench_accounts SET abalance = 7 WHERE aid % 3 = 0",
        "DELETE FROM pgbench_accounts WHERE aid % 5 = 0",
        "CREATE DATABASE more",
    )


@pytest.mark.long_cases("btrfs", "reflink")
@pytest.mark.filterwarnings(f"always:.*{ABSENT}")
@pytest.mark.parametrize("way", ["btrfs", "reflink", "zfs"])
def test_the_cluster_comes_back(way: SnapshotMethod, home: Home, scratch: Path) -> None:
    try:
        with place_for(way, scratch) as place:
            comes_back(way, place, home)
            assert [entry for entry in place.iterdir() if entry.name.startswith("pgdyno-")] == []
    except MountError as reason:
        warnings.warn(f'snapshot = "{way}" {ABSENT}: {reason}', stacklevel=1)
        is_refused(way, scratch, home)


def comes_back(way: SnapshotMethod, place: Path, home: Home) -> None:
    with server_in(place, home) as server:
        # found by itself where it is the best; then asked for by its name, which finds what was made
        for asked in (None, way):
            first = preparer(server, method="snapshot", snapshot=asked).prepare(SMALL)
            assert balances(server) == (100_000, 0)
            spoil(server)
            second = preparer(server, method="snapshot", snapshot=asked).prepare(SMALL)
            assert balances(server) == (100_000, 0)
            assert rows(server, "SELECT 1 FROM pg_database WHERE datname = 'more'") == []
            assert [step.detail for step in second.steps if step.name == "restore"] == [WORDS[way]]
        assert "copy" not in [step.name for step in first.steps]
        owner = server.copy.account.uid
        assert {path.lstat().st_uid for path in [server.data_directory, *server.data_directory.rglob("*")]} == {owner}
        assert server.data_directory.stat().st_mode & 0o777 == 0o700
        assert is_subvolume(server.data_directory) == (way == "btrfs")
        if way != "zfs":
            is_brought_back_when_that_broke_off(server)


def is_brought_back_when_that_broke_off(server: Server) -> None:
    spoil(server)
    server.stop()
    server.data_directory.rename(server.data_directory.with_name("data.discarded"))
    assert server.copy.is_restoring()
    server.start()
    server.prepare(set_password=True)
    assert balances(server) == (100_000, 0)


def is_refused(way: SnapshotMethod, place: Path, home: Home) -> None:
    if refusal_of(way, place, kept=False) is None:
        # the machine's own file system can do what could not be made in a file
        comes_back(way, place, home)
        return
    with server_in(place, home) as server:
        with pytest.raises(TargetError, match=f'as snapshot = "{way}" requires: '):
            preparer(server, method="snapshot", snapshot=way).prepare(SMALL)
        assert server.alive()
        assert balances(server) == (100_000, 0)


def test_memory_can_do_none_of_them() -> None:
    memory = Path("/dev/shm")
    assert present(mounted_at(memory)).kind == "tmpfs"
    ways: list[SnapshotMethod] = ["btrfs", "reflink", "zfs"]
    assert None not in [refusal_of(way, memory, kept=False) for way in ways]
    assert best_method(memory, kept=False) == "copy"
