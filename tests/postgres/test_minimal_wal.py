"""Loads without WAL give the same data as others, and nothing that counts as loaded if they are interrupted."""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgdyno.prepare.timed_steps
from pgdyno.errors import TargetError
from pgdyno.fingerprint.collect import with_indexes, with_mark, with_server
from pgdyno.prepare import Dataset
from pgdyno.prepare.dataset import read_comment, read_stamp, stamped_dataset
from pgdyno.prepare.timed_steps import FROM_BYTES, SETTINGS, VARIABLE, is_worthwhile
from pgdyno.records import Fingerprint, HostPrint, Preparation
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.instance_record import RECORD
from pgdyno.targets.cluster.processes import servers_in
from tests.postgres.runs import connect_by
from tests.postgres.servers import embedded, execute, on_replica, opened, preparer, rows, value
from tests.present import present
from tests.waiting import wait_until

SMALL = Dataset("pgbench", 1)
DATASETS = [SMALL, Dataset("sbtest", 2_000, 3), Dataset("tpcc", 1, profile="spec")]
PLANNED = {
    "shared_buffers": "32MB",
    # a server with these could not be started under wal_level = minimal
    "wal_level": "logical",
    "archive_mode": "on",
    "archive_command": "true",
    # ANALYZE then reads up to 600,000 rows, all of each table here: its statistics depend on the rows alone
    "default_statistics_target": "2000",
}
CHECKS = ("amcheck", "pg_visibility")


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes loads of any size worth two restarts."""
    monkeypatch.setattr(pgdyno.prepare.timed_steps, "FROM_BYTES", 0)


@pytest.fixture(scope="module")
def running(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=PLANNED)) as server:
        install_checks(server)
        yield server


def reload(server: Server, dataset: Dataset = SMALL) -> Preparation:
    return preparer(server, method="reload").prepare(dataset)


def configured(prepared: Preparation) -> list[str | None]:
    """Returns the steps around a load without WAL; empty for other loads."""
    return [step.detail for step in prepared.steps if step.name == "configure"]


def wal_level_of_load(server: Server) -> str | None:
    return present(read_stamp(read_comment(server))).wal_level


def in_force(server: Server) -> dict[str, str]:
    names = ",".join(PLANNED.keys() | SETTINGS.keys())
    return dict(rows(server, f"SELECT name, setting FROM pg_settings WHERE name = ANY('{{{names}}}')"))


# ---- the same as with WAL ----


OURS = "relnamespace = 'public'::regnamespace"
CATALOGS = {
    "relations": "SELECT relname, relkind, relpersistence, relpages, reltuples, relallvisible, relallfrozen,"
    f" relhasindex FROM pg_class WHERE {OURS} ORDER BY 1",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
    "statistics": "SELECT tablename, attname, null_frac, avg_width, n_distinct, most_common_vals::text,"
    " most_common_freqs::text, histogram_bounds::text, correlation FROM pg_stats WHERE schemaname = 'public'"
    " ORDER BY 1, 2",
}


def left_by_load(server: Server) -> dict[str, object]:
    """Returns what a load leaves regardless of time: rows, catalogs, statistics, visibility, indexes."""
    found: dict[str, object] = {}
    tables = [name for (name,) in rows(server, f"SELECT relname FROM pg_class WHERE {OURS} AND relkind = 'r'")]
    assert tables
    for table in tables:
        sums = f"count(*), sum(hashtextextended(ctid::text || t::text, 0)::numeric), pg_relation_size('{table}')"
        found[f"rows of {table} and their places"] = rows(server, f"SELECT {sums} FROM {table} t")
        found[f"visibility of {table}"] = rows(server, f"SELECT * FROM checks.pg_visibility_map_summary('{table}')")
        for check in ("pg_check_frozen", "pg_check_visible", "verify_heapam"):
            assert rows(server, f"SELECT checks.{check}('{table}')") == []
    for name, query in CATALOGS.items():
        found[name] = rows(server, query)
    for (index,) in rows(server, f"SELECT relname FROM pg_class WHERE {OURS} AND relkind = 'i'"):
        # every row is in the index, and the index has no others
        execute(server, f"SELECT checks.bt_index_parent_check('{index}', true, true)")
    return found


@pytest.mark.long_cases("sbtest", "tpcc")
@pytest.mark.parametrize("dataset", DATASETS, ids=[each.name for each in DATASETS])
def test_a_load_leaves_the_same_without_wal(running: Server, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = in_force(running)
    monkeypatch.setenv(VARIABLE, "1")
    assert configured(reload(running, dataset)) == []
    assert wal_level_of_load(running) == "logical"
    with_wal = left_by_load(running)
    monkeypatch.delenv(VARIABLE)
    begin, end = configured(reload(running, dataset))
    assert present(begin).startswith("restarted: archive_mode = off, ")
    assert present(begin).endswith(", wal_level = minimal")
    assert present(end).endswith(", wal_level = logical")
    assert wal_level_of_load(running) == "minimal"
    assert in_force(running) == planned
    for what, found in left_by_load(running).items():
        assert found == with_wal[what], what


def test_rows_are_not_in_the_wal(running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Dataset("sbtest", 30_000, 2)
    written = []
    for with_wal in ("0", "1"):
        monkeypatch.setenv(VARIABLE, with_wal)
        written.append(-value(running, "SELECT wal_bytes FROM pg_stat_wal"))
        reload(running, dataset)
        written[-1] += value(running, "SELECT wal_bytes FROM pg_stat_wal")
    size = value(running, "SELECT sum(pg_table_size(oid)) FROM pg_class WHERE relname IN ('sbtest1', 'sbtest2')")
    # what there is are catalogs, and indexes below wal_skip_threshold
    assert written[0] < size / 2, written
    assert written[1] > size, written


@pytest.mark.long_cases("snapshot")
@pytest.mark.parametrize("method", ["template", "snapshot", "vacuum"])
def test_every_reset_goes_on_from_such_a_load(running: Server, method: str) -> None:
    execute(running, f"COMMENT ON DATABASE {running.dbname} IS NULL")
    trials = preparer(running, method=method)
    assert len(configured(trials.prepare(SMALL))) == 2
    execute(running, "UPDATE pgbench_tellers SET tbalance = 0 WHERE tid = 1")
    again = trials.prepare(SMALL)
    assert configured(again) == []
    assert wal_level_of_load(running) == "minimal"
    assert value(running, "SELECT count(*) FROM pgbench_accounts") == 100_000


def test_the_fingerprint_says_how_it_was_loaded(running: Server) -> None:
    reload(running)
    host = HostPrint(cpu_model="X", cores=2, memory_bytes=1, architecture="x", kernel="6", os="Debian")
    taken = Fingerprint(host=host, pgdyno="1", pgdrive="1", generator="here", seed=1, workload={}, reset={})
    taken = with_server(taken, "t", running, running.facts())
    taken = with_mark(taken, "t", running, SMALL)
    execute(running, "CREATE INDEX ON pgbench_branches (bbalance)")
    taken = with_indexes(taken, "t", running)
    indexes = taken.servers["t"].indexes or {}
    # other tests of this module leave tables of sysbench
    assert {table: found for table, found in indexes.items() if "pgbench" in table} == {
        "public.pgbench_accounts": "unique btree (aid)",
        "public.pgbench_branches": "btree (bbalance); unique btree (bid)",
        "public.pgbench_tellers": "unique btree (tid)",
    }
    assert taken.servers["t"].dataset_marks == taken.servers["t"].loaded_without_wal == ["pgbench scale 1"]


# ---- which loads ----


def test_small_datasets_and_refused_ones_are_loaded_with_wal(running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgdyno.prepare.timed_steps, "FROM_BYTES", FROM_BYTES)
    large = Dataset("pgbench", 40)
    for dataset in (large, Dataset("sbtest", 1_000_000, 10), Dataset("tpcc", 10, profile="spec")):
        assert is_worthwhile(running, dataset)
    for dataset in (Dataset("pgbench", 30), Dataset("sbtest", 100_000, 10)):
        assert not is_worthwhile(running, dataset)
    for with_wal in ("1", "0"):
        monkeypatch.setenv(VARIABLE, with_wal)
        assert is_worthwhile(running, large) == (with_wal == "0")
    elsewhere = Server(running.address, [], None)
    assert not is_worthwhile(elsewhere, large)


def test_a_server_that_cannot_run_so_loads_with_wal(running: Server) -> None:
    planned = in_force(running)
    execute(running, "SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')")
    try:
        (reason,) = {each for each in configured(reload(running)) if each is not None}
    finally:
        execute(running, "SELECT pg_drop_replication_slot('decoded')")
    assert reason.startswith("loading with WAL: cannot start PostgreSQL 18")
    assert 'logical replication slot "decoded" exists' in reason
    assert wal_level_of_load(running) == "logical"
    assert in_force(running) == planned


@pytest.mark.long
def test_standbys_are_made_of_it_and_later_loads_reach_them(home: Home) -> None:
    with opened(home, embedded(replicas={"count": 1})) as server:
        trials = preparer(server, method="reload")
        assert len(configured(trials.prepare(SMALL))) == 2
        assert on_replica(server, "SELECT count(*) FROM pgbench_accounts") == 100_000
        assert configured(trials.prepare(Dataset("pgbench", 2))) == []
        assert on_replica(server, "SELECT count(*) FROM pgbench_accounts") == 200_000


# ---- interrupted ----

HOLD = (
    "CREATE TABLE gate AS SELECT",
    """
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        WHILE NEW.aid = 60000 AND EXISTS (SELECT FROM gate) LOOP PERFORM pg_sleep(0.05); END LOOP;
        RETURN NEW;
    END $$""",
    """
    CREATE FUNCTION hold_accounts() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF tg_tag = 'CREATE TABLE' AND to_regclass('pgbench_accounts') IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_trigger WHERE tgrelid = to_regclass('pgbench_accounts')
        ) THEN
            CREATE TRIGGER hold BEFORE INSERT ON pgbench_accounts FOR EACH ROW EXECUTE FUNCTION hold();
        END IF;
    END $$""",
    "CREATE EVENT TRIGGER hold_accounts ON ddl_command_end EXECUTE FUNCTION hold_accounts()",
)
"""Makes later loads stop during their COPY."""
LET_GO = (
    "DROP EVENT TRIGGER IF EXISTS hold_accounts",
    "DROP FUNCTION IF EXISTS hold_accounts, hold CASCADE",
    "DROP TABLE IF EXISTS gate",
)
HELD = """
    SELECT current_setting('wal_level') FROM pg_stat_activity
    WHERE query LIKE 'copy pgbench_accounts %' AND wait_event = 'PgSleep'
"""


def wait_until_held(connect: Callable[[], psycopg.Connection[tuple[Any, ...]]], goes_on: Callable[[], bool]) -> None:
    """Returns when the load has stopped during its COPY, under wal_level = minimal."""

    def is_held() -> bool:
        assert goes_on(), "the load ended"
        try:
            with connect() as connection:
                found = connection.execute(HELD).fetchall()
        except (TargetError, psycopg.OperationalError):
            return False  # the server restarts for the load
        assert found in ([], [("minimal",)])
        return bool(found)

    wait_until(is_held)


def assert_loads_anew(server: Server, whole: dict[str, object], settings: dict[str, str]) -> None:
    """Nothing of the interrupted load counts, and the next load leaves a complete dataset."""
    assert in_force(server) == settings
    assert stamped_dataset(server) is None
    assert value(server, "SELECT count(*) FROM pgbench_accounts") == 0
    execute(server, *LET_GO)
    assert len(configured(preparer(server, method="none").prepare(SMALL))) == 2
    assert wal_level_of_load(server) == "minimal"
    found = left_by_load(server)
    assert {name for name in found if found[name] != whole[name]} == set()


def install_checks(server: Server) -> None:
    execute(server, "CREATE SCHEMA checks", *(f"CREATE EXTENSION {each} SCHEMA checks" for each in CHECKS))


@pytest.mark.long
def test_a_server_that_is_killed_while_it_loads(running: Server) -> None:
    reload(running)
    whole, settings = left_by_load(running), in_force(running)
    execute(running, *HOLD)
    failed: list[Exception] = []

    def prepare() -> None:
        try:
            reload(running)
        except (TargetError, psycopg.Error) as error:
            failed.append(error)

    loading = threading.Thread(target=prepare)
    loading.start()
    try:
        wait_until_held(running.connect, loading.is_alive)
        for process in servers_in(running.data_directory):
            process.send(signal.SIGKILL)
    finally:
        loading.join()
    assert isinstance(failed[0], TargetError)
    assert failed[0].message.startswith("cannot load pgbench at scale 1: ")
    assert not running.alive()
    # as before the next trial of a run
    running.restart()
    assert_loads_anew(running, whole, settings)


@pytest.mark.long
@pytest.mark.parametrize("dies", ["pgdyno", "pgdyno and its server"])
def test_a_kept_cluster_whose_run_is_killed_while_it_loads(warm_home: Home, dies: str) -> None:
    spec = embedded(keep_data=True, settings=PLANNED)
    with opened(warm_home, spec) as server:
        install_checks(server)
        reload(server)
        whole, settings = left_by_load(server), in_force(server)
        execute(server, *HOLD)
        cluster = server.data_directory

    def load() -> None:
        with opened(warm_home, spec) as server:
            reload(server)

    child = multiprocessing.get_context("fork").Process(target=load)
    child.start()
    try:
        wait_until_held(lambda: connect_to(warm_home), child.is_alive)
        killed = [] if dies == "pgdyno" else servers_in(cluster)
        for process in killed:
            process.send(signal.SIGKILL)
    finally:
        child.kill()
        child.join()
    # a server that was killed is there for the next one until init has taken note
    wait_until(lambda: not any(Path(f"/proc/{process.pid}").exists() for process in killed))
    assert "wal_level = 'minimal'" in (cluster / "postgresql.conf").read_text()
    with opened(warm_home, spec) as server:
        assert server.data_directory == cluster
        assert_loads_anew(server, whole, settings)


def connect_to(home: Home) -> psycopg.Connection[tuple[Any, ...]]:
    """Connects to the server that another pgdyno runs. Raises psycopg.OperationalError while it is down."""
    try:
        (record,) = home.instances.glob(f"*/{RECORD}")
    except ValueError as error:
        raise psycopg.OperationalError(str(error)) from error
    return connect_by(record)
