"""`pgdrive -i` compared with `pgbench -i`: the same rows, tables, keys and errors.

The expected result is that of the installed pgbench, of any version; the server is PostgreSQL 18. Where versions of
pgbench create different objects, pgdrive follows 18:

- `--unlogged-tables` with `--partitions`: pgbench before 18 requests an unlogged partitioned table, which servers from
  18 on refuse; pgbench 18 makes only the partitions unlogged.
- COPY FREEZE: pgbench before 17 freezes pgbench_accounts only, later ones all tables that are not partitioned.
- Lines of progress: pgbench before 17 does not name the table in them.
"""

import itertools
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString

import pytest
from psycopg import sql

from pgdyno.targets import Server
from tests.postgres.pgbench_words import assert_same_words, installed_pgbench, version_of
from tests.postgres.servers import execute, rows, value
from tests.postgres.test_pgdrive import environment
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until

TABLESPACES = ('the "fast" one', "pgdyno_init_keys")
"""Where tables and keys lie in the test of tablespaces."""
MakeDatabase = Callable[[], str]

# ---- running both ----


@pytest.fixture(scope="module")
def pgbench() -> str:
    return installed_pgbench()


@pytest.fixture(scope="module")
def as_pgbench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    link = tmp_path_factory.mktemp("as-pgbench") / "pgbench"
    link.symlink_to(PGDRIVE)
    return link


@pytest.fixture(scope="module")
def databases(server: Server) -> Iterator[list[str]]:
    names: list[str] = []
    for name in TABLESPACES:
        administer(server, "CREATE TABLESPACE {} LOCATION ''", name)
    yield names
    for name in names:
        administer(server, "DROP DATABASE {} WITH (FORCE)", name)
    for name in TABLESPACES:
        administer(server, "DROP TABLESPACE {}", name)


@pytest.fixture
def make_database(server: Server, databases: list[str]) -> MakeDatabase:
    """Gives a test empty databases: those of the test before it, emptied, which is quicker than new ones."""
    given = itertools.count()

    def make() -> str:
        place = next(given)
        if place == len(databases):
            databases.append(f"pgdyno_init_{place}")
            administer(server, "CREATE DATABASE {}", databases[place])
        else:
            execute(
                server,
                "DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION pg_database_owner",
                "DROP SCHEMA IF EXISTS pgdyno_load CASCADE",
                dbname=databases[place],
            )
            # what pgdrive notes of a load
            administer(server, "COMMENT ON DATABASE {} IS NULL", databases[place])
        return databases[place]

    return make


def administer(server: Server, statement: LiteralString, *names: str) -> None:
    with server.connect() as connection:
        # in-place tablespaces are for developers: only a setting of the session allows them
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def run(
    program: str | Path, server: Server, dbname: str, *args: str, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    return run_program([program, *args], env=environment(server) | {"PGDATABASE": dbname}, code=code)


# ---- what a load has made ----

MADE = {
    "relations": """
        SELECT c.relname, relkind, relpersistence, reloptions, spcname, pg_get_partkeydef(c.oid),
               pg_get_expr(relpartbound, c.oid)
        FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = reltablespace
        WHERE relnamespace = 'public'::regnamespace ORDER BY 1""",
    "columns": """
        SELECT attrelid::regclass::text, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
               pg_get_expr(adbin, adrelid)
        FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'public'::regnamespace AND attnum > 0 ORDER BY 1, 2""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid), convalidated
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
    "indexes": """
        SELECT indrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid
        FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2""",
}
# a row as text tells a blank filler from NULL; two sums of hashes tell what rows there are, whatever their order.
# OFFSET 0 keeps the planner from writing the row as text four times
ROWS = """
    SELECT count(*), sum(hashtextextended(line, 0)::numeric), sum(hashtextextended(line, 1)::numeric),
           min(length(line)), max(length(line))
    FROM (SELECT t::text AS line FROM {} t OFFSET 0) each"""
TABLES = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history")


def made(server: Server, dbname: str) -> dict[str, Any]:
    statements = MADE | {table: ROWS.format(table) for table in TABLES}
    return {name: rows(server, statement, dbname) for name, statement in statements.items()}


COMBINATIONS = [
    [],
    ["-s", "3", "-F", "70", "-n"],
    ["--foreign-keys", "--scale=2", "--fillfactor=33"],
    ["-I", "dt G v p f"],
    ["-I", "dtpfgvg", "--foreign-keys"],
    ["--unlogged-tables"],
    ["--unlogged-tables", "-n", "--foreign-keys"],
    ["--unlogged-tables", "-I", "dtGp", "-F", "90"],
    ["--partitions=3"],
    ["--partitions=3", "-s", "2"],
    ["--partitions=7", "--foreign-keys", "-F", "80"],
    ["--partitions=5", "--partition-method=HASH", "--foreign-keys", "-F", "60"],
    ["--partitions=4", "--partition-method=hash", "-I", "dtGvp"],
    # without rows: account numbers are bigint from here on
    ["-s", "19999", "-I", "dtp"],
    ["-s", "20000", "-I", "dtpf"],
    ["-s", "30000", "-I", "dtp", "--partitions=4"],
    [f"--tablespace={TABLESPACES[0]}", f"--index-tablespace={TABLESPACES[1]}"],
    [f"--tablespace={TABLESPACES[0]}", f"--index-tablespace={TABLESPACES[1]}", "--partitions=2"],
]


WAYS = [[], ["--load-workers=4", "--load-chunk=7001"], ["--load-workers=3", "--load-chunk=0"]]


@pytest.mark.long_cases("0000", "-s 2", "scale", "dtG", "dtpf", "fast", "keys", "n]", "unlogged", "=3]", "=7")
@pytest.mark.parametrize("options", COMBINATIONS, ids=" ".join)
def test_pgbench_makes_the_same(
    server: Server, pgbench: str, as_pgbench: Path, make_database: MakeDatabase, options: list[str]
) -> None:
    dbname = make_database()
    run(pgbench, server, dbname, "-i", *options, code=0)
    expected = made(server, dbname)
    assert len(expected["relations"]) >= len(TABLES)
    # the same by chunks over many connections, and under its name
    for program, way in [*((PGDRIVE, way) for way in WAYS), (as_pgbench, [])]:
        dbname = make_database()
        run(program, server, dbname, "-i", *way, *options, code=0)
        ours = made(server, dbname)
        for kind, facts in expected.items():
            assert ours[kind] == facts, (program, way, kind)
        # nothing is left of the load but the tables
        assert rows(server, "SELECT FROM pg_namespace WHERE nspname = 'pgdyno_load'", dbname) == []


def test_partitions_alone_are_unlogged(server: Server, pgbench: str, make_database: MakeDatabase) -> None:
    options = ["-i", "--unlogged-tables", "--partitions=2"]
    theirs, ours = make_database(), make_database()
    expected = run(pgbench, server, theirs, *options)
    run(PGDRIVE, server, ours, *options, code=0)
    persistence = rows(server, "SELECT relname, relpersistence FROM pg_class WHERE relname ~ '^pgb'", ours)
    unlogged = {name for name, kind in persistence if kind == "u"}
    assert unlogged == {f"pgbench_accounts_{number}{key}" for number in (1, 2) for key in ("", "_pkey")}
    if version_of(pgbench) >= (18, 0):
        assert made(server, theirs) == made(server, ours)
    else:
        assert "partitioned tables cannot be unlogged" in expected.stderr


def test_rows_are_frozen_where_they_may_be(server: Server, as_pgbench: Path, make_database: MakeDatabase) -> None:
    dbname = make_database()
    frozen = """
        SELECT relname, relallfrozen > 0.9 * relpages FROM pg_class
        WHERE relkind = 'r' AND relname ~ '^pgbench_[^h]' ORDER BY 1"""
    for program, options, expected in [
        (as_pgbench, [], {"pgbench_accounts": True}),
        (as_pgbench, ["--partitions=1"], {"pgbench_accounts_1": False}),
        # the tables are those of the last load: whether one is partitioned is asked of the server
        (as_pgbench, ["-I", "g"], {"pgbench_accounts_1": False}),
        (PGDRIVE, [], {"pgbench_accounts": True}),
        # a partition that is loaded by itself can be frozen, too; what is loaded in chunks is by VACUUM
        (PGDRIVE, ["--partitions=1"], {"pgbench_accounts_1": True}),
        (PGDRIVE, ["--load-chunk=30000"], {"pgbench_accounts": False}),
        (PGDRIVE, ["--load-chunk=30000", "-I", "dtgv"], {"pgbench_accounts": True}),
    ]:
        skip = [] if "dtgv" in options else ["-n"]
        run(program, server, dbname, "-i", *skip, *options, code=0)
        execute(server, "ANALYZE", dbname=dbname)
        small = expected.get("pgbench_accounts") or "--load-chunk=30000" not in options
        both = {"pgbench_branches": small, "pgbench_tellers": small}
        assert dict(rows(server, frozen, dbname)) == both | expected, options


# ---- messages ----


def assert_lines(text: str, patterns: Sequence[str]) -> None:
    for line, pattern in itertools.zip_longest(text.splitlines(), patterns, fillvalue=""):
        assert re.fullmatch(pattern, line)


@pytest.mark.long
def test_progress_is_told_in_pgbenchs_words(server: Server, as_pgbench: Path, make_database: MakeDatabase) -> None:
    dbname = make_database()
    seconds = r"\d+\.\d\d s"
    timing = rf"\(elapsed {seconds}, remaining {seconds}\)"
    accounts = rf"100000 of 100000 tuples \(100%\) of pgbench_accounts done {timing}"
    steps = ["drop tables", "create tables", "client-side generate", "vacuum", "primary keys", "foreign keys"]
    expected = [
        "dropping old tables...",
        *(rf'NOTICE:  table "{table}" does not exist, skipping' for table in sorted(TABLES)),
        "creating tables...",
        "creating 2 partitions...",
        r"generating data \(client-side\)...",
        accounts,
        "vacuuming...",
        "creating primary keys...",
        "creating foreign keys...",
        rf"done in {seconds} \({', '.join(f'{step} {seconds}' for step in steps)}\).",
    ]
    done = run(as_pgbench, server, dbname, "-i", "-s", "1", "--foreign-keys", "--partitions=2")
    assert (done.returncode, done.stdout) == (0, "")
    assert_lines(done.stderr, expected)
    for program in (as_pgbench, PGDRIVE):
        # a small load has one quiet line, at its end
        quiet = [
            r"generating data \(client-side\)...",
            accounts,
            r"generating data \(server-side\)...",
            rf"done in {seconds} \(client-side generate {seconds}, server-side generate {seconds}\).",
        ]
        assert_lines(run(program, server, dbname, "-i", "-q", "-s", "1", "-I", "gG").stderr, quiet)
    # under its own name it tells of all tables together, with rates
    said = run(PGDRIVE, server, dbname, "-i", "-s", "1", "--foreign-keys", "--partitions=2").stderr
    rates = [line for line in said.splitlines() if "tuples" in line]
    assert re.fullmatch(rf"100011 of 100011 tuples \(100%\) done {timing}, \d+ tuples/s, \d+\.\d MB/s", rates[-1])
    patterns = [pattern for pattern in expected if "tuples" not in pattern and "NOTICE" not in pattern]
    assert_lines("\n".join(line for line in said.splitlines() if "tuples" not in line), patterns)


@pytest.mark.parametrize(
    "options", [["--tablespace=nowhere at all"], ["-I", "g"], ["-I", "p"], ["-I", "dtt"]], ids=" ".join
)
def test_complaints_are_pgbenchs(server: Server, pgbench: str, make_database: MakeDatabase, options: list[str]) -> None:
    """Those of the server; test_pgbench_differential has others."""
    expected = run(pgbench, server, make_database(), "-i", *options)
    done = run(PGDRIVE, server, make_database(), "-i", *options)
    assert expected.returncode == 1
    assert (done.returncode, done.stdout) == (1, "")
    # the wording of the statement itself is no part of the interface
    ours, theirs = (re.sub("(Query was: ....).*", r"\1", text) for text in (done.stderr, expected.stderr))
    assert_same_words(ours.replace("pgdrive: ", "pgbench: "), theirs)


# ---- signals ----


def start(
    server: Server, dbname: str, *args: str, program: Path = PGDRIVE, over: Sequence[tuple[str, str]] = ()
) -> subprocess.Popen[str]:
    env = environment(server) | {"PGDATABASE": dbname} | dict(over)
    return subprocess.Popen([str(program), "-i", *args], env=env, stderr=subprocess.PIPE, text=True)


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    process.send_signal(number)
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 128 + number, said
    return said


def test_an_interrupted_load_leaves_earlier_rows(server: Server, as_pgbench: Path, make_database: MakeDatabase) -> None:
    dbname = make_database()
    run(PGDRIVE, server, dbname, "-i", code=0)
    before = made(server, dbname)
    process = start(server, dbname, "-I", "g", "-s", "500", program=as_pgbench)
    # rows of the new load are on their way
    assert any("200000 of 50000000 tuples" in line for line in present(process.stderr))
    assert interrupt(process).splitlines()[-1] == "interrupted; the tables are not complete"
    assert made(server, dbname) == before


WAITING = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted"
OVER_TCP = [("PGHOST", "127.0.0.1")]


def test_a_killed_load_leaves_no_session(server: Server, make_database: MakeDatabase) -> None:
    dbname = make_database()
    run(PGDRIVE, server, dbname, "-i", code=0)
    with server.connect(dbname) as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE pgbench_accounts IN ACCESS SHARE MODE")
        process = start(server, dbname, "-I", "d", over=OVER_TCP)
        wait_until(lambda: value(server, WAITING, dbname) == 1)
        process.kill()
        process.communicate()
        # no request cancels it, and the lock is still held
        wait_until(lambda: value(server, WAITING, dbname) == 0)
        blocker.execute("ROLLBACK")
    assert value(server, "SELECT count(*) FROM pgbench_accounts", dbname) == 100_000


@pytest.mark.parametrize(("step", "number", "over"), [("g", signal.SIGINT, []), ("G", signal.SIGTERM, OVER_TCP)])
def test_a_signal_cancels_the_statement_that_runs(
    server: Server, make_database: MakeDatabase, step: str, number: int, over: Sequence[tuple[str, str]]
) -> None:
    dbname = make_database()
    run(PGDRIVE, server, dbname, "-i", "-I", "dt", code=0)
    with server.connect(dbname) as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE pgbench_branches")
        # the truncation waits for the lock, for ever unless it is cancelled
        process = start(server, dbname, "-I", step, over=over)
        wait_until(lambda: process.poll() is not None or value(server, WAITING, dbname) != 0)
        said = interrupt(process, number)
        assert said.splitlines()[1:] == ["Cancel request sent", "interrupted; the tables are not complete"]
        blocker.execute("ROLLBACK")
    assert value(server, "SELECT count(*) FROM pgbench_accounts", dbname) == 0
