"""Standbys, a subscriber and an archive: made after the load, awaited or watched, and removed with the run."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Archive
from pgdyno.prepare import Dataset
from pgdyno.records import Preparation, ReadOrder
from pgdyno.targets import ArchiveWatch, Home, LagWatch, ReadWatch, Server, sweep_leftovers
from pgdyno.targets.cluster import standbys
from pgdyno.targets.cluster.instance_record import RECORD, InstanceRecord
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.cluster.reconfigure import reconfigure
from pgdyno.targets.cluster.replication import copy_cluster
from pgdyno.targets.cluster.standbys import ReplicaSet
from pgdyno.targets.cluster.subscriber import NAME
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import embedded, execute, on_replica, opened, preparer, value
from tests.present import present
from tests.waiting import wait_until

QUICK = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "7MB"}
SMALL = Dataset("pgbench", 1)


def spec(version: str = "18", **fields: object) -> EmbeddedTarget:
    return embedded(version, **{"settings": QUICK, "replicas": {"count": 1}, **fields})


def step(prepared: Preparation, name: str) -> str:
    (found,) = [each for each in prepared.steps if each.name == name]
    return str(found.detail)


@pytest.mark.long_cases("[10]", "[13]")
@pytest.mark.parametrize("version", ["18", "13", "10"])
def test_standbys_of_any_version_show_the_dataset(home: Home, version: str) -> None:
    with opened(home, spec(version)) as server:
        assert server.replica_environments() == []
        trials = preparer(server)
        made = step(trials.prepare(SMALL), "replicas")
        assert made.startswith("1: ")
        assert made.endswith("/s")
        assert on_replica(server, "SELECT pg_is_in_recovery()") is True
        assert on_replica(server, "SELECT count(*) FROM pgbench_accounts") == 100_000
        assert on_replica(server, "SHOW work_mem") == "7MB"
        execute(server, "UPDATE pgbench_branches SET bbalance = 5")
        again = trials.prepare(SMALL)
        assert step(again, "replicas") == "they were there"
        assert step(again, "catch up").endswith(" behind")
        assert on_replica(server, "SELECT sum(bbalance) FROM pgbench_branches") == 5
        standby = server.data_directory.with_name("replica-1") / "data"
        assert servers_in(standby)
    assert servers_in(standby) == []
    assert not standby.exists()


@pytest.mark.long
def test_commits_wait_for_two_synchronous_standbys(home: Home) -> None:
    wanted = spec(replicas={"count": 2, "synchronous": "remote_apply"}, connect="tcp")
    with opened(home, wanted) as server:
        trials = preparer(server, restart=True, method="template")
        assert step(trials.prepare(SMALL), "replicas").startswith("2: ")
        assert value(server, "SHOW synchronous_standby_names") == "2 (pgdyno_1, pgdyno_2)"
        assert value(server, "SHOW synchronous_commit") == "remote_apply"
        for number in range(50):
            with server.connect() as connection:
                connection.execute("UPDATE pgbench_branches SET bbalance = %s", [number])
            # applied there when the commit returned
            for place in range(2):
                assert on_replica(server, "SELECT bbalance FROM pgbench_branches", place) == number
        trials.prepare(SMALL)
        assert on_replica(server, "SELECT bbalance FROM pgbench_branches", 1) == 0
        states = value(server, "SELECT array_agg(sync_state) FROM pg_stat_replication")
        assert states == ["sync", "sync"]


def test_a_kept_cluster_has_no_slots_left(warm_home: Home) -> None:
    kept = spec(keep_data=True)
    with opened(warm_home, kept) as server:
        preparer(server).prepare(SMALL)
        assert value(server, "SELECT count(*) FROM pg_replication_slots") == 1
    alone = kept.model_copy(update={"replicas": None})
    with opened(warm_home, alone) as server:
        assert value(server, "SELECT count(*) FROM pg_replication_slots") == 0
        assert server.replicas is None
    with opened(warm_home, kept) as server:
        assert step(preparer(server).prepare(SMALL), "load") == "already loaded"
        assert on_replica(server, "SELECT count(*) FROM pgbench_accounts") == 100_000


@pytest.mark.long
def test_standbys_of_a_killed_run_are_removed(warm_home: Home) -> None:
    pid = os.fork()
    if pid == 0:
        with opened(warm_home, spec()) as server:
            preparer(server).prepare(SMALL)
            os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    (path,) = warm_home.instances.glob(f"*/{RECORD}")
    record = InstanceRecord.model_validate_json(path.read_bytes())
    (standby,) = record.replicas
    assert len(sweep_leftovers(warm_home)) == 1
    assert servers_in(Path(standby)) == []
    assert servers_in(Path(record.data_directory)) == []
    assert not list(warm_home.instances.iterdir())


@pytest.mark.long_cases("[on]")
@pytest.mark.parametrize("synchronous", ["off", "on"])
def test_a_standby_that_lags_or_dies_is_told_of(home: Home, monkeypatch: pytest.MonkeyPatch, synchronous: str) -> None:
    # an autovacuum would write, too
    settings = {**QUICK, "autovacuum": "off"}
    with opened(home, spec(settings=settings, replicas={"count": 1, "synchronous": synchronous})) as server:
        trials = preparer(server, method="template")
        trials.prepare(SMALL)
        assert order_of_reads(server, 0).furthest_s < 0.3
        late = order_of_reads(server, 300)
        assert late.went_back > 5
        assert late.furthest_s > 0.2
        lags_where_nothing_is_replayed(server, monkeypatch)
        data = server.data_directory.with_name("replica-1") / "data"
        for process in servers_in(data):
            process.send(signal.SIGKILL)
        wait_until(lambda: not servers_in(data))
        # without this check, a statement of the preparation would wait for the synchronous one for ever
        with pytest.raises(TargetError, match="replica pgdyno_1 went down"):
            trials.prepare(SMALL)


def lags_where_nothing_is_replayed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.targets.followers.lag_watch.EVERY_S", 0.1)
    on_replica(server, "SELECT pg_wal_replay_pause()::text")
    with LagWatch(server.address, server.replica_names()) as watch:
        before = value(server, "SELECT pg_current_wal_lsn()::text")
        execute(server, "CREATE TABLE filled AS SELECT repeat('x', 1000) FROM generate_series(1, 3000)")
        written = value(server, f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{before}')::bigint")
        # it looks at what is there ten times a second
        wait_until(lambda: (watch.lags()[0].bytes_last or 0) > 0.95 * written)
    (lag,) = watch.lags()
    assert present(lag.bytes_last) == pytest.approx(written, rel=0.05)
    assert present(lag.bytes_last) > 3_000_000
    on_replica(server, "SELECT pg_wal_replay_resume()::text")


def order_of_reads(server: Server, delay_ms: int) -> ReadOrder:
    reconfigure(server, {**server.plan_settings, "recovery_min_apply_delay": f"{delay_ms}ms"})
    server.make_replicas()
    with ReadWatch(server.address, server.replica_addresses(), server.dbname) as watch:
        wait_until(lambda: watch.order().reads > 40)
    assert value(server, "SELECT to_regclass('pgdyno_clock')") is None
    return watch.order()


def test_standbys_find_a_primary_that_moved_and_one_whose_promotion_failed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standby may take over although pgdyno could not follow it: the next trial needs the old primary alone."""
    write = ReplicaSet._write

    def fail_after_writing(replicas: ReplicaSet, path: Path, text: str) -> None:
        write(replicas, path, text)
        raise TargetError(f"cannot write {path}")

    with opened(home, spec(replicas={"count": 1, "synchronous": "on"})) as server:
        trials = preparer(server)
        trials.prepare(SMALL)
        before = server.port
        server.stop()
        # connections of the one that was there may linger on
        with socket.create_server(("127.0.0.1", before)):
            server.start()
        assert server.port != before
        execute(server, "UPDATE pgbench_branches SET bbalance = 3")
        present(server.replicas).wait(server.address)
        assert on_replica(server, "SELECT bbalance FROM pgbench_branches") == 3
        for process in servers_in(server.data_directory):
            process.send(signal.SIGKILL)
        with monkeypatch.context() as patch:
            patch.setattr(ReplicaSet, "_write", fail_after_writing)
            with pytest.raises(TargetError, match="cannot write"):
                server.promote()
        assert server.promoted
        server.fail_back()
        trials.forget()
        trials.prepare(SMALL)
        assert value(server, "SELECT pg_is_in_recovery()") is False
        assert on_replica(server, "SELECT count(*) FROM pgbench_accounts") == 100_000


@pytest.mark.long_cases("_STREAMING")
@pytest.mark.parametrize("failing", ["copy_cluster", "_STREAMING"])
def test_replicas_that_failed_are_made_anew(home: Home, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Nothing of a failed attempt is in the way, and the primary waits for none of its standbys."""
    replicas = {"count": 2, "synchronous": "on"}
    copies = []

    def fail_at_the_second(*given: Any) -> None:  # noqa: ANN401 - passed on
        copies.append(given)
        if len(copies) == 2:
            Path(given[4]).mkdir()
            raise TargetError("cannot copy the cluster: the disk is full")
        copy_cluster(*given)

    with opened(home, spec(replicas=replicas)) as server:
        trials = preparer(server)
        with monkeypatch.context() as patch:
            if failing == "copy_cluster":
                patch.setattr(standbys, failing, fail_at_the_second)
            else:
                patch.setattr(standbys, failing, "SELECT 0 WHERE %s::text[] IS NOT NULL")
                patch.setattr(standbys, "CATCH_UP_S", 1.0)
            with pytest.raises(TargetError):
                trials.prepare(SMALL)
        server.restart()
        assert value(server, "SELECT current_setting('synchronous_standby_names')") == ""
        trials.prepare(SMALL)
        assert on_replica(server, "SELECT count(*) FROM pgbench_accounts", 1) == 100_000


SUMS = (
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts) || ' ' || (SELECT count(*) FROM pgbench_history)"
    " || ' ' || (SELECT count(*) FROM pgbench_accounts)"
)


def spec_with_subscriber(version: str, **subscriber: object) -> EmbeddedTarget:
    return embedded(version, subscriber=subscriber)


def write(server: Server) -> None:
    execute(
        server,
        "UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid <= 100",
        "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT 1, 1, 1, 7 FROM generate_series(1, 50)",
    )


def watch_lag(server: Server) -> LagWatch:
    return LagWatch(server.address, server.replica_names(), is_logical=server.has_subscriber)


@pytest.mark.long_cases("15", "16", "17")
@pytest.mark.parametrize(
    ("version", "method"), [("15", "template"), ("16", "reload"), ("17", "template"), ("18", "template")]
)
def test_a_subscriber_of_any_version_follows_and_is_renewed_with_the_tables(
    home: Home, version: str, method: str
) -> None:
    with opened(home, spec_with_subscriber(version, settings={"work_mem": "9MB"})) as server:
        trials = preparer(server, method=method, restart=True)
        for _ in range(2):
            # the second time a copy or a load replaces the database
            assert step(trials.prepare(SMALL), "replicas").startswith("1: ")
            assert on_replica(server, SUMS) == "0 0 100000"
            assert on_replica(server, "SHOW work_mem") == "9MB"
            with watch_lag(server) as watch:
                write(server)
                wait_until(lambda: on_replica(server, SUMS) == "700 50 100000")
                assert step(preparer(server).prepare(SMALL), "replicas") == "they were there"
                (lag,) = watch.lags()
            assert (lag.name, lag.is_logical, lag.sync_state) == (NAME, True, "async")
        server.end_subscription()
        remains = "SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_replication_slots)"
        assert value(server, remains) == 0


def test_the_lag_of_a_subscriber_is_the_age_of_what_it_does_not_show(home: Home) -> None:
    streamed = {"options": {"streaming": "parallel", "binary": "true"}}
    with opened(home, spec_with_subscriber("18", **streamed)) as server:
        preparer(server).prepare(SMALL)
        with server.replica_addresses()[0].connect(server.dbname) as blocker, watch_lag(server) as watch:
            blocker.execute("BEGIN; LOCK pgbench_history")
            write(server)
            wait_until(lambda: (watch.lags()[0].replay_lag_last_s or 0) > 1.5)
            blocker.execute("COMMIT")
            wait_until(lambda: watch.lags()[0].replay_lag_last_s == 0)
        (lag,) = watch.lags()
        assert lag.bytes_last == 0
        assert on_replica(server, SUMS) == "700 50 100000"


# ---- the archive ----


FILES = 4


def finish_files(server: Server) -> None:
    with server.connect() as connection:
        for _ in range(FILES):
            connection.execute("SELECT pg_logical_emit_message(false, 'a', 'b')")
            connection.execute("SELECT pg_switch_wal()")


def archive_of(**keys: str) -> Archive:
    return present(embedded(archive=keys).archive)


@pytest.mark.long_cases("[10]")
@pytest.mark.parametrize("version", ["18", "10"])
def test_a_folder_gets_the_files_at_its_rate_and_is_left_as_it_was(home: Home, scratch: Path, version: str) -> None:
    paced = {"folder": str(scratch), "rate": "32MB"}
    with opened(home, embedded(version, archive=paced)) as server:
        with ArchiveWatch(archive_of(**paced), server, home.account) as watch:
            finish_files(server)
            wait_until(lambda: len(list(scratch.glob("pgdyno-archive-*/*"))) >= FILES)
            wait_until(lambda: watch.backlog().archived >= FILES)
        backlog = watch.backlog()
        assert backlog.waiting_max >= 1
        assert (backlog.failed, backlog.segment_bytes) == (0, 1 << 24)
        assert list(scratch.iterdir()) == []
        assert value(server, "SHOW archive_command") == "true"
        # an archive that fails does not keep up
        failing = archive_of(command="false")
        with ArchiveWatch(failing, server, home.account) as watch:
            finish_files(server)
            wait_until(lambda: watch.backlog().failed > 0 and watch.backlog().waiting_last >= FILES)
        # between trials files are discarded, so that none waits for the next one
        with ArchiveWatch(failing, server, home.account) as watch:
            assert watch.backlog().waiting_max == 0
        absent = archive_of(folder=str(scratch / "absent"))
        with pytest.raises(TargetError, match="cannot archive in"), ArchiveWatch(absent, server, home.account):
            pass
