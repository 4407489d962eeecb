"""The location of a server's files: on a path of the plan, in memory, WAL elsewhere; nothing remains afterwards."""

import os
import shutil
from pathlib import Path

import pytest

import pgdyno.targets.cluster.folders
from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.prepare import Dataset, Preparer
from pgdyno.programs import find_engine
from pgdyno.targets import Home, SilentProgress, sweep_leftovers
from pgdyno.targets.cluster.folders import available_memory, remove_places
from pgdyno.targets.cluster.instance_record import RECORD, InstanceRecord
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import embedded, opened


def in_environment(**environment: object) -> EmbeddedTarget:
    return embedded(environment=environment)


def folder(scratch: Path, name: str) -> Path:
    path = scratch / name
    path.mkdir(0o755)
    path.chmod(0o755)
    (path / "precious").write_text("not ours")
    return path


def only_precious(path: Path) -> bool:
    return [entry.name for entry in path.iterdir()] == ["precious"]


def test_data_and_wal_on_paths_of_the_plan(home: Home, scratch: Path) -> None:
    data, wal = folder(scratch, "data"), folder(scratch, "wal")
    wanted = in_environment(data=str(data), wal=str(wal))
    with opened(home, wanted) as server:
        assert server.data_directory.parent.parent == data
        link = server.data_directory / "pg_wal"
        assert link.is_symlink()
        assert link.resolve().parent.parent == wal
        assert [each for each in link.iterdir() if len(each.name) == 24]
        # what a reset does to files finds both
        asked = Reset(restart=True, drop_cache="files", prewarm="read")
        preparer = Preparer(server, find_engine(), SilentProgress(), asked, {"tpcb-like"})
        assert preparer.prepare(Dataset("pgbench", 1)).dataset_bytes
        assert server.log_path.is_relative_to(home.instances)
    assert only_precious(data)
    assert only_precious(wal)
    assert servers_in(server.data_directory) == []


def test_memory_without_a_size(home: Home) -> None:
    with opened(home, in_environment(data="tmpfs")) as server:
        place = server.data_directory.parent
        assert place.parent == Path("/dev/shm")
        assert server.facts().data_checksums
    assert not place.exists()


def test_memory_of_a_size(home: Home) -> None:
    with opened(home, in_environment(data="tmpfs", tmpfs_size="300MB")) as server:
        place = server.data_directory.parent
        if os.path.ismount(place):
            # held to its size
            assert shutil.disk_usage(place).total == 300 << 20
        else:
            assert place.parent == Path("/dev/shm")
            assert os.geteuid() != 0 or "is not limited to 300MB" in " ".join(map(str, server.notes))
    assert not place.exists()
    assert str(place) not in Path("/proc/mounts").read_text()


def test_more_memory_than_there_is(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgdyno.targets.cluster.folders, "available_memory", lambda: 100 << 20)
    with (
        pytest.raises(TargetError, match=r"cannot reserve 300MB for a cluster in memory: 100\.0 MiB are available"),
        opened(home, in_environment(data="tmpfs", tmpfs_size="300MB")),
    ):
        pass
    assert available_memory() > 100 << 20


def test_a_path_that_is_closed_to_the_servers_user(home: Home, scratch: Path) -> None:
    closed = folder(scratch, "closed")
    closed.chmod(0o700)
    if os.geteuid() != 0:
        pytest.skip("servers run as ourselves, who may go there")
    with (
        pytest.raises(
            TargetError, match=f"cannot put files of a server in {closed}: {closed} is closed to user nobody"
        ),
        opened(home, in_environment(data=str(closed))),
    ):
        pass
    assert only_precious(closed)


def test_the_servers_own_variables(home: Home) -> None:
    wanted = in_environment(variables={"MALLOC_ARENA_MAX": 2, "TZ": "Asia/Tokyo"})
    with opened(home, wanted) as server:
        pid = (server.data_directory / "postmaster.pid").read_text().split()[0]
        seen = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert b"MALLOC_ARENA_MAX=2" in seen
        assert b"TZ=Asia/Tokyo" in seen


def test_remains_of_a_killed_run_outside_the_home_are_removed(warm_home: Home, scratch: Path) -> None:
    data, wal = folder(scratch, "data"), folder(scratch, "wal")
    pid = os.fork()
    if pid == 0:
        # a run that is killed while its server runs
        with opened(warm_home, in_environment(data=str(data), wal=str(wal))):
            os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    (place,) = [entry for entry in data.iterdir() if entry.name != "precious"]
    said = sweep_leftovers(warm_home)
    assert len(said) == 1
    # the server itself ends with its pgdyno, sooner or later than this
    assert " of target t, left by process " in str(said[0])
    assert servers_in(place / "data") == []
    assert only_precious(data)
    assert only_precious(wal)


def test_memory_that_a_killed_run_left_is_swept(warm_home: Home) -> None:
    pid = os.fork()
    if pid == 0:
        with opened(warm_home, in_environment(data="tmpfs", tmpfs_size="300MB")):
            os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    (record,) = [
        InstanceRecord.model_validate_json(path.read_bytes()) for path in warm_home.instances.glob(f"*/{RECORD}")
    ]
    place = Path(record.data_directory).parent
    assert place.is_dir()
    assert len(sweep_leftovers(warm_home)) == 1
    assert not place.exists()
    assert str(warm_home.root) not in Path("/proc/mounts").read_text()
    assert not list(warm_home.instances.iterdir())


def test_a_record_cannot_have_other_folders_removed(warm_home: Home, scratch: Path) -> None:
    precious = folder(scratch, "pgdyno-precious")
    with opened(warm_home, in_environment()) as server:
        record = InstanceRecord.model_validate_json((server.log_path.parent / RECORD).read_bytes())
    assert record.places == []
    remove_places([str(precious), str(scratch / "none")], str(precious), warm_home.account)
    assert only_precious(precious)
