"""Under the name `pgbench`, pgdrive does what pgbench does: both run on one server.

Rust compares expressions and syntax errors with pgbench (crates/script/tests/against_pgbench.rs).
"""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.pgbench_words import assert_same_words, installed_pgbench
from tests.postgres.servers import execute, rows
from tests.postgres.test_pgdrive import environment
from tests.run_program import PGDRIVE, run_program

DATABASES = ("pgbench_theirs", "pgbench_ours")
TABLES = {
    "pgbench_accounts": "SELECT aid, bid, abalance FROM pgbench_accounts WHERE abalance <> 0 ORDER BY aid",
    "pgbench_tellers": "SELECT tid, bid, tbalance FROM pgbench_tellers ORDER BY tid",
    "pgbench_branches": "SELECT bid, bbalance FROM pgbench_branches ORDER BY bid",
    "pgbench_history": "SELECT tid, bid, aid, delta FROM pgbench_history ORDER BY mtime, aid",
}


class Pair:
    def __init__(self, server: Server, ours: Path) -> None:
        self.programs = {DATABASES[0]: installed_pgbench(), DATABASES[1]: str(ours)}
        self.server = server

    def both(self, *args: str, folder: Path) -> list[subprocess.CompletedProcess[str]]:
        """Runs both programs, pgbench first, each in its own folder."""
        done = []
        for database, program in self.programs.items():
            own = folder / database
            own.mkdir(exist_ok=True)
            env = {**environment(self.server), "PGDATABASE": database, "LC_ALL": "C"}
            # the name that a program knows itself by must be the same
            done.append(run_program(["pgbench", *args], executable=program, env=env, cwd=own))
        return done

    def rows(self, query: str) -> list[list[tuple[object, ...]]]:
        """Returns the rows of both databases, pgbench's first."""
        return [rows(self.server, query, database) for database in DATABASES]


@pytest.fixture(scope="module")
def pair(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pgbench")
    ours = folder / "pgbench"
    ours.symlink_to(PGDRIVE)
    pair = Pair(server, ours)
    for database in DATABASES:
        execute(server, f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    for done in pair.both("-i", "-s", "1", "-q", folder=folder):
        assert done.returncode == 0, done.stderr
    yield pair
    for database in DATABASES:
        execute(server, f"DROP DATABASE {database} WITH (FORCE)")


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


def summary(text: str) -> str:
    return re.sub(r"(?<=[ (])\d+\.\d{3}(?=[ )]|$)", "#", shape(text), flags=re.MULTILINE)


def write_script(folder: Path, text: str) -> str:
    file = folder / "script.sql"
    file.write_text(text)
    return str(file)


def words(lines: str) -> list[tuple[str, ...]]:
    """Command lines, one a line or separated by " | "."""
    return [tuple(line.split()) for line in re.split(r" \| |\n", lines.strip())]


# ---- rows and values ----


@pytest.mark.long_cases("update-extended]", "update-simple]", "only-extended]", "only-prepared]")
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", ["tpcb-like", "simple-update", "select-only"])
def test_the_same_seed_writes_the_same_rows(pair: Pair, tmp_path: Path, script: str, protocol: str) -> None:
    # pgbench empties the history; balances are equal before, too
    done = pair.both("-b", script, "-M", protocol, "-c", "1", "-t", "200", "--random-seed=42", folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    assert_same_words(shape(done[1].stdout), shape(done[0].stdout))
    assert_same_words(normalised(done[1].stderr), normalised(done[0].stderr))
    for table, query in TABLES.items():
        theirs, ours = pair.rows(query)
        assert theirs == ours, table
    assert len(ours) == (0 if script == "select-only" else 200)


DRAWS = """\
\\set a random(1, 1000000)
\\set low random_exponential(1, 1000000, 5.0)
\\set mid random_gaussian(1, 1000000, 4.0)
\\set b random_zipfian(1, 1000, 1.2)
\\set n :n + 1
\\set h hash(:a)
\\set mixed permute(:a, 1000001)
\\set share 1.0 * :a / 7
INSERT INTO draws VALUES ({number}, :client_id, :n, :a, :low, :mid, :b, :default_seed % 1000003, :h, :mixed, :share);
"""


@pytest.mark.parametrize("workers", [1, 4])
def test_every_client_draws_its_own_values(pair: Pair, tmp_path: Path, workers: int) -> None:
    columns = "script, client, n, a, low, mid, b, seed, h, mixed".replace(",", " bigint,") + " bigint, share float"
    for database in DATABASES:
        execute(pair.server, "DROP TABLE IF EXISTS draws", f"CREATE TABLE draws ({columns})", dbname=database)
    files = []
    for number in range(2):
        files.append(tmp_path / f"draws{number}.sql")
        files[-1].write_text(DRAWS.replace("{number}", str(number)))
    # with a client a worker, the choice of scripts does not hang on who is first
    args = ("-n", "-D", "n=0", "-c", "4", "-j", str(workers), "-t", "60", "--random-seed=77")
    chosen = ("-f", f"{files[0]}@2", "-f", f"{files[1]}@3") if workers == 4 else ("-f", str(files[0]))
    done = pair.both(*args, *chosen, folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    theirs, ours = pair.rows("SELECT * FROM draws ORDER BY client, n")
    assert len(theirs) == 240
    assert len({row[3] for row in theirs}) > 200
    assert theirs == ours


# ---- logs ----

LOGS = """\
-S -c 4 -j 4 -t 30 --sampling-rate=0.3 | -S -c 4 -j 2 -t 30 -R 3000 | -S -C -c 3 -j 3 -t 10
-b select-only@2 -b simple-update@3 -c 3 -j 3 -t 20
-S -c 2 -t 30 -R 2000 -L 10000 --failures-detailed --log-prefix=some_log | -S -c 2 -t 30 -R 2000 --max-tries=3
"""


def logged(folder: Path) -> list[list[str]]:
    """Lines of all logs in a folder, as words, in the order of the files' names."""
    files = sorted(folder.glob("*log.*"), key=lambda file: len(file.name))
    assert files
    return [line.split(" ") for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("args", words(LOGS), ids=" ".join)
def test_logs_have_the_same_lines(pair: Pair, tmp_path: Path, args: tuple[str, ...]) -> None:
    done = pair.both("-n", "-l", "--random-seed=11", *args, folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    theirs, ours = (logged(tmp_path / database) for database in DATABASES)
    # client, number, script and the number of columns
    keys = [sorted((int(line[0]), int(line[1]), line[3], len(line)) for line in log) for log in (theirs, ours)]
    assert keys[0] == keys[1] != []
    assert all(int(line[2]) > 0 and int(line[5]) < 10**6 for line in ours if line[2].isdigit())
    named = [
        sorted(re.sub(r"\.\d+", ".PID", file.name, count=1) for file in (tmp_path / database).iterdir())
        for database in DATABASES
    ]
    assert named[0] == named[1]


CONFLICTS = (
    "\\set odd random(0, 2)\nBEGIN;\nSELECT :odd;\n\\if :odd = 0\n"
    "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$;\n\\elif :odd = 1\n"
    "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$;\n\\endif\nEND;\n"
)
TRIES = "--max-tries=3"
# the messages of several clients come in any order
RETRIES = """\
--max-tries=3 | --max-tries=3 -R 2000 -L 60000 --failures-detailed
--verbose-errors -c 1 --failures-detailed --max-tries=3
"""


@pytest.mark.parametrize("extra", words(RETRIES), ids=" ".join)
def test_retries_are_logged_and_summed_up_alike(pair: Pair, tmp_path: Path, extra: tuple[str, ...]) -> None:
    file = write_script(tmp_path, CONFLICTS)
    # one thread: those of pgbench count the failures and retries of a command without a lock, and lose some
    args = ("-n", "-l", "-f", file, "-c", "3", "-j", "1", "-t", "30", "--random-seed=4", "-r", *extra)
    done = pair.both(*args, folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    assert_same_words(summary(done[1].stdout), summary(done[0].stdout))
    if "--verbose-errors" in extra:
        assert_same_words(normalised(done[1].stderr), normalised(done[0].stderr))
    # all but the latency and the instants; the last column has the retries
    said = [
        sorted((*line[:2], "ok" if line[2].isdigit() else line[2], line[3], len(line), line[-1]) for line in log)
        for log in (logged(tmp_path / database) for database in DATABASES)
    ]
    assert said[0] == said[1]
    assert {line[2] for line in said[0]} > {"ok"}


AGGREGATES = [(), ("-R", "400", "-L", "60000"), ("-R", "400", "--max-tries=2", "--failures-detailed")]
# the 30th transaction of every other client, one of each worker, waits until the others have left, and then for more
# than an interval: all but those end in intervals that end;
# a retry draws the same number again, and is not counted as another transaction
LINGERS = (
    "\\set drawn random(1, 1000000000)\n\\if :drawn <> :last\n\\set done :done + 1\n\\endif\n\\set last :drawn\n"
    "\\if :done = 30 and :client_id % 2 = 0\n"
    "DO $$ BEGIN WHILE (SELECT count(*) > 2 FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend') LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$;\n"
    "\\sleep 1500 ms\n\\endif\n"
)


@pytest.mark.parametrize("extra", AGGREGATES, ids=" ".join)
def test_lines_of_intervals_add_up_alike(pair: Pair, tmp_path: Path, extra: tuple[str, ...]) -> None:
    file = write_script(tmp_path, LINGERS + CONFLICTS)
    args = ("-n", "-l", "-f", file, "-D", "done=0", "-D", "last=0", "-c", "4", "-j", "2", "-t", "30", *extra)
    done = pair.both(*args, "--random-seed=6", "--aggregate-interval=1", folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    logs = [logged(tmp_path / database) for database in DATABASES]
    assert {len(line) for log in logs for line in log} == {15}
    # a second of a loaded machine may have nothing
    assert all(int(line[4]) <= int(line[5]) for log in logs for line in log if int(line[1]) > 0)
    # which columns hold anything but zeros: that is what the options ask for
    used = [[any(float(line[column]) > 0 for line in log) for column in range(15)] for log in logs]
    assert used[0] == used[1]
    counted = [[sum(int(line[column]) for line in log) for column in (1, 10, 11, 12, 13, 14)] for log in logs]
    assert counted[0] == counted[1]
    assert counted[0][0] > 20


# ---- progress and summary ----

PROGRESS = [(), *words("--progress-timestamp | -R 50 -L 1000 | --max-tries=2 | -R 50 -L 1000 --max-tries=2")]


def progress_forms(pair: Pair, folder: Path, extra: tuple[str, ...]) -> list[set[str]]:
    """The forms of both programs' progress lines: each whole number, or part of one, is a 9."""
    folder.mkdir()
    forms = []
    file = write_script(folder, "SELECT 1;\n\\sleep 5 ms\n")
    for one in pair.both("-f", file, "-n", "-c", "2", "-j", "2", "-T", "2", "-P", "1", *extra, folder=folder):
        assert one.returncode == 0, one
        lines = [line for line in one.stderr.splitlines() if line.startswith("progress: ")]
        assert 1 <= len(lines) <= 2
        # the number of decimal digits is kept
        forms.append({re.sub(r"\d", "9", re.sub(r"(?<![.\d])\d+", "9", line)) for line in lines})
    return forms


def test_progress_lines_have_the_same_words(pair: Pair, tmp_path: Path) -> None:
    # each takes its seconds: all at once
    with ThreadPoolExecutor(len(PROGRESS)) as pool:
        found = pool.map(lambda case: progress_forms(pair, tmp_path / str(case[0]), case[1]), enumerate(PROGRESS))
    for extra, (theirs, ours) in zip(PROGRESS, found, strict=True):
        assert len(theirs) == len(ours) == 1, extra
        assert_same_words(ours.pop(), theirs.pop())


# those of pgbench with several threads count the transactions of a script without a lock
SUMMARIES = """\
-S -t 20 -r -M prepared | -S -t 20 -R 2000 -L 60000 -r | -S -t 20 -L 60000 | -S -t 10 -C -R 1000 -M extended
-N -t 10 -c 4 -j 3 --failures-detailed | -N -t 10 --max-tries=4 -r --failures-detailed
-N -t 10 --max-tries=0 -L 60000 -R 1000 | -b tpcb-like@1 -b select-only@4 -t 30 -r -M extended
-b tpcb-like -b select-only@0 -t 10 | -b se@1 -b simple@1 -t 30 -R 2000 -L 60000 --max-tries=2 --failures-detailed
-b se@1 -b simple@1 -t 30 -C -r -c 2 -j 1 | -S -t 10 -s 7 -D x=1 --progress-timestamp -P 9 -c 2 -j 8
"""


@pytest.mark.parametrize("args", words(SUMMARIES), ids=" ".join)
def test_summaries_have_the_same_words(pair: Pair, tmp_path: Path, args: tuple[str, ...]) -> None:
    theirs, ours = pair.both("-n", "--random-seed=8", *args, folder=tmp_path)
    assert theirs.returncode == ours.returncode == 0, ours.stderr
    assert_same_words(summary(ours.stdout), summary(theirs.stdout))
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))


# ---- messages ----

COMMAND_LINES = """\
-c 0 | -c x | -c -1 | -j 0 | -t 0 | -T 0 | -T 2.5 | -t 1 -T 1 | -P 0 | -s 0 | -R 0 | -R x | -L 0 | -M odd
-D x | -D =1 | -D a!=1 | -F 50 | -i -S | -i -F 5 | -i -I dx | -b nosuch | -b s | -b select-only@x | -b select-only@-1
-b select-only@0 | -f /nowhere/x.sql | --nosuch | -c | a b | --max-tries=-1 | --max-tries=0 | --sampling-rate=0.1
-l --sampling-rate=2 | -l --sampling-rate=1 --aggregate-interval=1 | --aggregate-interval=1
-l --aggregate-interval=0 | -l --aggregate-interval=6 -T 5 | -l --aggregate-interval=2 -T 5 | --log-prefix=x
-l --log-prefix=/nowhere/x -n -t 1 | --progress-timestamp | --random-seed=x | --show-script=nosuch
--show-script=select-only | -b list | -c 2000000000 | -d nosuchdatabase -S
-i -F 101 | -i -F half | -i -s 2x | -i --partitions=-1 | -i --partition-method=hash | -i -c 2 | -i -T 5
-i --partition-method=list --partitions=2 | -q | -Id | --foreign-keys | --partitions=2 | --tablespace=x
--unlogged-tables | -i -d nosuchdatabase
"""


@pytest.mark.parametrize("args", words(COMMAND_LINES), ids=" ".join)
def test_refusals_have_the_same_words(pair: Pair, tmp_path: Path, args: tuple[str, ...]) -> None:
    theirs, ours = pair.both(*args, folder=tmp_path)
    assert ours.returncode == theirs.returncode
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))


SCRIPTS = {
    "no such table": "SELECT 1;\nSELECT * FROM nowhere;\n",
    "in two lines": "SELECT 1,\n  2 FROM\n  nowhere;\n",
    "a hint": "SELECT relnam FROM pg_class;\n",
    "a detail": "INSERT INTO pgbench_branches VALUES (1, 0);\n",
    "the second of two": "SELECT 1 \\; SELECT 1 / 0 \\; SELECT 2;\n",
    "the server ends it": "SELECT pg_terminate_backend(pg_backend_pid());\n",
    "with a context": "DO $$ BEGIN RAISE 'no'; END $$;\n",
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
    "bad expression": "\\set x 1 +\n",
    "simple pipeline": "\\startpipeline\nSELECT 1;\n\\endpipeline\n",
    "no pipeline": "\\endpipeline\n",
    "pipeline twice": "\\startpipeline\n\\startpipeline\n",
    "pipeline left open": "\\startpipeline\nSELECT 1;\n",
    "pipeline of a bad statement": "\\startpipeline\nSELECT 1;\nSELECT * FROM nowhere;\nSELECT 2;\n\\endpipeline\n",
    "pipeline with gset": "\\startpipeline\nSELECT 1 AS a \\gset\n\\endpipeline\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_fail_in_the_same_words(pair: Pair, tmp_path: Path, name: str) -> None:
    protocol = "extended" if name.startswith("pipeline") else "simple"
    file = write_script(tmp_path, SCRIPTS[name])
    theirs, ours = pair.both("-f", file, "-n", "-M", protocol, "-c", "1", "-t", "1", folder=tmp_path)
    assert ours.returncode == theirs.returncode
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
    assert_same_words(shape(ours.stdout), shape(theirs.stdout))


def test_a_statement_that_cannot_be_prepared_is_reported_twice(pair: Pair, tmp_path: Path) -> None:
    file = write_script(tmp_path, SCRIPTS["in two lines"])
    theirs, ours = pair.both("-f", file, "-n", "-M", "prepared", "-t", "2", folder=tmp_path)
    # pgbench before 16 names statements by script and number, and prepares all of a script at once
    errors = [re.sub(r'"P\d*_\d+"', '"P"', normalised(done.stderr)) for done in (theirs, ours)]
    assert_same_words(errors[1], errors[0])
    assert 'prepared statement "P" does not exist' in errors[1]
    assert ours.returncode == theirs.returncode == 2


@pytest.mark.parametrize("tables", [(), ("pgbench_branches",)])
def test_missing_tables_are_reported_in_the_same_words(pair: Pair, tmp_path: Path, tables: tuple[str, ...]) -> None:
    for database in DATABASES:
        create = ["CREATE SCHEMA partial", *(f"CREATE TABLE partial.{table} ()" for table in tables)]
        execute(pair.server, *create, f"ALTER DATABASE {database} SET search_path = partial", dbname=database)
    try:
        theirs, ours = pair.both("-S", "-n", "-t", "1", folder=tmp_path)
    finally:
        for database in DATABASES:
            reset = f"ALTER DATABASE {database} RESET search_path"
            execute(pair.server, reset, "DROP SCHEMA partial CASCADE", dbname=database)
    assert ours.returncode == theirs.returncode == 1
    # before 17, without quotation marks
    expected = normalised(theirs.stderr).replace(" in search_path", ' in "search_path"')
    assert_same_words(normalised(ours.stderr), expected)


NOTICES = {
    "notice": "DO $$ BEGIN RAISE NOTICE 'hello' USING DETAIL = 'more', HINT = 'do'; END $$;\n",
    "warning": "SET LOCAL work_mem = '1MB';\n",
    "with a place": "SELECT 1;\nSELECT\n 'a\\b';\n",
    "several": "BEGIN;\nBEGIN;\nEND;\nEND;\nDROP TABLE IF EXISTS nowhere;\n",
    "before an error": "DO $$ BEGIN RAISE INFO 'so far'; RAISE 'no further'; END $$;\n",
}
QUOTES = "options=-cstandard_conforming_strings=off"


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
@pytest.mark.parametrize("name", NOTICES)
def test_notices_are_printed_as_libpq_prints_them(pair: Pair, tmp_path: Path, name: str, protocol: str) -> None:
    file = write_script(tmp_path, NOTICES[name])
    theirs, ours = pair.both("-f", file, "-n", "-M", protocol, "-t", "2", QUOTES, folder=tmp_path)
    if name == "before an error":
        # pgbench adds that the client was aborted, in words of its version
        assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
    else:
        assert normalised(ours.stderr) == normalised(theirs.stderr)
    assert ours.returncode == theirs.returncode
    assert re.search("(NOTICE|WARNING|INFO):  ", ours.stderr)


def test_notices_in_a_pipeline_are_printed(pair: Pair, tmp_path: Path) -> None:
    local = "SET LOCAL work_mem = '1MB';\n"
    file = write_script(tmp_path, f"\\startpipeline\n{local}SELECT 1;\n{local}SELECT\n 'a\\b';\n\\endpipeline\n")
    theirs, ours = pair.both("-f", file, "-n", "-M", "extended", "-t", "2", QUOTES, folder=tmp_path)
    # a notice comes before libpq has done with the statement before it: it points into that one
    messages = [[line for line in done.stderr.split("\n") if ":  " in line] for done in (theirs, ours)]
    assert [line for line in messages[0] if "LINE" not in line] == [line for line in messages[1] if "LINE" not in line]
    # inside the pipeline's implicit block it is allowed
    assert ours.stderr.count("WARNING:  SET LOCAL can only be used in transaction blocks") == 2
    assert ours.stderr.count("LINE 2:  'a\\b';") == 2


def test_the_vacuums_warnings_are_printed(pair: Pair, tmp_path: Path) -> None:
    role = "pgdyno_onlooker"
    execute(pair.server, f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} IN ROLE pg_read_all_data")
    theirs, ours = pair.both("-S", "-v", "-t", "1", f"options=-crole={role}", folder=tmp_path)
    execute(pair.server, f"DROP ROLE {role}")
    assert normalised(ours.stderr) == normalised(theirs.stderr)
    assert 'WARNING:  permission denied to vacuum "pgbench_branches", skipping it' in ours.stderr
    assert ours.returncode == theirs.returncode == 0


def test_the_default_database_is_pgbenchs(server: Server, pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "services").write_text("[s]\ndbname=of-the-service\n")
    connection = {**environment(server), "PGSERVICEFILE": str(tmp_path / "services"), "LC_ALL": "C"}
    role = connection.pop("PGUSER")
    del connection["PGDATABASE"]
    # none of these databases and of other roles exists
    for given, args in [
        ({"PGUSER": role, "PGDATABASE": "nowhere"}, []),
        ({"PGUSER": "nobody-db"}, ["-U", role]),
        ({}, ["-U", role]),
        ({"PGUSER": role, "PGDATABASE": f"dbname=nowhere user={role}"}, []),
        ({"PGUSER": role, "PGDATABASE": f"postgresql://{role}@/nowhere"}, []),
        ({"PGDATABASE": "nowhere", "PGSERVICE": "s"}, ["-U", role]),
        ({"PGUSER": "nobody-db", "PGSERVICE": "s"}, ["-U", role]),
        ({"PGSERVICE": "s"}, ["-U", role, "service=s"]),
    ]:
        command = ["pgbench", "-n", "-t", "1", "-S", *args]
        programs = (pair.programs[database] for database in DATABASES)
        theirs, ours = (run_program(command, executable=each, env=connection | given) for each in programs)
        assert theirs.returncode == ours.returncode == 1, ours.stderr
        assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
