"""Snapshots of a cluster by its file system: btrfs, reflinks of XFS, ZFS.

The tests create btrfs and XFS in files and mount them, which needs root and a kernel that supports them. For ZFS,
`PGDYNO_TEST_ZFS=/tank/somewhere` names a folder on it. If a file system is not available, the test warns, and tests
instead that pgdyno refuses the method.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.mounts import mounted_at
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.prepare import Dataset
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.snapshots.btrfs import is_subvolume
from pgdyno.targets.cluster.snapshots.cluster_copy import WORDS, best_method, refusal_of
from tests.postgres.file_systems import MountError, file_system
from tests.postgres.servers import embedded, opened, preparer
from tests.present import present

SETTINGS = {"fsync": "off", "shared_buffers": "32MB", "autovacuum": "off", "max_wal_size": "64MB"}
SMALL = Dataset("pgbench", 1)
PLACES: dict[SnapshotMethod, str] = {"btrfs": "btrfs", "reflink": "xfs"}
ABSENT = "is not tested here, only that it is refused"


@contextmanager
def place_for(way: SnapshotMethod, scratch: Path) -> Iterator[Path]:
    if way == "zfs":
        if "PGDYNO_TEST_ZFS" not in os.environ:
            raise MountError("PGDYNO_TEST_ZFS names no folder")
        yield Path(os.environ["PGDYNO_TEST_ZFS"])
    else:
        with file_system(PLACES[way], scratch) as place:
            yield place


@contextmanager
def server_in(place: Path, home: Home) -> Iterator[Server]:
    spec = embedded(settings=SETTINGS, environment={"data": str(place)})
    with opened(home, spec, "snapshots") as server:
        yield server


def balances(server: Server) -> tuple[int, int]:
    with server.connect() as connection:
        row = connection.execute("SELECT count(*), sum(abalance) FROM pgbench_accounts").fetchone()
    return present(row)[0], present(row)[1]


def spoil(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("UPDATE pgbench_accounts SET abalance = 7 WHERE aid % 3 = 0")
        connection.execute("DELETE FROM pgbench_accounts WHERE aid % 5 = 0")
        connection.execute("CREATE DATABASE more")


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
            with server.connect() as connection:
                assert connection.execute("SELECT 1 FROM pg_database WHERE datname = 'more'").fetchone() is None
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


MEMORY = Path("/dev/shm")


@pytest.mark.parametrize("way", ["btrfs", "reflink", "zfs"])
def test_memory_can_do_none_of_them(way: SnapshotMethod) -> None:
    mount = present(mounted_at(MEMORY))
    assert mount.kind == "tmpfs"
    assert refusal_of(way, MEMORY, kept=False) is not None
    assert best_method(MEMORY, kept=False) == "copy"
