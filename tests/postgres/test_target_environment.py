"""The location of a server's files: on a path of the plan, in memory, WAL elsewhere; nothing remains afterwards."""

import os
import shutil
from pathlib import Path

import pytest

import pgdyno.targets.cluster.folders
from pgdyno.errors import TargetError
from pgdyno.prepare import Dataset
from pgdyno.targets import Home, Server, sweep_leftovers
from pgdyno.targets.cluster.folders import available_memory, remove_places
from pgdyno.targets.cluster.instance_record import RECORD, InstanceRecord
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import embedded, opened, preparer


def placed(**environment: object) -> EmbeddedTarget:
    return embedded(environment=environment)


def folder(scratch: Path, name: str) -> Path:
    path = scratch / name
    path.mkdir(0o755)
    path.chmod(0o755)
    (path / "precious").write_text("not ours")
    return path


def only_precious(*paths: Path) -> bool:
    return [[entry.name for entry in path.iterdir()] for path in paths] == [["precious"]] * len(paths)


def test_data_and_wal_on_paths_of_the_plan(home: Home, scratch: Path) -> None:
    data, wal = folder(scratch, "data"), folder(scratch, "wal")
    variables = {"MALLOC_ARENA_MAX": 2, "TZ": "Asia/Tokyo"}
    with opened(home, placed(data=str(data), wal=str(wal), variables=variables)) as server:
        assert server.data_directory.parent.parent == data
        link = server.data_directory / "pg_wal"
        assert link.is_symlink()
        assert link.resolve().parent.parent == wal
        assert [each for each in link.iterdir() if len(each.name) == 24]
        # what a reset does to files finds both
        trials = preparer(server, restart=True, drop_cache="files", prewarm="read")
        assert trials.prepare(Dataset("pgbench", 1)).dataset_bytes
        assert server.log_path.is_relative_to(home.instances)
        # the server's own variables
        pid = (server.data_directory / "postmaster.pid").read_text().split()[0]
        seen = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert {b"MALLOC_ARENA_MAX=2", b"TZ=Asia/Tokyo"} <= set(seen)
    assert only_precious(data, wal)
    assert servers_in(server.data_directory) == []


def test_memory_without_a_size(home: Home) -> None:
    with opened(home, placed(data="tmpfs")) as server:
        place = server.data_directory.parent
        assert place.parent == Path("/dev/shm")
        assert server.facts().data_checksums
    assert not place.exists()


def test_memory_of_a_size(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    sized = placed(data="tmpfs", tmpfs_size="300MB")
    with opened(home, sized) as server:
        place = server.data_directory.parent
        if os.path.ismount(place):
            # held to its size
            assert shutil.disk_usage(place).total == 300 << 20
        else:
            assert place.parent == Path("/dev/shm")
            assert os.geteuid() != 0 or "is not limited to 300MB" in " ".join(map(str, server.notes))
    assert not place.exists()
    assert str(place) not in Path("/proc/mounts").read_text()
    assert available_memory() > 100 << 20
    # more than there is
    monkeypatch.setattr(pgdyno.targets.cluster.folders, "available_memory", lambda: 100 << 20)
    said = r"cannot reserve 300MB for a cluster in memory: 100\.0 MiB are available"
    with pytest.raises(TargetError, match=said), opened(home, sized):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="servers run as ourselves, who may go there")
def test_a_path_that_is_closed_to_the_servers_user(home: Home, scratch: Path) -> None:
    closed = folder(scratch, "closed")
    closed.chmod(0o700)
    said = f"cannot put files of a server in {closed}: {closed} is closed to user nobody"
    with pytest.raises(TargetError, match=said), opened(home, placed(data=str(closed))):
        pass
    assert only_precious(closed)


def leave_by_a_killed_run(home: Home, spec: EmbeddedTarget) -> Path:
    """Returns the folder of a cluster whose pgdyno is killed while its server runs."""
    pid = os.fork()
    if pid == 0:
        with opened(home, spec):
            os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    (path,) = home.instances.glob(f"*/{RECORD}")
    place = Path(InstanceRecord.model_validate_json(path.read_bytes()).data_directory).parent
    assert place.is_dir()
    return place


def test_remains_of_a_killed_run_outside_the_home_are_removed(warm_home: Home, scratch: Path) -> None:
    data, wal = folder(scratch, "data"), folder(scratch, "wal")
    place = leave_by_a_killed_run(warm_home, placed(data=str(data), wal=str(wal)))
    assert place.parent == data
    (said,) = sweep_leftovers(warm_home)
    # the server itself ends with its pgdyno, sooner or later than this
    assert " of target t, left by process " in str(said)
    assert servers_in(place / "data") == []
    assert only_precious(data, wal)
    place = leave_by_a_killed_run(warm_home, placed(data="tmpfs", tmpfs_size="300MB"))
    assert len(sweep_leftovers(warm_home)) == 1
    assert not place.exists()
    assert str(warm_home.root) not in Path("/proc/mounts").read_text()
    assert not list(warm_home.instances.iterdir())


def test_a_record_cannot_have_other_folders_removed(server: Server, home: Home, scratch: Path) -> None:
    record = InstanceRecord.model_validate_json((server.log_path.parent / RECORD).read_bytes())
    assert record.places == []
    precious = folder(scratch, "pgdyno-precious")
    remove_places([str(precious), str(scratch / "none")], str(precious), home.account)
    assert only_precious(precious)
