"""keep_data: a cluster that the next run reuses."""

import psycopg
import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home, sweep_leftovers
from pgdyno.targets.cluster.instance_record import make_claim
from pgdyno.targets.cluster.processes import servers_in
from tests.conninfo import conninfo
from tests.postgres.servers import embedded, opened, value

KEPT = embedded(keep_data=True)


def test_kept_data_is_used_again(warm_home: Home) -> None:
    with opened(warm_home, KEPT) as first:
        with first.connect() as connection:
            connection.execute("CREATE TABLE loaded AS SELECT 42 AS n")
        assert first.data_directory.is_relative_to(warm_home.clusters)
    assert servers_in(first.data_directory) == []
    assert list(warm_home.instances.iterdir()) == []
    assert not first.socket_directory.exists()
    other = embedded(keep_data=True, settings={"shared_buffers": "24MB"}, connect="tcp")
    with opened(warm_home, other) as second:
        assert second.data_directory == first.data_directory
        # over TCP: the new password counts, the old one doesn't
        assert value(second, "SELECT n FROM loaded") == 42
        # settings are those of this start alone
        assert value(second, "SHOW shared_buffers") == "24MB"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(conninfo(second), password=first.password)
        assert (second.data_directory / "postgresql.conf").read_text().count("shared_buffers = '") == 1
        assert str(second.password) not in second.log_path.read_text()


def test_other_initdb_arguments_make_another_cluster(warm_home: Home) -> None:
    with (
        opened(warm_home, KEPT, "a") as first,
        opened(warm_home, embedded(keep_data=True, initdb=["--wal-segsize=4"]), "b") as second,
    ):
        assert first.data_directory != second.data_directory


def test_one_cluster_is_not_used_twice_at_once(warm_home: Home) -> None:
    with opened(warm_home, KEPT, "first") as first:
        with pytest.raises(TargetError) as caught, opened(warm_home, KEPT, "second"):
            pass
        assert caught.value.message.startswith("target second: cannot use the kept cluster ")
        assert "target first of process " in caught.value.message
        assert caught.value.hint == "wait until that run ends, or set keep_data = false"
        assert first.facts().version.startswith("18.")
    with opened(warm_home, KEPT, "second") as second:
        assert second.data_directory == first.data_directory


def test_leftovers_of_a_killed_run_do_not_stop_the_next_run_on_its_cluster(warm_home: Home) -> None:
    with opened(warm_home, KEPT) as server:
        for name in ("killed", "killed too"):
            # as a run leaves it that was killed after another one had looked for leftovers
            claim = make_claim(warm_home, name)
            claim.note(data_directory=str(server.data_directory), keep_data=True, owner_start_ticks=0)
            claim._lock.release()
        said = [str(each) for each in sweep_leftovers(warm_home)]
        assert [each.startswith("found the folder of a server of target killed") for each in said] == [True, True]
        assert server.alive()
        assert server.facts().version.startswith("18.")
    assert list(warm_home.instances.iterdir()) == []


def test_a_cluster_that_could_not_be_made_is_not_kept(warm_home: Home) -> None:
    with (
        pytest.raises(TargetError, match="cannot create a cluster"),
        opened(warm_home, embedded(keep_data=True, initdb=["--encoding=NONE"])),
    ):
        pass
    assert list(warm_home.clusters.glob("*/data")) == []
    assert list(warm_home.instances.iterdir()) == []


def test_a_crashed_cluster_recovers(warm_home: Home) -> None:
    with opened(warm_home, KEPT) as first:
        with first.connect() as connection:
            connection.execute("CREATE TABLE loaded AS SELECT 42 AS n")
        for process in servers_in(first.data_directory):
            process.send(9)  # type: ignore[arg-type]
    with opened(warm_home, KEPT) as second:
        assert value(second, "SELECT n FROM loaded") == 42
        assert "automatic recovery in progress" in second.log_path.read_text()
