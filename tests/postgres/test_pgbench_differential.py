"""Under the name `pgbench`, pgdrive does what pgbench does: both run on one server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgdyno.targets import Server
from tests.postgres.pgbench_words import assert_same_words, installed_pgbench
from tests.postgres.test_pgdrive import environment
from tests.run_program import run_program

PGDRIVE = Path(sys.executable).parent / "pgdrive"
DATABASES = ("pgbench_theirs", "pgbench_ours")
TABLES = {
    "pgbench_accounts": "SELECT aid, bid, abalance FROM pgbench_accounts WHERE abalance <> 0 ORDER BY aid",
    "pgbench_tellers": "SELECT tid, bid, tbalance FROM pgbench_tellers ORDER BY tid",
    "pgbench_branches": "SELECT bid, bbalance FROM pgbench_branches ORDER BY bid",
    "pgbench_history": "SELECT tid, bid, aid, delta FROM pgbench_history ORDER BY mtime, aid",
}


class Pair:
    """pgbench and pgdrive, each with its own database, both loaded in the same way."""

    def __init__(self, server: Server, ours: Path) -> None:
        self.programs = {DATABASES[0]: installed_pgbench(), DATABASES[1]: str(ours)}
        self.server = server

    def run(self, database: str, *args: str, folder: Path) -> subprocess.CompletedProcess[str]:
        # the name that a program knows itself by must be the same
        command = ["pgbench", *args]
        env = {**environment(self.server), "PGDATABASE": database, "LC_ALL": "C"}
        return run_program(command, executable=self.programs[database], env=env, cwd=folder)

    def both(self, *args: str, folder: Path) -> list[subprocess.CompletedProcess[str]]:
        """Runs both programs, pgbench first, each in its own folder."""
        done = []
        for database in DATABASES:
            own = folder / database
            own.mkdir(exist_ok=True)
            done.append(self.run(database, *args, folder=own))
        return done

    def rows(self, database: str, query: str) -> list[tuple[object, ...]]:
        env = environment(self.server)
        with psycopg.connect(
            host=env["PGHOST"],
            port=env["PGPORT"],
            user=env.get("PGUSER"),
            password=env.get("PGPASSWORD"),
            dbname=database,
        ) as connection:
            cursor = connection.execute(query.encode())
            while cursor.nextset():
                pass
            return cursor.fetchall()


@pytest.fixture(scope="module")
def pair(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pgbench")
    ours = folder / "pgbench"
    ours.symlink_to(PGDRIVE)
    pair = Pair(server, ours)
    with server.connect() as connection:
        connection.autocommit = True
        for database in DATABASES:
            name = sql.Identifier(database)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(name))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    reset(pair, folder)
    yield pair
    with server.connect() as connection:
        connection.autocommit = True
        for database in DATABASES:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))


def reset(pair: Pair, folder: Path) -> None:
    for done in pair.both("-i", "-s", "1", "-q", folder=folder):
        assert done.returncode == 0, done.stderr


def normalised(text: str) -> str:
    """Returns the text without what must differ: databases, processes, and the path of a program."""
    text = re.sub(r"^\S*pgbench:", "pgbench:", text, flags=re.MULTILINE)
    text = re.sub(r"pgbench_(theirs|ours)", "DATABASE", text)
    text = re.sub(r'logfile "(.*)\.\d+"', r'logfile "\1.PID"', text)
    return text.rstrip("\n")


def shape(text: str) -> str:
    """A summary whose measured figures are blanked; counts stay."""
    # pgbench 15 divides by no transactions at all, and has the throughput of a script elsewhere
    lines = [line for line in text.splitlines()[1:] if "NaN" not in line]
    lines = [line.split(", tps")[0].rstrip(")") for line in lines if not line.startswith(" - number of trans")]
    lines = [re.sub(r" +", " ", line) for line in lines]
    return "\n".join(re.sub(r"\d+\.\d+ ms|tps = [\d.]+|^ \d+\.\d{3}", "#", line) for line in lines)


@pytest.mark.long_cases("update-extended]", "update-simple]", "only-extended]", "only-prepared]")
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", ["tpcb-like", "simple-update", "select-only"])
def test_the_same_seed_writes_the_same_rows(pair: Pair, tmp_path: Path, script: str, protocol: str) -> None:
    reset(pair, tmp_path)
    done = pair.both("-b", script, "-M", protocol, "-c", "1", "-t", "200", "--random-seed=42", folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    assert_same_words(shape(done[1].stdout), shape(done[0].stdout))
    assert_same_words(normalised(done[1].stderr), normalised(done[0].stderr))
    for table, query in TABLES.items():
        theirs, ours = (pair.rows(database, query) for database in DATABASES)
        assert theirs == ours, table
    history = len(pair.rows(DATABASES[1], TABLES["pgbench_history"]))
    assert history == (0 if script == "select-only" else 200)


VALUES = """\
\\set whole random(1, 1000000)
\\set low random_exponential(1, 1000000, 5.0)
\\set mid random_gaussian(1, 1000000, 4.0)
\\set few random_zipfian(1, 1000000, 1.5)
\\set hashed hash(:whole)
\\set mixed permute(:whole, 1000001)
\\set share 1.0 * :whole / 7
\\if :whole % 2 = 0
INSERT INTO drawn VALUES (:client_id, :whole, :low, :mid, :few, :hashed, :mixed, :share);
\\else
INSERT INTO drawn VALUES (-1, :whole, :low, :mid, :few, :hashed, :mixed, :share);
\\endif
"""


def test_the_same_seed_draws_the_same_values(pair: Pair, tmp_path: Path) -> None:
    script = tmp_path / "values.sql"
    script.write_text(VALUES)
    columns = ", ".join(f"{name} numeric" for name in ["id", "whole", "low", "mid", "few", "hashed", "mixed", "share"])
    for database in DATABASES:
        pair.rows(database, f"CREATE TABLE drawn ({columns}); SELECT 1 AS done")
    done = pair.both("-f", str(script), "-n", "-c", "1", "-t", "300", "--random-seed=7", folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    theirs, ours = (pair.rows(database, "SELECT * FROM drawn ORDER BY whole, low") for database in DATABASES)
    assert len(theirs) == 300
    assert theirs == ours


def test_weighted_scripts_are_chosen_alike(pair: Pair, tmp_path: Path) -> None:
    args = ("-b", "select-only@3", "-b", "simple-update@2", "-c", "1", "-t", "100", "--random-seed=9", "-r")
    theirs, ours = pair.both(*args, folder=tmp_path)
    assert theirs.returncode == ours.returncode == 0
    assert_same_words(shape(ours.stdout), shape(theirs.stdout))


def logged(folder: Path) -> list[list[str]]:
    """Lines of all logs in a folder, as words, in the order of the files' names."""
    files = sorted(folder.glob("*log.*"), key=lambda file: len(file.name))
    assert files
    return [line.split(" ") for file in files for line in file.read_text().splitlines()]


def test_aggregates_have_the_same_columns(pair: Pair, tmp_path: Path) -> None:
    script = tmp_path / "pauses.sql"
    script.write_text("SELECT 1;\n\\sleep 5 ms\n")
    done = pair.both("-f", str(script), "-n", "-l", "--aggregate-interval=1", "-T", "3", folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    theirs, ours = (logged(tmp_path / database) for database in DATABASES)
    assert {len(line) for line in theirs} == {len(line) for line in ours} == {15}
    for log in (theirs, ours):
        starts = [int(line[0]) for line in log]
        assert starts == list(range(starts[0], starts[0] + len(starts)))
        # a second of a loaded machine may have nothing
        assert all(int(line[4]) <= int(line[5]) for line in log[1:] if int(line[1]) > 0)
        assert all(line[6:] == ["0"] * 9 for line in log)


COMMAND_LINES = [
    ("-c", "0"),
    ("-c", "x"),
    ("-c", "-1"),
    ("-j", "0"),
    ("-t", "0"),
    ("-T", "0"),
    ("-T", "2.5"),
    ("-t", "1", "-T", "1"),
    ("-P", "0"),
    ("-s", "0"),
    ("-R", "0"),
    ("-R", "x"),
    ("-L", "0"),
    ("-M", "odd"),
    ("-D", "x"),
    ("-D", "=1"),
    ("-D", "a!=1"),
    ("-F", "50"),
    ("-i", "-S"),
    ("-i", "-F", "5"),
    ("-i", "-I", "dx"),
    ("-b", "nosuch"),
    ("-b", "s"),
    ("-b", "select-only@x"),
    ("-b", "select-only@-1"),
    ("-b", "select-only@0"),
    ("-f", "/nowhere/x.sql"),
    ("--nosuch",),
    ("-c",),
    ("a", "b"),
    ("--max-tries=-1",),
    ("--max-tries=0",),
    ("--sampling-rate=0.1",),
    ("-l", "--sampling-rate=2"),
    ("-l", "--sampling-rate=1", "--aggregate-interval=1"),
    ("--aggregate-interval=1",),
    ("-l", "--aggregate-interval=0"),
    ("-l", "--aggregate-interval=6", "-T", "5"),
    ("-l", "--aggregate-interval=2", "-T", "5"),
    ("--log-prefix=x",),
    ("-l", "--log-prefix=/nowhere/x", "-n", "-t", "1"),
    ("--progress-timestamp",),
    ("--random-seed=x",),
    ("--show-script=nosuch",),
    ("--show-script=select-only",),
    ("-b", "list"),
    ("-c", "2000000000"),
    ("-d", "nosuchdatabase", "-S"),
]


@pytest.mark.parametrize("args", COMMAND_LINES, ids=" ".join)
def test_refusals_have_the_same_words(pair: Pair, tmp_path: Path, args: tuple[str, ...]) -> None:
    theirs, ours = pair.both(*args, folder=tmp_path)
    assert ours.returncode == theirs.returncode
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))


SCRIPTS = {
    "no such table": "SELECT 1;\nSELECT * FROM nowhere;\n",
    "syntax": "SELECT 1 +;\n",
    "in two lines": "SELECT 1,\n  2 FROM\n  nowhere;\n",
    "a hint": "SELECT relnam FROM pg_class;\n",
    "a detail": "INSERT INTO pgbench_branches VALUES (1, 0);\n",
    "the second of two": "SELECT 1 \\; SELECT 1 / 0 \\; SELECT 2;\n",
    "the server ends it": "SELECT pg_terminate_backend(pg_backend_pid());\n",
    "with a context": "DO $$ BEGIN RAISE 'no'; END $$;\n",
    "division in an expression": "\\set x 1 / 0\n",
    "an undefined variable": "\\set x :nothing + 1\n",
    "overflow": "\\set x 9223372036854775807 + 1\n",
    "an empty range": "\\set x random(2, 1)\n",
    "a condition": "\\set x 'true\n",
    "if": "\\if 1 / 0\n\\endif\n",
    "gset of nothing": "SELECT 1 WHERE false \\gset\n",
    "gset of two": "SELECT generate_series(1, 2) AS a \\gset\n",
    "gset of a command": "SET work_mem = '1MB' \\gset\n",
    "gset of a command after rows": "SELECT 1 AS a \\; SET work_mem = '1MB' \\gset\n",
    "gset of rows without columns": "SELECT \\gset\nSELECT FROM generate_series(1, 2) \\gset\n",
    "aset of rows without columns": "SELECT \\aset\nSELECT 1 AS a \\; SELECT \\aset\n\\set b 1 / (:a - 1)\n",
    "gset of a bad name": 'SELECT 1 AS "a b" \\gset\n',
    "aset of a bad name": 'SELECT 1 AS a \\; SELECT 2 AS "a b" \\; SELECT 3 AS c \\aset\n',
    "sleep": "\\set x 'a'\n\\sleep :nothing ms\n",
    "shell": "\\shell false\n",
    "setshell": "\\setshell x echo hello\n",
    "setshell of nothing": "\\setshell x true\n",
    "shell variable": "\\shell echo :nothing\n",
    "open transaction": "BEGIN;\n",
    "unknown command": "\\nosuch\n",
    "missing endif": "\\if 1\nSELECT 1;\n",
    "else without if": "\\else\n",
    "missing argument": "\\set\n",
    "bad expression": "\\set x 1 +\n",
    "bad function": "\\set x nosuch(1)\n",
    "too many arguments": "\\set x abs(1, 2)\n",
    "pipeline in simple": "\\startpipeline\nSELECT 1;\n\\endpipeline\n",
    "no pipeline": "\\endpipeline\n",
    "gset at the start": "\\gset\n",
    "empty": "-- nothing\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_fail_in_the_same_words(pair: Pair, tmp_path: Path, name: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPTS[name])
    theirs, ours = pair.both("-f", str(script), "-n", "-c", "1", "-t", "1", folder=tmp_path)
    assert ours.returncode == theirs.returncode
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
    assert_same_words(shape(ours.stdout), shape(theirs.stdout))


@pytest.mark.parametrize("name", ["syntax", "no such table", "in two lines"])
def test_a_statement_that_cannot_be_prepared_is_reported_twice(pair: Pair, tmp_path: Path, name: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPTS[name])
    theirs, ours = pair.both("-f", str(script), "-n", "-M", "prepared", "-t", "2", folder=tmp_path)
    # pgbench before 16 names statements by script and number, and prepares all of a script at once
    errors = [re.sub(r'"P\d*_\d+"', '"P"', normalised(done.stderr)) for done in (theirs, ours)]
    assert_same_words(errors[1], errors[0])
    assert 'prepared statement "P" does not exist' in errors[1]
    assert ours.returncode == theirs.returncode == 2


NOTICES = {
    "notice": "DO $$ BEGIN RAISE NOTICE 'hello' USING DETAIL = 'more', HINT = 'do'; END $$;\n",
    "warning": "SET LOCAL work_mem = '1MB';\n",
    "with a place": "SELECT 1;\nSELECT\n 'a\\b';\n",
    "several": "BEGIN;\nBEGIN;\nEND;\nEND;\nDROP TABLE IF EXISTS nowhere;\n",
    "before an error": "DO $$ BEGIN RAISE INFO 'so far'; RAISE 'no further'; END $$;\n",
}


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("name", NOTICES)
def test_notices_are_printed_as_libpq_prints_them(pair: Pair, tmp_path: Path, name: str, protocol: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text(NOTICES[name])
    settings = "options=-cstandard_conforming_strings=off"
    theirs, ours = pair.both("-f", str(script), "-n", "-M", protocol, "-t", "2", settings, folder=tmp_path)
    if name == "before an error":
        # pgbench adds that the client was aborted, in words of its version
        assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
    else:
        assert normalised(ours.stderr) == normalised(theirs.stderr)
    assert ours.returncode == theirs.returncode
    assert re.search("(NOTICE|WARNING|INFO):  ", ours.stderr)


def test_notices_in_a_pipeline_are_printed(pair: Pair, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    local = "SET LOCAL work_mem = '1MB';\n"
    script.write_text(f"\\startpipeline\n{local}SELECT 1;\n{local}SELECT\n 'a\\b';\n\\endpipeline\n")
    settings = "options=-cstandard_conforming_strings=off"
    theirs, ours = pair.both("-f", str(script), "-n", "-M", "extended", "-t", "2", settings, folder=tmp_path)
    # a notice comes before libpq has done with the statement before it: it points into that one
    messages = [[line for line in done.stderr.split("\n") if ":  " in line] for done in (theirs, ours)]
    assert [line for line in messages[0] if "LINE" not in line] == [line for line in messages[1] if "LINE" not in line]
    # inside the pipeline's implicit block it is allowed
    assert ours.stderr.count("WARNING:  SET LOCAL can only be used in transaction blocks") == 2
    assert ours.stderr.count("LINE 2:  'a\\b';") == 2


def test_notices_after_each_sync_of_a_pipeline_are_printed(pair: Pair, tmp_path: Path) -> None:
    """In pgdrive alone: pgbench before 17 has no \\syncpipeline."""
    script = tmp_path / "script.sql"
    local = "SET LOCAL work_mem = '1MB';\n"
    script.write_text(f"\\startpipeline\n{local}\\syncpipeline\n{local}\\endpipeline\n")
    done = pair.run(DATABASES[1], "-f", str(script), "-n", "-M", "extended", "-t", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    # a sync ends the implicit block
    assert done.stderr.count("WARNING:  SET LOCAL can only be used in transaction blocks") == 4


def test_the_vacuums_warnings_are_printed(pair: Pair, tmp_path: Path) -> None:
    role = sql.Identifier("pgdyno_onlooker")
    with pair.server.connect() as connection:
        connection.autocommit = True
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {0}; CREATE ROLE {0} IN ROLE pg_read_all_data").format(role))
    theirs, ours = pair.both("-S", "-v", "-t", "1", "options=-crole=pgdyno_onlooker", folder=tmp_path)
    with pair.server.connect() as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(role))
    assert normalised(ours.stderr) == normalised(theirs.stderr)
    assert 'WARNING:  permission denied to vacuum "pgbench_branches", skipping it' in ours.stderr
    assert ours.returncode == theirs.returncode == 0


PIPELINES = {
    "twice": "\\startpipeline\n\\startpipeline\n",
    "left open": "\\startpipeline\nSELECT 1;\n",
    "sync outside": "\\syncpipeline\n",
    "a bad statement": "\\startpipeline\nSELECT 1;\nSELECT * FROM nowhere;\nSELECT 2;\n\\endpipeline\n",
    "gset inside": "\\startpipeline\nSELECT 1 AS a \\gset\n\\endpipeline\n",
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_fail_in_the_same_words(pair: Pair, tmp_path: Path, name: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text(PIPELINES[name])
    theirs, ours = pair.both("-f", str(script), "-n", "-M", "extended", "-t", "1", folder=tmp_path)
    if name == "sync outside" and "invalid command" in theirs.stderr:
        # pgbench before 17 does not know the command: ours is newer
        assert "not in pipeline mode" in ours.stderr
        return
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
    assert ours.returncode == theirs.returncode == 2


def test_parsers_find_the_version(pair: Pair, tmp_path: Path) -> None:
    for done in pair.both("--version", folder=tmp_path):
        assert re.match(r"pgbench \(PostgreSQL\) ([0-9.]+)", done.stdout)
    banners = [done.stdout.splitlines()[0] for done in pair.both("-S", "-n", "-t", "1", folder=tmp_path)]
    assert all(re.match(r"pgbench \(\d+\.\d+.*\)$", banner) for banner in banners), banners


def test_an_abort_may_end_all(pair: Pair, tmp_path: Path) -> None:
    script = tmp_path / "aborts.sql"
    script.write_text("SELECT 1 / 0;\n")
    done = pair.run(DATABASES[1], "-f", str(script), "-n", "-c", "2", "-T", "60", "--exit-on-abort", folder=tmp_path)
    assert done.returncode == 2
    assert "pgbench: error: Run was aborted due to an error in thread 0" in done.stderr
    assert "tps" not in done.stdout


def test_a_full_disk_is_said_once(pair: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    prefix = folder / "log"
    code = (
        "import os, sys; os.symlink('/dev/full', f'{sys.argv[1]}.{os.getpid()}');"
        "os.execv(sys.argv[2], ['pgbench', *sys.argv[3:]])"
    )
    ours = pair.programs[DATABASES[1]]
    done = run_program(
        [sys.executable, "-c", code, str(prefix), ours, "-S", "-n", "-l", f"--log-prefix={prefix}", "-t", "10000"],
        env={**environment(pair.server), "PGDATABASE": DATABASES[1], "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 1
    assert re.search(rf'could not write the log to "{prefix}\.\d+": No space left on device', done.stderr)
    assert done.stderr.count("No space left on device") == 1
    assert "actually processed: 10000/10000" in done.stdout
