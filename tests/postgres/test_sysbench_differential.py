"""sysbench and pgdrive on one server: the same statements, as often, on rows with the same distribution.

The server provides the figures: pg_stat_statements after a run of each program on a dataset of its own.
"""

import math
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.conftest import FAST, MAJOR
from tests.postgres.test_pgdrive import environment
from tests.run_program import run_program

PGDRIVE = Path(sys.executable).parent / "pgdrive"
INSTALLED = Path("/usr/share/sysbench")
DATABASE = "sysbench_pair"
TABLES = 2
TABLE_SIZE = 1000
EVENTS = 200

OLTP = (
    "oltp_read_write", "oltp_read_only", "oltp_write_only", "oltp_point_select", "oltp_insert", "oltp_delete",
    "oltp_update_index", "oltp_update_non_index",
)  # fmt: skip
SINGLE_TABLE = ("select_random_points", "select_random_ranges")


@dataclass(frozen=True)
class Seen:
    """The server's counts of one statement."""

    calls: int
    rows: int


@pytest.fixture(scope="module")
def watched(home: Home) -> Iterator[Server]:
    """A server that counts statements."""
    settings = {**FAST, "shared_preload_libraries": "pg_stat_statements", "compute_query_id": "on"}
    spec = EmbeddedTarget(kind="embedded", version=MAJOR, settings=settings)
    with open_target("sysbench", spec, home=home, progress=SilentProgress()) as server:
        with connect(server, "postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        with connect(server, DATABASE) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        yield server


def connect(server: Server, database: str) -> psycopg.Connection[tuple[object, ...]]:
    env = environment(server)
    return psycopg.connect(
        host=env["PGHOST"],
        port=env["PGPORT"],
        user=env.get("PGUSER"),
        password=env.get("PGPASSWORD"),
        dbname=database,
        autocommit=True,
    )


def pgdrive(server: Server, *args: str) -> str:
    command = [str(PGDRIVE), *args, DATABASE]
    done = run_program(command, env=environment(server))
    assert done.returncode == 0, done.stderr
    return done.stdout


def sysbench(
    server: Server, script: str, command: str, *options: str, database: str = DATABASE, folder: Path | None = None
) -> str:
    """Runs sysbench, and returns its output."""
    program = shutil.which("sysbench")
    if program is None or not INSTALLED.is_dir():
        pytest.fail("there is no sysbench to compare with: `make test-packages` installs it")
    env = environment(server)
    given = [
        "--db-driver=pgsql",
        f"--pgsql-host={env['PGHOST']}",
        f"--pgsql-port={env['PGPORT']}",
        f"--pgsql-user={env['PGUSER']}",
        f"--pgsql-password={env.get('PGPASSWORD', '')}",
        f"--pgsql-db={database}",
    ]
    done = run_program([program, *given, *options, script, command], cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fresh_tables(server: Server, tables: int) -> None:
    size = ("--tables", str(tables), "--table-size", str(TABLE_SIZE))
    pgdrive(server, "-i", "--dataset=sbtest", *size, "-q")
    with connect(server, DATABASE) as connection:
        connection.execute("SELECT pg_stat_statements_reset()")


def statements(server: Server) -> dict[str, Seen]:
    """Returns calls and rows by text without blanks and table number. Rows in parentheses
    and constants are not what is compared."""
    query = (
        "SELECT s.query, s.calls, s.rows FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
        " WHERE d.datname = current_database()"
    )
    seen: dict[str, Seen] = {}
    with connect(server, DATABASE) as connection:
        for text, calls, rows in connection.execute(query):
            assert isinstance(text, str)
            assert isinstance(calls, int)
            assert isinstance(rows, int)
            key = re.sub(r"sbtest\d+", "sbtest", " ".join(text.split()))
            if not is_of_the_load(key):
                continue
            known = seen.get(key, Seen(0, 0))
            seen[key] = Seen(known.calls + calls, known.rows + rows)
    return seen


def is_of_the_load(text: str) -> bool:
    return "sbtest" in text or text in {"BEGIN", "COMMIT"}


def programs(script: str, tables: int) -> Iterator[tuple[str, Sequence[str]]]:
    """pgdrive with sysbench's own script, and with the workload of the same name."""
    yield "script", ("--lua", script, "--lua-opt", f"tables={tables}", "--lua-opt", f"table-size={TABLE_SIZE}")
    size = ("--tables", str(tables), "--table-size", str(TABLE_SIZE))
    yield "workload", ("--workload", script.replace("_", "-"), *size)


@pytest.mark.parametrize("script", [*OLTP, *SINGLE_TABLE])
def test_the_server_sees_what_sysbench_sends(watched: Server, script: str) -> None:
    tables = 1 if script in SINGLE_TABLE else TABLES
    fresh_tables(watched, tables)
    options = (f"--tables={tables}", f"--table-size={TABLE_SIZE}", f"--events={EVENTS}", "--time=0")
    sysbench(watched, script, "run", *options)
    theirs = statements(watched)
    assert theirs
    for name, args in programs(script, tables):
        fresh_tables(watched, tables)
        pgdrive(watched, *args, "-c", "1", "-t", str(EVENTS))
        ours = statements(watched)
        assert ours.keys() == theirs.keys(), name
        calls = {text: seen.calls for text, seen in ours.items()}
        assert calls == {text: seen.calls for text, seen in theirs.items()}, name
        for text, seen in ours.items():
            # of deletes and inserts of drawn rows not all meet one, and how many is chance; of reads all do
            share = min(1.0, theirs[text].rows / seen.calls)
            chance = 5 * math.sqrt(2 * seen.calls * share * (1 - share))
            assert abs(seen.rows - theirs[text].rows) <= max(chance, 0.25 * theirs[text].rows) + 5, (name, text)


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
    for program in ("sysbench", "pgdrive"):
        with connect(watched, DATABASE) as connection:
            connection.execute("DROP TABLE IF EXISTS draws")
            connection.execute("CREATE TABLE draws (value int)")
            if program == "sysbench":
                options = (f"--rand-type={distribution}", "--events=40", "--time=0", "--rand-seed=7")
                sysbench(watched, str(script), "run", *options)
            else:
                given = ("--lua-opt", f"rand-type={distribution}", "--random-seed", "7")
                pgdrive(watched, "--lua", str(script), *given, "-t", "40")
            buckets = connection.execute(
                "SELECT bucket, count(value) FROM generate_series(0, 99) AS bucket"
                " LEFT JOIN draws ON (value - 1) / 10 = bucket GROUP BY bucket ORDER BY bucket"
            ).fetchall()
        counts = [count for _, count in buckets]
        assert all(isinstance(count, int) for count in counts)
        assert sum(int(str(count)) for count in counts) == 40_000, "no value is out of bounds"
        shares.append([int(str(count)) / 40_000 for count in counts])
    theirs, ours = shares
    distance = sum(abs(one - other) for one, other in zip(theirs, ours, strict=True)) / 2
    # two samples of 40,000 over 100 buckets differ by about 0.03 when they come from one distribution
    assert distance < 0.05, (distance, theirs, ours)


def test_the_tables_that_prepare_makes_are_the_same(watched: Server) -> None:
    """`prepare` of the installed script, by both: columns, indexes, row counts, ids."""
    described = []
    options = (f"--tables={TABLES}", "--table-size=300")
    for program in ("sysbench", "pgdrive"):
        with connect(watched, DATABASE) as connection:
            for number in range(1, TABLES + 1):
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(f"sbtest{number}")))
            if program == "sysbench":
                sysbench(watched, "oltp_read_write", "prepare", *options)
            else:
                given = ("--lua-opt", f"tables={TABLES}", "--lua-opt", "table-size=300")
                pgdrive(watched, "--lua", "oltp_read_write", *given, "--lua-command", "prepare", "-c", "2")
            columns = connection.execute(
                "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns"
                " WHERE table_name LIKE 'sbtest%' ORDER BY 1, 2"
            ).fetchall()
            indexes = connection.execute(
                "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'sbtest%' ORDER BY 1"
            ).fetchall()
            rows = connection.execute(
                "SELECT count(*), min(id), max(id), min(length(c)), max(length(c)), min(k) >= 1, max(k) <= 300"
                " FROM sbtest2"
            ).fetchall()
        described.append((columns, indexes, rows))
    assert described[0] == described[1]
    pgdrive(watched, "--lua", "oltp_read_write", "--lua-opt", f"tables={TABLES}", "--lua-command", "cleanup")
    with connect(watched, DATABASE) as connection:
        assert connection.execute("SELECT to_regclass('sbtest1'), to_regclass('sbtest2')").fetchone() == (None, None)


def test_bulk_insert_makes_the_same_rows(watched: Server) -> None:
    sums = []
    for program in ("sysbench", "script", "workload"):
        ours = {"script": ("--lua", "bulk_insert"), "workload": ("--workload", "bulk-insert")}
        with connect(watched, DATABASE) as connection:
            connection.execute("DROP TABLE IF EXISTS sbtest1, sbtest2")
            if program == "sysbench":
                sysbench(watched, "bulk_insert", "prepare")
                sysbench(watched, "bulk_insert", "run", "--events=60000", "--time=0")
            else:
                pgdrive(watched, *ours[program], "--lua-command", "prepare")
                pgdrive(watched, *ours[program], "-t", "60000")
            sums.append(connection.execute("SELECT count(*), sum(id), sum(k) FROM sbtest1").fetchone())
            connection.execute("DROP TABLE sbtest1")
    assert sums[0] == sums[1] == sums[2]
    assert sums[0] is not None
    assert sums[0][0] == 60000


def test_figures_add_up_with_the_servers(watched: Server) -> None:
    fresh_tables(watched, TABLES)
    size = ("--tables", str(TABLES), "--table-size", str(TABLE_SIZE))
    out = pgdrive(watched, "--workload", "oltp-read-write", *size, "-c", "1", "-t", "50")
    seen = statements(watched)
    found = re.search(r"number of statements: (\d+) \((\d+) reads, (\d+) writes, (\d+) others;", out)
    assert found is not None, out
    total, reads, writes, others = (int(number) for number in found.groups())
    assert total == reads + writes + others == 50 * 20
    # the server counts a prepared BEGIN or COMMIT once a session only
    assert sum(one.calls for text, one in seen.items() if "sbtest" in text) == 50 * 18
    assert reads == sum(one.calls for text, one in seen.items() if text.startswith("SELECT")) == 50 * 14
    assert writes + others == 50 * 6
    assert "number of ignored errors: 0 (0.00 per second)" in out
    assert "transactions per client: average 50.00, stddev 0.00, from 50 to 50" in out


@pytest.mark.parametrize(
    "text",
    [
        "function event()\n  while true do end\nend\n",
        "while true do end\nfunction event() end\n",
        "function init() while true do end end\nfunction event() end\n",
    ],
    ids=["in event", "while it is loaded", "in init"],
)
def test_a_script_that_runs_on_is_ended_after_the_deadline(watched: Server, tmp_path: Path, text: str) -> None:
    script = tmp_path / "endless.lua"
    script.write_text(text)
    command = [str(PGDRIVE), "--lua", str(script), "-T", "1", DATABASE]
    done = run_program(command, env=environment(watched))
    assert done.returncode == 2
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
    command = [str(PGDRIVE), "--lua", str(script), "-c", "30", "-j", "1", "-T", "1", DATABASE]
    done = run_program(command, env=environment(watched))
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 30" in done.stdout


def test_errors_say_where_in_the_script_they_are(watched: Server, tmp_path: Path) -> None:
    script = tmp_path / "wrong.lua"
    script.write_text(
        "function thread_init() con = sysbench.sql.driver():connect() end\n"
        "local function look()\n  con:query('SELECT * FROM there_is_no_such_table')\nend\n"
        "function event()\n  look()\nend\n"
    )
    command = [str(PGDRIVE), "--lua", str(script), "-t", "1", DATABASE]
    done = run_program(command, env=environment(watched))
    assert done.returncode == 2
    assert "SQL error, SQLSTATE 42P01" in done.stderr
    assert f"{script}:3" in done.stderr
    assert f"{script}:6" in done.stderr
    assert "[client]" not in done.stderr
    assert "[session]" not in done.stderr
