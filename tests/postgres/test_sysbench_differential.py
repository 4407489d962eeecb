"""sysbench and pgdrive on one server: the same statements, as often, on rows with the same distribution.

The server provides the figures: pg_stat_statements after a run of each program on a dataset of its own.
"""

import math
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pgdyno.targets import Home, Server
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.conftest import FAST, MAJOR
from tests.postgres.servers import execute, opened, rows
from tests.postgres.test_pgdrive import environment
from tests.run_program import PGDRIVE, run_program

DATABASE = "sysbench_pair"
TABLES = 2
EVENTS = 200


def sizes(tables: int, prefix: str = "--") -> list[str]:
    return [f"{prefix}tables={tables}", f"{prefix}table-size=1000"]


# the last two have one table
OLTP = (
    "oltp_read_write", "oltp_read_only", "oltp_write_only", "oltp_point_select", "oltp_insert", "oltp_delete",
    "oltp_update_index", "oltp_update_non_index", "select_random_points", "select_random_ranges",
)  # fmt: skip


@pytest.fixture(scope="module")
def watched(home: Home) -> Iterator[Server]:
    settings = {**FAST, "shared_preload_libraries": "pg_stat_statements", "compute_query_id": "on"}
    with opened(home, EmbeddedTarget(kind="embedded", version=MAJOR, settings=settings), "sysbench") as server:
        execute(server, f"CREATE DATABASE {DATABASE}", dbname="postgres")
        execute(server, "CREATE EXTENSION pg_stat_statements", dbname=DATABASE)
        yield server


def pgdrive(server: Server, *args: str) -> str:
    return run_program([PGDRIVE, *args, DATABASE], env=environment(server), code=0).stdout


def of_connection(server: Server, database: str = "") -> list[str]:
    env = environment(server)
    return [
        f"pgsql-host={env['PGHOST']}",
        f"pgsql-port={env['PGPORT']}",
        f"pgsql-user={env['PGUSER']}",
        f"pgsql-password={env.get('PGPASSWORD', '')}",
        f"pgsql-db={database or env.get('PGDATABASE', 'postgres')}",
    ]


def run_sysbench(
    server: Server,
    script: str,
    command: str,
    *options: str,
    database: str = "",
    folder: Path | None = None,
    code: int | None = None,
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("sysbench")
    if program is None:
        pytest.fail("there is no sysbench to compare with: `make test-packages` installs it")
    given = [f"--{option}" for option in ("db-driver=pgsql", *of_connection(server, database))]
    return run_program([program, *given, *options, script, command], env=environment(server), cwd=folder, code=code)


def sysbench(server: Server, script: str, command: str, *options: str) -> None:
    run_sysbench(server, script, command, *options, database=DATABASE, code=0)


def fresh_tables(server: Server, tables: int) -> None:
    pgdrive(server, "-i", "--dataset=sbtest", *sizes(tables), "-q")
    execute(server, "SELECT pg_stat_statements_reset()", dbname=DATABASE)


def statements(server: Server) -> dict[str, tuple[int, int]]:
    """Returns calls and rows by text without blanks and table number."""
    query = (
        "SELECT s.query, s.calls, s.rows FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
        " WHERE d.datname = current_database()"
    )
    seen: dict[str, tuple[int, int]] = {}
    for text, calls, found in rows(server, query, DATABASE):
        key = re.sub(r"sbtest\d+", "sbtest", " ".join(text.split()))
        if "sbtest" in key or key in {"BEGIN", "COMMIT"}:
            known = seen.get(key, (0, 0))
            seen[key] = known[0] + calls, known[1] + found
    return seen


def programs(script: str, tables: int) -> Iterator[tuple[str, Sequence[str]]]:
    """pgdrive with sysbench's own script, and with the workload of the same name."""
    yield "script", ("--lua", script, *sizes(tables, "--lua-opt="))
    yield "workload", ("--workload", script.replace("_", "-"), *sizes(tables))


@pytest.mark.parametrize("script", OLTP)
def test_the_server_sees_what_sysbench_sends(watched: Server, script: str) -> None:
    tables = TABLES if script.startswith("oltp") else 1
    fresh_tables(watched, tables)
    sysbench(watched, script, "run", *sizes(tables), f"--events={EVENTS}", "--time=0")
    theirs = statements(watched)
    assert theirs
    for name, args in programs(script, tables):
        fresh_tables(watched, tables)
        pgdrive(watched, *args, "-c", "1", "-t", str(EVENTS))
        ours = statements(watched)
        assert {text: calls for text, (calls, _) in ours.items()} == {
            text: calls for text, (calls, _) in theirs.items()
        }, name
        for text, (calls, found) in ours.items():
            # of deletes and inserts of drawn rows not all meet one, and how many is chance; of reads all do
            expected = theirs[text][1]
            share = min(1.0, expected / calls)
            chance = 5 * math.sqrt(2 * calls * share * (1 - share))
            assert abs(found - expected) <= max(chance, 0.25 * expected) + 5, (name, text)


@pytest.mark.parametrize("distribution", ["uniform", "gaussian", "special", "pareto"])
def test_rows_are_drawn_by_the_same_distribution(watched: Server, distribution: str, tmp_path: Path) -> None:
    """Both run the same script, which records what it draws."""
    script = tmp_path / "draws.lua"
    script.write_text(
        "function thread_init() con = sysbench.sql.driver():connect() end\n"
        "function event()\n"
        "   local values = {}\n"
        "   for i = 1, 1000 do values[i] = '(' .. sysbench.rand.default(1, 1000) .. ')' end\n"
        "   con:query('INSERT INTO draws VALUES ' .. table.concat(values, ','))\n"
        "end\n"
    )
    shares = []
    for is_ours in (False, True):
        execute(watched, "DROP TABLE IF EXISTS draws", "CREATE TABLE draws (value int)", dbname=DATABASE)
        if is_ours:
            given = ("--lua-opt", f"rand-type={distribution}", "--random-seed", "7")
            pgdrive(watched, "--lua", str(script), *given, "-t", "40")
        else:
            options = (f"--rand-type={distribution}", "--events=40", "--time=0", "--rand-seed=7")
            sysbench(watched, str(script), "run", *options)
        buckets = (
            "SELECT count(value) FROM generate_series(0, 99) AS bucket"
            " LEFT JOIN draws ON (value - 1) / 10 = bucket GROUP BY bucket ORDER BY bucket"
        )
        counts = [count for (count,) in rows(watched, buckets, DATABASE)]
        assert sum(counts) == 40_000, "no value is out of bounds"
        shares.append([count / 40_000 for count in counts])
    theirs, ours = shares
    distance = sum(abs(one - other) for one, other in zip(theirs, ours, strict=True)) / 2
    # two samples of 40,000 over 100 buckets differ by about 0.03 when they come from one distribution
    assert distance < 0.05, (distance, theirs, ours)


def test_the_tables_that_prepare_makes_are_the_same(watched: Server) -> None:
    described = []
    for is_ours in (False, True):
        execute(watched, "DROP TABLE IF EXISTS sbtest1, sbtest2", dbname=DATABASE)
        if is_ours:
            given = ("--lua-opt", f"tables={TABLES}", "--lua-opt", "table-size=300")
            pgdrive(watched, "--lua", "oltp_read_write", *given, "--lua-command", "prepare", "-c", "2")
        else:
            sysbench(watched, "oltp_read_write", "prepare", f"--tables={TABLES}", "--table-size=300")
        described.append(
            [
                rows(watched, query, DATABASE)
                for query in (
                    (
                        "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns"
                        " WHERE table_name LIKE 'sbtest%' ORDER BY 1, 2"
                    ),
                    "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'sbtest%' ORDER BY 1",
                    (
                        "SELECT count(*), min(id), max(id), min(length(c)), max(length(c)), min(k) >= 1, max(k) <= 300"
                        " FROM sbtest2"
                    ),
                )
            ]
        )
    assert described[0] == described[1]
    pgdrive(watched, "--lua", "oltp_read_write", "--lua-opt", f"tables={TABLES}", "--lua-command", "cleanup")
    assert rows(watched, "SELECT to_regclass('sbtest1'), to_regclass('sbtest2')", DATABASE) == [(None, None)]


def test_bulk_insert_makes_the_same_rows(watched: Server) -> None:
    sums = []
    for ours in ((), ("--lua", "bulk_insert"), ("--workload", "bulk-insert")):
        execute(watched, "DROP TABLE IF EXISTS sbtest1, sbtest2", dbname=DATABASE)
        if ours:
            pgdrive(watched, *ours, "--lua-command", "prepare")
            pgdrive(watched, *ours, "-t", "20000")
        else:
            sysbench(watched, "bulk_insert", "prepare")
            sysbench(watched, "bulk_insert", "run", "--events=20000", "--time=0")
        sums += rows(watched, "SELECT count(*), sum(id), sum(k) FROM sbtest1", DATABASE)
    assert sums[0] == sums[1] == sums[2]
    assert sums[0][0] == 20000


def test_figures_add_up_with_the_servers(watched: Server) -> None:
    fresh_tables(watched, TABLES)
    out = pgdrive(watched, "--workload", "oltp-read-write", *sizes(TABLES), "-c", "1", "-t", "50")
    seen = statements(watched)
    found = re.search(r"number of statements: (\d+) \((\d+) reads, (\d+) writes, (\d+) others;", out)
    assert found is not None, out
    total, reads, writes, others = (int(number) for number in found.groups())
    assert total == reads + writes + others == 50 * 20
    # the server counts a prepared BEGIN or COMMIT once a session only
    assert sum(calls for text, (calls, _) in seen.items() if "sbtest" in text) == 50 * 18
    assert reads == sum(calls for text, (calls, _) in seen.items() if text.startswith("SELECT")) == 50 * 14
    assert writes + others == 50 * 6
    assert "number of ignored errors: 0 (0.00 per second)" in out
    assert "transactions per client: average 50.00, stddev 0.00, from 50 to 50" in out


@pytest.mark.long_cases("init")
@pytest.mark.parametrize(
    "text",
    ["function event()\n  while true do end\nend\n", "function init() while true do end end\nfunction event() end\n"],
    ids=["in event", "in init"],
)
def test_a_script_that_runs_on_is_ended_after_the_deadline(watched: Server, tmp_path: Path, text: str) -> None:
    script = tmp_path / "endless.lua"
    script.write_text(text)
    done = run_program([PGDRIVE, "--lua", script, "-T", "1", DATABASE], env=environment(watched), code=2)
    assert f'script "{script}" is still running without a statement' in done.stderr


@pytest.mark.long
def test_many_clients_that_compute_one_after_the_other_are_no_endless_loop(watched: Server, tmp_path: Path) -> None:
    script = tmp_path / "slow.lua"
    script.write_text(
        "function event()\n"
        "  local since = os.clock()\n  while os.clock() - since < 0.2 do end\n"
        '  sysbench.sql.driver():connect():query("SELECT 1")\n'
        "end\n"
    )
    # its only worker begins the clients one after the other, for 6 s
    out = pgdrive(watched, "--lua", str(script), "-c", "30", "-j", "1", "-T", "1")
    assert "number of transactions actually processed: 30" in out
