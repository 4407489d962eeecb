"""Clusters: where their files are, templates of them, changes of settings, and the versions of PostgreSQL."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgdyno.targets.cluster.folders
from pgdyno.errors import TargetError
from pgdyno.plan.known_settings import NEEDS_RELOAD, NEEDS_START, SINCE, UNTIL, why_unknown
from pgdyno.prepare import Dataset
from pgdyno.records.probe import WAIT_TYPES
from pgdyno.targets import Home, Server, sweep_leftovers
from pgdyno.targets.cluster import instance as instance_module
from pgdyno.targets.cluster.folders import available_memory, remove_places
from pgdyno.targets.cluster.initdb import init_cluster
from pgdyno.targets.cluster.instance_record import RECORD, InstanceRecord
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.cluster.reconfigure import reconfigure
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.conninfo import conninfo
from tests.postgres.servers import embedded, execute, opened, preparer, rows, value
from tests.present import present


def target_at(**environment: object) -> EmbeddedTarget:
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
    with opened(home, target_at(data=str(data), wal=str(wal), variables=variables)) as server:
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


def test_memory_without_and_of_a_size(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home, target_at(data="tmpfs")) as server:
        place = server.data_directory.parent
        assert place.parent == Path("/dev/shm")
        assert server.facts().data_checksums
    assert not place.exists()
    sized = target_at(data="tmpfs", tmpfs_size="300MB")
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
    with pytest.raises(TargetError, match=said), opened(home, target_at(data=str(closed))):
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
    place = leave_by_a_killed_run(warm_home, target_at(data=str(data), wal=str(wal)))
    assert place.parent == data
    (said,) = sweep_leftovers(warm_home)
    # the server itself ends with its pgdyno, sooner or later than this
    assert " of target t, left by process " in str(said)
    assert servers_in(place / "data") == []
    assert only_precious(data, wal)
    place = leave_by_a_killed_run(warm_home, target_at(data="tmpfs", tmpfs_size="300MB"))
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


IDENTIFIER = "SELECT system_identifier FROM pg_control_system()"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Counts the calls of initdb, with their folders."""
    calls: list[object] = []
    whole = init_cluster

    def counting(*args: Any, **options: Any) -> None:  # noqa: ANN401 - as the function has them
        calls.append(args[1])
        whole(*args, **options)

    monkeypatch.setattr(instance_module, "init_cluster", counting)
    return calls


@pytest.mark.long
def test_a_second_cluster_is_a_copy_with_another_password(warm_home: Home, made: list[object]) -> None:
    warm_home.templates.unlink()
    over_tcp = embedded(connect="tcp")
    with opened(warm_home, over_tcp, "a") as first:
        known = value(first, IDENTIFIER)
        execute(first, "CREATE TABLE only_here ()")
        with opened(warm_home, over_tcp, "b") as second:
            assert (value(second, IDENTIFIER), len(made)) == (known, 1)
            assert second.data_directory.stat().st_mode & 0o777 == 0o700
            assert value(second, "SELECT to_regclass('only_here')") is None
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(conninfo(second), password=first.password)
    assert [path.name.count(".partial") for path in warm_home.templates.iterdir()] == [0]
    # initdb's own where it is asked for something else, or where the cluster stays
    for other in (embedded(initdb=["--wal-segsize=8"]), embedded(keep_data=True)):
        with opened(warm_home, other, "c") as third:
            assert value(third, IDENTIFIER) != known
    assert len(made) == 3


@pytest.mark.long
def test_a_broken_template_is_no_obstacle(warm_home: Home, made: list[object]) -> None:
    warm_home.templates.unlink()
    with opened(warm_home, embedded(), "a") as server:
        known = value(server, IDENTIFIER)
    (template,) = warm_home.templates.iterdir()
    # it is unreadable, and a killed run has left half of another
    template.chmod(0)
    template.with_name(f"{template.name}.partial").mkdir()
    with opened(warm_home, embedded(), "b") as server:
        assert value(server, IDENTIFIER) != known
    assert len(made) == 2
    assert list(warm_home.templates.iterdir()) == [template]
    template.chmod(0o700)


BASE = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "4MB"}
STARTED = "SELECT pg_postmaster_start_time()::text"


@pytest.fixture(scope="module")
def configured(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=BASE), "configured") as server:
        yield server


@pytest.fixture
def own(configured: Server) -> Server:
    if not configured.alive():
        configured.restart()
    reconfigure(configured, BASE)
    return configured


def test_a_server_reloads_or_restarts_as_settings_require(own: Server) -> None:
    before = value(own, STARTED)
    assert reconfigure(own, {**BASE, "Work_Mem": "4MB"}) is None
    done = present(reconfigure(own, {**BASE, "work_mem": "8192kB", "random_page_cost": "1.1"}))
    assert (done.restarted, done.values) == (False, {"work_mem": "8MB", "random_page_cost": "1.1"})
    assert value(own, "SHOW work_mem") == "8MB"
    # what is left out returns to the server's own
    assert not present(reconfigure(own, {**BASE, "work_mem": "6MB"})).restarted
    assert value(own, "SHOW random_page_cost") == "4"
    assert value(own, STARTED) == before
    # also by others
    own.restart()
    assert value(own, "SHOW work_mem") == "6MB"
    before = value(own, STARTED)
    done = present(reconfigure(own, {**BASE, "work_mem": "6MB", "shared_buffers": "32MB"}))
    assert (done.restarted, done.values) == (True, {"shared_buffers": "32MB"})
    assert value(own, STARTED) != before
    assert value(own, "SHOW shared_buffers") == "32MB"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("work_mem", "much", 'invalid value for parameter "work_mem": "much"'),
        ("shared_buffers", "much", 'invalid value for parameter "shared_buffers": "much"'),
        ("no_such_setting", "1", "the server has no such setting"),
        ("port", "1", "cannot set port"),
        # with which no session begins
        ("session_preload_libraries", "nowhere", "nowhere"),
    ],
)
def test_refused_settings_are_reported_and_withdrawn(own: Server, name: str, given: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        reconfigure(own, {**BASE, name: given})
    if not own.alive():
        own.restart()
    assert (value(own, "SHOW work_mem"), value(own, "SHOW shared_buffers")) == ("4MB", "16MB")
    assert reconfigure(own, BASE) is None


def test_a_setting_that_something_else_overrides_is_not_taken_for_ours(own: Server) -> None:
    execute(own, "ALTER SYSTEM SET work_mem = '5MB'")
    try:
        with pytest.raises(TargetError, match=r"cannot set work_mem = 7MB: 5MB is in effect"):
            reconfigure(own, {**BASE, "work_mem": "7MB"})
    finally:
        execute(own, "ALTER SYSTEM RESET work_mem", "SELECT pg_reload_conf()")


SMALL = Dataset("pgbench", 1)
QUICK = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "7MB"}


def settings_are_those_of_the_table(server: Server, version: str) -> None:
    known = {name for (name,) in rows(server, "SELECT name FROM pg_settings")}
    told = {name for name in SINCE | UNTIL if why_unknown(name, int(version)) is None}
    assert told == known & (SINCE.keys() | UNTIL.keys())


@pytest.mark.long_cases("[10", "[13", "snapshot", "template")
@pytest.mark.parametrize("method", ["vacuum", "template", "snapshot"])
@pytest.mark.parametrize("version", ["10", "13", "18"])
def test_every_version_is_prepared_and_checked_alike(home: Home, version: str, method: str) -> None:
    spec = embedded(version, settings=QUICK)
    with opened(home, spec) as server:
        trials = preparer(server, method=method, restart=True, drop_cache="files", prewarm="read", analyze=True,
                          statistics=True, consistency="full")  # fmt: skip
        for _ in range(2):
            prepared = trials.prepare(SMALL)
            assert (prepared.dataset_bytes or 0) > 10_000_000
            # the table is there, its index is not
            assert 0.5 < (prepared.page_cache_share or 0) < 1
            found = present(trials.check())
            assert (found.violations, found.counts["pgbench_accounts"]) == ([], 100_000)
        facts = server.facts()
        settings_are_those_of_the_table(server, version)
    assert facts.version.startswith(f"{version}.")
    assert facts.settings_changed["work_mem"] == "7MB"
    assert facts.data_checksums
    assert (facts.cluster_bytes or 0) > 10_000_000


CONTEXTS = frozenset(["internal", "postmaster", "sighup", "superuser-backend", "backend", "superuser", "user"])
VIEWS = frozenset(
    [
        "pg_stat_activity", "pg_stat_all_indexes", "pg_stat_all_tables", "pg_stat_archiver",
        "pg_stat_autovacuum_scores", "pg_stat_bgwriter", "pg_stat_checkpointer", "pg_stat_database",
        "pg_stat_database_conflicts", "pg_stat_gssapi", "pg_stat_io", "pg_stat_lock",
        "pg_stat_progress_analyze", "pg_stat_progress_basebackup", "pg_stat_progress_cluster",
        "pg_stat_progress_copy", "pg_stat_progress_create_index", "pg_stat_progress_data_checksums",
        "pg_stat_progress_repack", "pg_stat_progress_vacuum", "pg_stat_recovery", "pg_stat_recovery_prefetch",
        "pg_stat_replication", "pg_stat_replication_slots", "pg_stat_slru", "pg_stat_ssl",
        "pg_stat_subscription", "pg_stat_subscription_stats", "pg_stat_sys_indexes", "pg_stat_sys_tables",
        "pg_stat_user_functions", "pg_stat_user_indexes", "pg_stat_user_tables", "pg_stat_wal",
        "pg_stat_wal_receiver", "pg_stat_xact_all_tables", "pg_stat_xact_sys_tables",
        "pg_stat_xact_user_functions", "pg_stat_xact_user_tables",
    ]
)  # fmt: skip
"""Of 10 to 19: for a view that is new, decide whether it adds evidence, then add it here."""


def unknown_to_tables(session: psycopg.Connection[tuple[str]]) -> dict[str, set[str]]:
    """Returns what a server of 17 or later reports and pgdyno's tables of versions lack, by its sort."""
    asked = {
        "wait types": ("SELECT type FROM pg_wait_events", WAIT_TYPES),
        "contexts of settings": ("SELECT context FROM pg_settings", CONTEXTS),
        "views": ("SELECT viewname FROM pg_views WHERE viewname LIKE 'pg\\_stat\\_%'", VIEWS),
        "settings to start with": ("SELECT name FROM pg_settings WHERE context = 'postmaster'", NEEDS_START),
        "settings to reload": ("SELECT name FROM pg_settings WHERE context = 'sighup'", NEEDS_RELOAD),
    }
    found = {
        sort: {text.lower() if "settings to" in sort else text for (text,) in session.execute(query)} - known
        for sort, (query, known) in asked.items()
    }
    return {sort: unknown for sort, unknown in found.items() if unknown}


def test_the_newest_server_reports_nothing_that_the_tables_lack(server: Server) -> None:
    settings_are_those_of_the_table(server, "18")
    with server.connect() as session:
        assert unknown_to_tables(session) == {}
