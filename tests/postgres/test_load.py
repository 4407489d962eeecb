"""`pgdrive -i`, interrupted in every way and resumed: the result equals that of an uninterrupted load.

A trigger stops every chunk after the first few at an advisory lock, so that the point of interruption does not depend
on the speed of the machine.
"""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.targets import Server
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.servers import execute
from tests.postgres.test_pgdrive import environment
from tests.present import present
from tests.run_program import PGDRIVE
from tests.waiting import PATIENCE_S, wait_until

STEPS = "gvp"
CHUNKED = ("-s", "2", "--load-workers=3", "--load-chunk=5000", "-I", STEPS)
"""A load of 42 chunks: one of branches, one of tellers, 40 of accounts."""


# ---- a database to load into ----


Rows = list[tuple[Any, ...]]


@dataclass
class Place:
    environment: dict[str, str]

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[tuple[Any, ...]]:
        words = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
        given = {word: self.environment[name] for word, name in words.items() if name in self.environment}
        return psycopg.connect(**given, autocommit=autocommit, client_encoding="utf8")  # type: ignore[arg-type]

    def query(self, statement: str) -> Rows:
        with self.connect() as connection:
            return connection.execute(statement.encode()).fetchall()

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def start(self, *args: str, program: Path = PGDRIVE) -> subprocess.Popen[str]:
        return subprocess.Popen([str(program), "-i", *args], env=self.environment, stderr=subprocess.PIPE, text=True)

    def load(self, *args: str, program: Path = PGDRIVE, exit_code: int = 0) -> str:
        return end(self.start(*args, program=program), exit_code)

    def refuse(self, *args: str) -> str:
        return self.load(*args, exit_code=1)

    def rows(self) -> list[Rows]:
        """Returns the content of the tables, regardless of the order of rows, and their indexes."""
        count = "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM pgbench_{} t"
        found = [self.query(count.format(table)) for table in ("branches", "tellers", "accounts", "history")]
        return [*found, self.query("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")]

    def comment(self) -> str:
        of_database = "FROM pg_database WHERE datname = current_database()"
        return self.query(f"SELECT shobj_description(oid, 'pg_database') {of_database}")[0][0] or ""

    def mark(self) -> dict[str, Any]:
        inside = self.comment().split("[pgdyno-dataset ", 1)[1]
        return dict(json.JSONDecoder().raw_decode(inside)[0])


def end(process: subprocess.Popen[str], exit_code: int = 0) -> str:
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == exit_code, said
    return said


@contextmanager
def place_of(server: Server, name: str, options: str = "") -> Iterator[Place]:
    execute(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name} {options}")
    yield Place({**environment(server), "PGDATABASE": name})
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    with place_of(server, "pgdyno_load") as place:
        yield place


@pytest.fixture(scope="module")
def unbroken(server: Server) -> list[Rows]:
    """Returns the result of an uninterrupted load with these options."""
    with place_of(server, "pgdyno_load_unbroken") as place:
        place.load("-s", "2", "-I", "dtgvp")
        return place.rows()


# ---- a load that is held at a place ----

HOLD = """
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM pgdyno_load.done) > TG_ARGV[0]::int THEN
            PERFORM pg_advisory_xact_lock_shared(7);
        END IF;
        RETURN NULL;
    END $$"""
"""The chunk's own line is there, too: with argument n, n chunks are committed before others are held."""

OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""
HELD_CHUNKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@dataclass
class Held:
    """A load whose chunks wait for a lock of the test."""

    process: subprocess.Popen[str]
    blocker: psycopg.Connection[tuple[Any, ...]]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        def is_so() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return condition()

        wait_until(is_so)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def hold(place: Place, chunks: int, *args: str, tables: tuple[str, ...] = ()) -> Held:
    """Runs a load until so many chunks are committed and others wait."""
    place.load("-s", "2", "-I", "dt", *tables)
    trigger = "CREATE TRIGGER hold BEFORE INSERT ON pgbench_accounts FOR EACH STATEMENT EXECUTE FUNCTION hold({})"
    place.execute(HOLD, trigger.format(chunks))
    return start_held(place, *CHUNKED, *tables, *args)


def start_held(place: Place, *args: str) -> Held:
    blocker = place.connect()
    blocker.execute("SELECT pg_advisory_lock(7)")
    held = Held(place.start(*args), blocker)
    held.wait_until(lambda: place.query(HELD_CHUNKS) >= [(1,)])
    return held


def assert_same(place: Place, unbroken: list[Rows]) -> None:
    place.execute("DROP TRIGGER hold ON pgbench_accounts", "DROP FUNCTION hold")
    assert place.rows() == unbroken


def committed(place: Place) -> int:
    return int(place.query("SELECT count(*) FROM pgdyno_load.done")[0][0])


def resume(place: Place, *args: str) -> str:
    said = place.load(*CHUNKED, *args, "--resume")
    assert place.query("SELECT FROM pg_namespace WHERE nspname = 'pgdyno_load'") == []
    return said


# ---- interrupted ----


@pytest.mark.long_cases("[2]", "[3]", "[35]")
@pytest.mark.parametrize("chunks", [2, 3, 17, 35])
def test_a_killed_load_goes_on(place: Place, unbroken: list[Rows], chunks: int) -> None:
    held = hold(place, chunks)
    held.kill()
    # the server's sessions have not noticed the end of their client: the next load has to wait for them
    there = committed(place)
    assert there >= chunks
    assert place.comment() == ""
    process = place.start(*CHUNKED, "--resume")
    held.blocker.close()
    said = end(process)
    found = present(re.search(r"resuming: (\d+) of 42 chunks are loaded", said))
    # a session of the killed one may commit what it has after the count
    assert there <= int(found[1]) < 42
    assert_same(place, unbroken)
    assert place.mark()["tables"][2]["rows"] == 200_000


def test_a_load_killed_twice_resumes_with_other_workers(place: Place, unbroken: list[Rows]) -> None:
    held = hold(place, 5)
    for workers in (1, 8):
        held.kill()
        # sessions of the killed one hold their chunks; those of the next take others, or wait for them
        place.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        held.process = place.start("-s", "2", "-I", STEPS, f"--load-workers={workers}", "--resume")
        held.wait_until(lambda: place.query(HELD_CHUNKS) >= [(1,)])
    held.blocker.close()
    end(held.process)
    assert_same(place, unbroken)


def test_a_load_killed_while_keys_are_made_goes_on_there(place: Place, unbroken: list[Rows]) -> None:
    held = hold(place, 30)
    with place.connect(autocommit=False) as reader:
        # rows can be copied meanwhile, and a key cannot be created
        reader.execute("LOCK TABLE pgbench_accounts IN ROW EXCLUSIVE MODE")
        held.blocker.close()
        waiting = """
            SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
            AND relation = 'pgbench_accounts'::regclass"""
        held.wait_until(lambda: place.query(waiting) == [(1,)])
        held.kill()
        place.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL")
    assert place.query("SELECT sum(rows) FROM pgdyno_load.done") == [(200_022,)]
    assert "42 of 42 chunks are loaded" in resume(place)
    assert_same(place, unbroken)


def test_a_signal_cancels_all_chunks_that_run(place: Place, unbroken: list[Rows]) -> None:
    held = hold(place, 9)
    held.process.send_signal(signal.SIGTERM)
    assert end(held.process, 128 + signal.SIGTERM).splitlines()[-3:] == [
        "Cancel request sent",
        "interrupted; the tables are not complete",
        "pgdrive: hint: Run the same command with --resume to continue after what was committed.",
    ]
    busy = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query ~ '^copy' AND state <> 'idle'"""
    assert place.query(busy) == [(0,)]
    held.blocker.close()
    resume(place)
    assert_same(place, unbroken)


def test_wholes_that_are_there_are_kept(place: Place) -> None:
    tables = ("--partitions=4", "--load-chunk=0")
    place.load("-s", "2", "-I", "dt" + STEPS, *tables)
    whole = place.rows()
    # one partition fails, the others stay
    place.load("-s", "2", "-I", "dt", *tables)
    place.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'no room' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER fail BEFORE INSERT ON pgbench_accounts_4 FOR EACH STATEMENT EXECUTE FUNCTION fail()",
    )
    said = place.refuse("-s", "2", "-I", STEPS, "--load-workers=1", *tables)
    assert "ERROR:  no room" in said
    assert said.splitlines()[-1].startswith(RESUME_HINT)
    place.execute("DROP TRIGGER fail ON pgbench_accounts_4", "DROP FUNCTION fail")
    said = place.load("-s", "2", "-I", STEPS, *tables, "--resume")
    assert "resuming: 4 of 6 chunks are loaded" in said
    assert place.rows() == whole


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        # one index is large, the others are not worth a process
        (("--load-workers=2",), ["2", "2", "2"]),
        (("--load-workers=1", "--partitions=2"), ["2"] * 5),
        # four at once, then the whole table's, which takes those of its partitions over
        (("--load-workers=2", "--partitions=2"), ["0", "0", "0", "0", "2"]),
    ],
)
def test_indexes_share_the_servers_processes(place: Place, options: tuple[str, ...], workers: list[str]) -> None:
    place.execute(
        "CREATE TABLE noted (workers text)",
        """CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO noted VALUES (current_setting('max_parallel_maintenance_workers'));
           END $$""",
        "CREATE EVENT TRIGGER note ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION note()",
    )
    place.load("-s", "1", "-I", "dtgp", *options)
    assert [row[0] for row in place.query("SELECT workers FROM noted ORDER BY workers")] == workers


# ---- what cannot go on ----


def test_only_the_same_load_goes_on(place: Place) -> None:
    """Rust's tests (load_ledger.rs) show what else differs."""
    nothing = "pgdrive: error: could not resume the load: no load was broken off in this database"
    assert place.refuse("--resume").splitlines()[0] == nothing
    held = hold(place, 4)
    held.kill()
    held.blocker.close()
    for args, why in [
        (("-s", "3", "-I", STEPS), "the one in this database was begun with --scale=2, not with --scale=3"),
        (("--dataset=sbtest",), "the one in this database is one of dataset pgbench, not sbtest"),
    ]:
        said = place.refuse(*args, "--resume").splitlines()
        assert why in said[0]
        assert said[1:] == ["pgdrive: hint: Start over without --resume: the tables are dropped and created again."]
    # a new load does not care
    place.load("-s", "1")
    assert place.refuse("--resume").splitlines()[0] == nothing


def test_a_load_without_the_right_to_create_a_schema_completes(place: Place) -> None:
    place.execute("CREATE ROLE pgdyno_plain LOGIN PASSWORD 'plain'", "GRANT ALL ON SCHEMA public TO pgdyno_plain")
    try:
        theirs = Place({**place.environment, "PGUSER": "pgdyno_plain", "PGPASSWORD": "plain"})
        said = theirs.load("-s", "1", "--load-chunk=30000")
        assert "warning: this load could not be resumed" in said
        assert "warning: the database gets no dataset stamp: only its owner may comment on it" in said
        assert place.query("SELECT count(*) FROM pgbench_accounts") == [(100_000,)]
        assert place.comment() == ""
    finally:
        place.execute("DROP OWNED BY pgdyno_plain", "DROP ROLE pgdyno_plain")


# ---- the mark ----


def test_a_load_leaves_its_stamp_beside_the_users_own_words(server: Server, tmp_path: Path) -> None:
    with place_of(server, "pgdyno_latin", "TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'") as place:
        own = "Größe: it's mine \\ all"
        place.execute(f"COMMENT ON DATABASE pgdyno_latin IS $${own}$$")
        place.load("-s", "1", "-F", "90")
        assert place.comment().startswith(f"{own}\n[pgdyno-dataset {{")
        mark = place.mark()
        assert (mark["dataset"], mark["scale"], mark["steps"], mark["seed"]) == ("pgbench", 1, "dtgvp", None)
        assert mark["options"] == {"scale": "1", "fillfactor": "90", "unlogged-tables": "false"}
        tables = {table["name"]: table["rows"] for table in mark["tables"]}
        assert tables == {"pgbench_branches": 1, "pgbench_tellers": 10, "pgbench_accounts": 100_000}
        assert place.query("SELECT 'pgbench_accounts'::regclass::oid::int") == [(mark["tables"][2]["oid"],)]
        # another one replaces it
        place.load("-s", "2", "-I", "dtG")
        assert place.comment().count("[pgdyno-dataset ") == 1
        assert (place.mark()["scale"], place.mark()["steps"]) == (2, "dtG")
        # keys alone change nothing
        place.load("-s", "2", "-I", "p")
        assert place.mark()["steps"] == "dtG"
        # a load that stops before all tables are filled writes no stamp
        place.load("-s", "2", "-I", "dt")
        assert place.comment() == own
        # pgbench does not comment on databases
        link = tmp_path / "pgbench"
        link.symlink_to(PGDRIVE)
        place.load("-s", "1", program=link)
        assert place.comment() == own


def test_sessions_of_a_load_do_not_conflict_where_transactions_are_serializable(place: Place) -> None:
    place.execute(
        "ALTER DATABASE pgdyno_load SET default_transaction_isolation = serializable",
        # each session then reads what the others write, as it does sooner or later with an index
        "ALTER DATABASE pgdyno_load SET enable_indexscan = off",
        "ALTER DATABASE pgdyno_load SET enable_bitmapscan = off",
    )
    place.load("-s", "1", "--load-workers=4", "--load-chunk=2000")
    assert place.query("SELECT count(*) FROM pgbench_accounts") == [(100_000,)]


# ---- sysbench's tables ----

SBTEST_FACTS = [
    """SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
       FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
       WHERE attrelid = 'sbtest1'::regclass AND attnum > 0 ORDER BY attnum""",
    "SELECT indexdef FROM pg_indexes WHERE tablename = 'sbtest1' ORDER BY 1",
    """SELECT conname, contype, pg_get_constraintdef(oid)
       FROM pg_constraint WHERE conrelid = 'sbtest1'::regclass ORDER BY 1""",
    "SELECT pg_get_serial_sequence('sbtest1', 'id')",
    "SELECT deptype, refobjsubid FROM pg_depend WHERE objid = 'sbtest1_id_seq'::regclass AND deptype = 'a'",
]


def test_sbtest_is_sysbenchs(place: Place) -> None:
    # what `sysbench oltp_common prepare` sends with its defaults
    place.execute(
        """CREATE TABLE sbtest1(id SERIAL, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL,
               pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))""",
        "CREATE INDEX k_1 ON sbtest1(k)",
    )
    expected = [place.query(statement) for statement in SBTEST_FACTS]
    place.execute("DROP TABLE sbtest1")
    sizes = ("--dataset=sbtest", "--tables=3", "--table-size=4000")
    sums = []
    for ways in (["--load-workers=4"], ["--load-workers=2", "--load-chunk=700"], ["--random-seed=5"]):
        place.load(*sizes, *ways)
        assert [place.query(statement) for statement in SBTEST_FACTS] == expected
        rows = """
            SELECT count(*), min(id), max(id), sum(hashtextextended(t::text, 0)::numeric) FROM (
                TABLE sbtest1 UNION ALL TABLE sbtest2 UNION ALL TABLE sbtest3) t"""
        sums.append(place.query(rows)[0])
        assert place.query("SELECT nextval('sbtest3_id_seq')") == [(4001,)]
    assert sums[0][:3] == (12_000, 1, 4_000)
    # the same however it is cut, another with another seed
    assert sums[0] == sums[1] != sums[2]
    assert place.mark()["seed"] == 5
    assert 'error: initialization step "G" is not one of dataset sbtest' in place.refuse(*sizes, "-I", "dtG")


# ---- events ----


def test_events_tell_of_rows_and_steps(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "events"
    place.load("-s", "2", "--load-workers=2", f"--events={path}")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    steps = {event["step"]: event for event in events if event["event"] == "step"}
    assert list(steps) == ["drop tables", "create tables", "client-side generate", "vacuum", "primary keys"]
    generated = steps["client-side generate"]
    rows = [event for event in events if event["event"] == "load" and event.get("table", 0) is None]
    assert generated["rows"] == rows[-1]["rows"] == rows[-1]["rows_total"] == 200_022
    assert rows[-1]["bytes"] == generated["bytes"]
    of_accounts = [event for event in events if event.get("table") == "pgbench_accounts"]
    assert of_accounts[-1]["rows"] == 200_000
    assert events[-1]["event"] == "end"


# ---- servers that fail ----


@pytest.fixture
def own_server(installed: Installation) -> Iterator[OwnServer]:
    # small, so that rows are written out while they come
    with running_server(installed, "shared_buffers = '2MB'\n") as server:
        yield server


RESUME_HINT = "pgdrive: hint: Run the same command with --resume"


@pytest.mark.long_cases("unlogged")
@pytest.mark.parametrize("tables", [(), ("--unlogged-tables",)], ids=["logged", "unlogged"])
def test_a_load_goes_on_after_a_crash(own_server: OwnServer, unbroken: list[Rows], tables: tuple[str, ...]) -> None:
    place = Place(own_server.environment())
    held = hold(place, 20, tables=tables)
    own_server.stop("immediate")
    held.blocker.close()
    assert end(held.process, 1).splitlines()[-1].startswith(RESUME_HINT)
    own_server.start()
    said = resume(place, *tables)
    there = int(said.split("resuming: ")[1].split(" of ")[0])
    # commits are not waited for, so that the last of them may be lost, with their rows
    assert there <= 22
    assert there == 0 or not tables
    assert_same(place, unbroken)


def test_keys_of_unlogged_tables_survive_a_crash_that_their_rows_do_not(own_server: OwnServer) -> None:
    place = Place(own_server.environment())
    options = ("-s", "2", "--unlogged-tables", "--load-workers=1", "-I", "dtgpf")
    place.execute(
        """CREATE FUNCTION hold() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
               IF (SELECT count(*) FROM pgdyno_load.done WHERE step = 3) = 2 THEN
                   PERFORM pg_advisory_xact_lock_shared(7);
               END IF;
           END $$""",
        "CREATE EVENT TRIGGER hold ON ddl_command_start WHEN tag IN ('ALTER TABLE') EXECUTE FUNCTION hold()",
    )
    held = start_held(place, *options)
    own_server.stop("immediate")
    held.blocker.close()
    held.process.communicate(timeout=PATIENCE_S)
    own_server.start()
    place.execute("DROP EVENT TRIGGER hold")
    place.load(*options, "--resume")
    assert place.query("SELECT count(*) FROM pgbench_accounts") == [(200_000,)]
    keys = """
        SELECT contype, count(*) FROM pg_constraint
        WHERE contype IN ('p', 'f') AND connamespace = 'public'::regnamespace GROUP BY 1 ORDER BY 1"""
    assert place.query(keys) == [("f", 5), ("p", 3)]


def test_a_load_goes_on_after_the_disk_was_full(own_server: OwnServer, unbroken: list[Rows]) -> None:
    place = Place(own_server.environment())
    own_server.stop("fast")
    # the second scale unit does not fit into a file of this size; WAL's files do
    own_server.start(within=["prlimit", f"--fsize={20 * 1024 * 1024}:"])
    said = place.refuse("-s", "2", "--load-workers=3", "--load-chunk=5000")
    assert "could not extend file" in said
    assert said.splitlines()[-1].startswith(RESUME_HINT)
    # what other connections had sent may be committed after the program has ended
    wait_until(lambda: place.query(OTHERS) == [(0,)])
    there = committed(place)
    assert 0 < there < 42
    own_server.stop("fast")
    own_server.start()
    said = place.load("-s", "2", "--load-workers=3", "--load-chunk=5000", "--resume")
    assert f"resuming: {there} of 42 chunks are loaded" in said
    assert place.rows() == unbroken
