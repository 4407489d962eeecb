"""The reset before a trial and the check after it: each method restores the same dataset, and reports what it did."""

import os
import platform
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgdyno.prepare.cache
from pgdyno.errors import TargetError
from pgdyno.host import describe_host
from pgdyno.prepare import Dataset
from pgdyno.prepare.cache import dataset_relations, page_cache_share, read_every_page, shared_buffers_share
from pgdyno.prepare.dataset import read_comment
from pgdyno.prepare.dataset_copies import find_template
from pgdyno.programs import find_engine
from pgdyno.records import Preparation
from pgdyno.targets import Home, Server
from pgdyno.targets.round_trip import LEAST_TRIPS, TRIPS, measure_network_path
from tests.postgres.servers import embedded, execute, opened, preparer, rows, value
from tests.present import present
from tests.run_program import run_program

SETTINGS = {"fsync": "off", "shared_buffers": "64MB", "autovacuum": "off"}
SMALL = Dataset("pgbench", 1)
TEMPLATE = "pgdyno_template"
TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def running(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=SETTINGS), "reset") as server:
        yield server


@pytest.fixture
def own_server(running: Server) -> Server:
    execute(running, "DROP TABLE IF EXISTS more", f"COMMENT ON DATABASE {running.dbname} IS NULL")
    for template in (TEMPLATE, f"{TEMPLATE}_2"):
        execute(running, f"DROP DATABASE IF EXISTS {template}")
    if running.copy.folder.exists():
        shutil.rmtree(running.copy.folder)
    return running


def content(server: Server) -> dict[str, Any]:
    found = {}
    with server.connect() as connection:
        for table in TABLES:
            query = f"SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {table} t"
            found[table] = connection.execute(query).fetchone()
    return found


def sizes(server: Server) -> dict[str, int]:
    return {relation.name: relation.main_bytes for relation in dataset_relations(server)}


def steps(prepared: Preparation) -> list[str]:
    return [step.name for step in prepared.steps]


def spoil(server: Server) -> None:
    execute(
        server,
        "UPDATE pgbench_accounts SET abalance = abalance + 7, filler = 'spoilt' WHERE aid % 3 = 0",
        "DELETE FROM pgbench_tellers WHERE tid = 4",
        "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT 1, 1, n, 5 FROM generate_series(1, 5000) n",
        "CREATE TABLE more AS SELECT 1 AS n",
    )


@pytest.mark.long_cases("copy", "wal_log")
@pytest.mark.parametrize(
    "reset",
    [
        {"method": "template"},
        {"method": "template", "strategy": "wal_log"},
        {"method": "template", "strategy": "file_copy", "file_copy_method": "copy"},
        {"method": "snapshot", "snapshot": "copy"},
        {"method": "reload"},
    ],
    ids=lambda reset: "-".join(reset.values()),
)
def test_the_same_dataset_comes_back(own_server: Server, reset: dict[str, Any]) -> None:
    prepare = preparer(own_server, **reset)
    first = prepare.prepare(SMALL)
    loaded, loaded_sizes, comment = content(own_server), sizes(own_server), read_comment(own_server)
    assert loaded["pgbench_accounts"][0] == 100_000
    spoil(own_server)
    assert content(own_server) != loaded
    second = prepare.prepare(SMALL)
    assert content(own_server) == loaded
    if reset["method"] != "reload":
        # another load has another mark, may leave other gaps, and knows nothing of further tables
        assert read_comment(own_server) == comment
        assert sizes(own_server) == loaded_sizes
    for done in (first, second):
        assert done.method == reset["method"]
        assert done.seconds == pytest.approx(sum(step.seconds for step in done.steps))
        assert all(step.seconds >= 0 for step in done.steps)
    expected = {
        "template": ["copy", "verify", "checkpoint"],
        "snapshot": ["stop", "restore", "start", "verify", "checkpoint"],
        "reload": ["load", "verify", "checkpoint"],
    }
    assert steps(second) == expected[reset["method"]]
    # counted when it was loaded, by size when it was copied
    assert next(step.detail for step in first.steps if step.name == "verify") == "accounts counted"


def test_vacuum_does_as_pgbench_and_none_does_nothing(own_server: Server) -> None:
    preparer(own_server, method="vacuum").prepare(SMALL)
    execute(
        own_server,
        "UPDATE pgbench_branches SET bbalance = 5",
        "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 5)",
    )
    none = preparer(own_server, method="none", checkpoint=False).prepare(SMALL)
    assert content(own_server)["pgbench_history"][0] == 1
    assert steps(none) == ["load", "read sums", "verify"]
    done = preparer(own_server, method="vacuum").prepare(SMALL)
    assert content(own_server)["pgbench_history"][0] == 0
    assert steps(done) == ["load", "vacuum", "read sums", "verify", "checkpoint"]
    assert value(own_server, "SELECT bbalance FROM pgbench_branches") == 5


def test_a_table_that_a_script_dropped_is_passed_over(own_server: Server) -> None:
    prepare = preparer(own_server, "mine.sql")
    # without a dataset, nothing is reset
    assert steps(prepare.prepare(None)) == ["checkpoint"]
    prepare.prepare(SMALL)
    execute(own_server, "DROP TABLE pgbench_history")
    done = {step.name: step.detail for step in prepare.prepare(SMALL).steps}
    assert done["vacuum"] == "missing tables: TRUNCATE pgbench_history"
    assert done["verify"] == "its dataset stamp"
    checked = present(prepare.check())
    assert (checked.scope, checked.violations) == ("none", [])


def test_a_dataset_that_lost_rows_is_refused_and_one_with_other_tables_loaded_anew(own_server: Server) -> None:
    prepare = preparer(own_server)
    prepare.prepare(SMALL)
    execute(own_server, "DELETE FROM pgbench_tellers WHERE tid = 4")
    with pytest.raises(TargetError, match="pgbench_tellers has 9 rows, not 10"):
        prepare.prepare(SMALL)
    execute(
        own_server,
        "DROP TABLE pgbench_tellers",
        "CREATE TABLE pgbench_tellers AS SELECT n AS tid, 1 AS bid, 0 AS tbalance FROM generate_series(1, 10) n",
    )
    (detail,) = [step.detail for step in prepare.prepare(SMALL).steps if step.name == "load"]
    assert detail == "pgbench at scale 1"
    # accounts that vanished are seen by their size
    prepare = preparer(own_server, consistency="counts")
    prepare.prepare(SMALL)
    execute(own_server, "DELETE FROM pgbench_accounts WHERE aid > 1000", "VACUUM pgbench_accounts")
    with pytest.raises(TargetError, match=r"pgbench_accounts has .* bytes, not"):
        prepare.prepare(SMALL)


def test_a_template_is_copied_while_nobody_changes_it(own_server: Server) -> None:
    execute(own_server, f"COMMENT ON DATABASE {own_server.dbname} IS 'mine'")
    prepare = preparer(own_server, method="template")
    prepare.prepare(SMALL)
    # sessions that are left do not hold it up
    with own_server.connect() as left:
        left.execute("SELECT 1")
        prepare.prepare(SMALL)
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
    # the user's own comment stays next to the stamp
    assert present(read_comment(own_server)).startswith("mine\n[pgdyno-dataset ")
    with pytest.raises(TargetError, match="not currently accepting connections"):
        own_server.connect(TEMPLATE)
    execute(own_server, f"ALTER DATABASE {TEMPLATE} ALLOW_CONNECTIONS true", dbname="postgres")
    execute(own_server, "UPDATE pgbench_accounts SET abalance = 3 WHERE aid = 7", dbname=TEMPLATE)
    with pytest.raises(TargetError, match=r"its sums are accounts 3, tellers 0, branches 0, history 0, not accounts 0"):
        preparer(own_server, method="template").prepare(SMALL)


def test_prewarmed_and_cold(own_server: Server) -> None:
    warm = preparer(own_server, restart=True, drop_cache="files", prewarm="pg_prewarm").prepare(SMALL)
    assert steps(warm)[-4:] == ["checkpoint", "restart", "drop cache", "prewarm"]
    assert warm.dataset_bytes == sum(sizes(own_server).values())
    assert warm.shared_buffers_share == pytest.approx(1.0, abs=0.02)
    assert warm.page_cache_share == pytest.approx(1.0, abs=0.02)
    cold = preparer(own_server, restart=True, drop_cache="files").prepare(SMALL)
    assert present(cold.shared_buffers_share) < 0.05
    assert present(cold.page_cache_share) < 0.05
    # reading fills the page cache, and of shared buffers what its ring lets it
    read = preparer(own_server, restart=True, drop_cache="files", prewarm="read").prepare(SMALL)
    heap = sum(relation.main_bytes for relation in dataset_relations(own_server) if relation.is_table)
    assert present(read.page_cache_share) >= heap / present(read.dataset_bytes) - 0.02
    # shares of nothing are not known
    assert page_cache_share(own_server.data_directory, []) is None
    assert shared_buffers_share(own_server, []) is None


def test_the_machine_s_cache_analyze_and_statistics(
    own_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the real one would drop the caches of everything else that runs here
    told = tmp_path / "drop_caches"
    monkeypatch.setattr(pgdyno.prepare.cache, "DROP_CACHES", told)
    done = preparer(own_server, drop_cache="machine").prepare(SMALL)
    assert told.read_text() == "1\n"
    assert [step.detail for step in done.steps if step.name == "drop cache"] == ["the machine's whole cache"]
    execute(own_server, "SELECT count(*) FROM pgbench_accounts")
    assert steps(preparer(own_server, analyze=True, statistics=True).prepare(SMALL))[-2:] == ["analyze", "statistics"]
    # statistics are reset after the analyze, whose result stays
    query = "SELECT seq_scan, last_analyze, reltuples FROM pg_stat_user_tables JOIN pg_class c ON c.oid = relid"
    assert rows(own_server, f"{query} WHERE c.relname = 'pgbench_accounts'") == [(0, None, 100_000)]


@pytest.mark.long_cases("snapshot")
@pytest.mark.parametrize("method", ["template", "snapshot"])
def test_too_little_room_harms_nothing(own_server: Server, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = preparer(own_server, method=method)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, 1 << 30, 1 << 20))
        with pytest.raises(TargetError, match=r"it needs [0-9.]+ MiB, and .* has 1\.0 MiB free"):
            prepare.prepare(SMALL)
    assert content(own_server)["pgbench_accounts"][0] == 100_000
    assert not own_server.copy.folder.exists()
    prepare.prepare(SMALL)
    assert content(own_server)["pgbench_accounts"][0] == 100_000


@pytest.mark.long
def test_each_dataset_keeps_its_template(own_server: Server) -> None:
    prepare = preparer(own_server, method="template")
    prepare.prepare(SMALL)
    assert steps(prepare.prepare(Dataset("pgbench", 2)))[:3] == ["load", "template", "copy"]
    assert content(own_server)["pgbench_accounts"][0] == 200_000
    for scale in (1, 2):
        assert steps(prepare.prepare(Dataset("pgbench", scale)))[:2] == ["copy", "verify"]
        assert content(own_server)["pgbench_accounts"][0] == scale * 100_000


def test_templates_of_others_make_room(own_server: Server) -> None:
    prepare = preparer(own_server, method="template")
    prepare.prepare(SMALL)
    # nothing is as large as that
    prepare.keep_free_bytes = 1 << 60
    prepare.prepare(Dataset("pgbench", 2))
    assert find_template(own_server, SMALL) is None
    assert find_template(own_server, Dataset("pgbench", 2)) == TEMPLATE


def test_a_copy_belongs_to_the_server_s_user_and_has_no_tablespace_elsewhere(own_server: Server, scratch: Path) -> None:
    place = scratch / "space"
    place.mkdir()
    account = own_server.copy.account
    account.take(place)
    prepare = preparer(own_server, method="snapshot")
    execute(own_server, f"CREATE TABLESPACE elsewhere LOCATION '{place}'")
    with pytest.raises(TargetError, match="points outside it"):
        prepare.prepare(SMALL)
    assert own_server.alive()
    execute(own_server, "DROP TABLESPACE elsewhere")
    prepare.prepare(SMALL)
    for folder in (own_server.data_directory, own_server.copy.folder / "data"):
        assert {os.lstat(path).st_uid for path in [folder, *folder.rglob("*")]} == {account.uid}
        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_way_to_a_server_of_this_machine(server: Server) -> None:
    way = measure_network_path(server)
    assert LEAST_TRIPS <= way.round_trips <= TRIPS
    assert 0 < way.least_us <= way.median_us
    # it is the same clock
    assert abs(present(way.clock_ahead_us)) <= present(way.clock_uncertainty_us)
    assert way.cpu_model == describe_host().cpu_model or platform.machine() != "x86_64"
    assert (way.generator_zone, way.server_zone, way.instance) == (None, None, None)


def test_every_page_is_read_and_no_extension_is_left(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS touched")
        connection.execute("CREATE TABLE touched AS SELECT g, repeat('x', 500) AS x FROM generate_series(1, 2000) g")
        connection.execute("CREATE INDEX ON touched (g)")
        before = connection.execute("SELECT count(*) FROM pg_extension").fetchone()
        blocks = sum(each.main_bytes // 8192 for each in dataset_relations(server))
        assert read_every_page(server) == f"{server.dbname}: {blocks:,} blocks"
        assert connection.execute("SELECT count(*) FROM pg_extension").fetchone() == before
        connection.execute("DROP TABLE touched")


# ---- the balances of TPC-B after a trial ----


def run(server: Server, *scripts: str) -> None:
    options = [option for script in scripts for option in ("-b", script)]
    command = [str(find_engine().path), "--no-vacuum", "--client=2", "--transactions=50", *options]
    run_program(command, env=server.environment(), check=True)


MIXES = ["tpcb-like", "simple-update", "select-only", "tpcb-like simple-update select-only"]


@pytest.mark.long_cases("vacuum", "[simple-update")
@pytest.mark.parametrize("method", ["vacuum", "template"])
@pytest.mark.parametrize("mix", MIXES)
def test_balances_hold_after_pgbench_s_scripts(own_server: Server, mix: str, method: str) -> None:
    scripts = mix.split()
    prepare = preparer(own_server, *scripts, method=method)
    preparer(own_server, *scripts, method="reload").prepare(SMALL)
    for _ in range(2):
        prepare.prepare(SMALL)
        run(own_server, *scripts)
        checked = present(prepare.check())
        assert (checked.scope, checked.violations) == ("full", [])
        assert checked.counts["pgbench_accounts"] == 100_000
        assert (checked.counts["pgbench_history"] > 0) == (mix != "select-only")


A_DELTA = "SELECT ctid FROM pgbench_history WHERE delta <> 0 LIMIT 1"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7", "the sums changed by accounts"),
        ("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 7", "the sums changed by accounts"),
        ("UPDATE pgbench_branches SET bbalance = bbalance - 1", "the sums changed by accounts"),
        (f"DELETE FROM pgbench_history WHERE ctid IN ({A_DELTA})", "changed"),
        ("INSERT INTO pgbench_tellers VALUES (11, 1, 0)", "pgbench_tellers has 11 rows, not 10"),
    ],
)
def test_a_write_of_somebody_else_is_found(own_server: Server, statement: str, said: str) -> None:
    prepare = preparer(own_server, "tpcb-like", method="template")
    prepare.prepare(SMALL)
    run(own_server, "tpcb-like")
    execute(own_server, statement)
    (violation,) = present(prepare.check()).violations
    assert said in violation


SPOIL = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7"


@pytest.mark.parametrize(("method", "violations", "rows"), [("none", [0, 0], 100), ("vacuum", [0, 1, 0], None)])
def test_trials_that_go_on_with_a_history(
    own_server: Server, method: str, violations: list[int], rows: int | None
) -> None:
    """It is counted from where it was; a write between two trials is found after the next, and only there."""
    preparer(own_server, "tpcb-like", method="reload").prepare(SMALL)
    prepare = preparer(own_server, "tpcb-like", method=method)
    for number, found in enumerate(violations, start=1):
        prepare.prepare(SMALL)
        run(own_server, "tpcb-like")
        checked = present(prepare.check())
        assert len(checked.violations) == found
        assert rows is None or checked.counts["pgbench_history"] == rows * number
        if number == 1 and 1 in violations:
            execute(own_server, SPOIL)


def test_what_is_checked(own_server: Server) -> None:
    # counts alone see rows and not sums
    prepare = preparer(own_server, "tpcb-like", method="template", consistency="counts")
    prepare.prepare(SMALL)
    execute(own_server, SPOIL)
    checked = present(prepare.check())
    assert (checked.scope, checked.violations, checked.changes) == ("counts", [], {})
    assert "pgbench_accounts" not in checked.counts
    prepare.prepare(SMALL)
    execute(own_server, "DELETE FROM pgbench_branches")
    assert present(prepare.check()).violations == ["pgbench_branches has 0 rows, not 1"]
    # select-only may write nothing
    prepare = preparer(own_server, "select-only", method="template")
    prepare.prepare(SMALL)
    execute(own_server, "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0)")
    assert present(prepare.check()).violations == ["the history has 1 new row, although the scripts write none"]
    # no check where none is wanted
    prepare = preparer(own_server, "tpcb-like", method="reload", consistency="none")
    prepare.prepare(SMALL)
    assert prepare.check() is None


def test_unknown_sums_are_read_before_the_next_trial(own_server: Server) -> None:
    preparer(own_server, "tpcb-like", method="reload").prepare(SMALL)
    prepare = preparer(own_server, "tpcb-like", method="vacuum")
    prepare.prepare(SMALL)
    run(own_server, "tpcb-like")
    # as after an interrupted trial: nothing was checked, and other sessions may have written
    prepare.forget()
    execute(own_server, SPOIL)
    assert "read sums" in [step.name for step in prepare.prepare(SMALL).steps]
    run(own_server, "tpcb-like")
    assert present(prepare.check()).violations == []
