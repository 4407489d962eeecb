"""Datasets that a plan's own SQL files make: loaded by psql's rules, stamped, kept, restored, and dropped on errors."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode, StoreError, TargetError
from pgdyno.experiment.resume import loaded_of, refuse_changed_scripts
from pgdyno.plan.model import Workload
from pgdyno.prepare import Dataset
from pgdyno.prepare.dataset import read_comment, read_stamp, stamped_dataset
from pgdyno.records import Point, Preparation
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.processes import descendants, identify
from pgdyno.targets.dsn.schema import DsnTarget
from tests.postgres.conftest import FAST
from tests.postgres.runs import fast_plan, pgdyno, pgdyno_process, postmasters, the_run
from tests.postgres.servers import embedded, execute, opened, preparer, value
from tests.present import present
from tests.processes import command_line
from tests.waiting import PATIENCE_S, wait_until

SCHEMA = """\
\\set half 500
CREATE SCHEMA shop;
CREATE TABLE shop.orders (id bigint, part int, note text) PARTITION BY HASH (id);
SELECT format('CREATE TABLE shop.orders_%s PARTITION OF shop.orders FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
              i, :parts, i)
FROM generate_series(0, :parts - 1) AS i
\\gexec
CREATE TABLE items (id int PRIMARY KEY, name text DEFAULT $$a;b$$);
CREATE FUNCTION two() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;
\\ir more/types.sql
"""
ORDERS = "INSERT INTO shop.orders SELECT i, i % 7, :'note' FROM generate_series(1, :rows) AS i;"
ITEMS = (
    "COPY items (id, name) FROM STDIN;\n1\tone\n2\ttwo;\n\\.\n\\copy items(id, name) from items.csv with (format csv)\n"
)
PARTITIONS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'shop.orders'::regclass"
VARIABLES = {"rows": "1000", "parts": "4", "note": "it's"}
FILES = ["schema.sql", ["orders.sql", "items.sql"], "index.sql"]


@pytest.fixture(scope="module")
def own(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=FAST, connect="tcp"), "own-data") as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    for name, text in {
        "more/types.sql": "CREATE TYPE state AS ENUM ('open', 'paid')", "schema.sql": SCHEMA, "orders.sql": ORDERS,
        "items.sql": ITEMS, "items.csv": '3,"three, or more"\n', "index.sql": "CREATE INDEX ON shop.orders (part)",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


def dataset(folder: Path, sql: list[Any] = FILES, **swept: str) -> Dataset:
    section = {"scripts": ["x.sql"], "dataset": {"name": "shop", "sql": sql, "variables": VARIABLES}}
    return present(
        Dataset.for_point(Workload.model_validate(section), Point(clients=1, scale=1, variables=swept), folder)
    )


def load_steps(done: Preparation) -> list[str | None]:
    return [step.detail for step in done.steps if step.name == "load"]


def test_files_run_by_psql_s_rules_and_leave_a_stamp(own: Server, folder: Path) -> None:
    prepare = preparer(own, method="none", consistency="counts")
    assert load_steps(prepare.prepare(dataset(folder))) == ["shop with rows = 1000, parts = 4, note = it's"]
    assert value(own, "SELECT count(*) FROM shop.orders WHERE note = 'it''s'") == 1000
    assert value(own, "SELECT string_agg(name, '|' ORDER BY id) FROM items") == "one|two;|three, or more"
    assert value(own, PARTITIONS) == 4
    assert value(own, "SELECT two()") == 2
    assert value(own, "SELECT reltuples FROM pg_class WHERE relname = 'items'") == 3
    stamp = present(read_stamp(read_comment(own)))
    assert {each.name: each.rows for each in stamp.tables} == {"shop.orders": 1000, "public.items": 3}
    # the stamped data are not loaded again, whoever asks
    assert load_steps(preparer(own, method="none").prepare(dataset(folder))) == ["already loaded"]
    value(own, "DELETE FROM items WHERE id = 1 RETURNING id")
    checked = present(prepare.check())
    assert checked.changes == {"shop.orders": 0, "public.items": -1}
    assert present(preparer(own, method="none").prepare(dataset(folder)))
    # another content of any file is another dataset
    before = dataset(folder)
    for name in ("items.csv", "more/types.sql", "index.sql"):
        (folder / name).write_text((folder / name).read_text() + "\n")
        assert dataset(folder) != before
        before = dataset(folder)


@pytest.mark.long_cases("reload", "snapshot")
@pytest.mark.parametrize("method", ["template", "reload", "snapshot", "vacuum"])
def test_every_reset_works_and_each_value_is_another_dataset(own: Server, folder: Path, method: str) -> None:
    preparer(own, method="reload").prepare(dataset(folder, parts="2"))
    prepare = preparer(own, method=method)
    for parts in ("2", "8", "2"):
        prepare.prepare(dataset(folder, parts=parts))
        assert value(
            own, "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = inhrelid AND relkind = 'r'"
        ) == int(parts)
        assert value(own, "SELECT count(*) FROM shop.orders") == 1000
        if method != "vacuum":
            execute(own, "DELETE FROM shop.orders WHERE id < 10")
        assert present(prepare.check()).scope == "none"
    assert stamped_dataset(own) == dataset(folder, parts="2") != dataset(folder, parts="8")


def test_an_error_names_file_and_line_and_nothing_stays(own: Server, folder: Path) -> None:
    for name, text, message in (
        ("items.csv", "x,1\n", 'items.sql:5: invalid input syntax for type integer: "x"'),
        ("index.sql", "SELECT 1;\nCREATE INDEX ON\n  absent (a);", 'index.sql:2: relation "absent" does not exist'),
        ("orders.sql", "SELECT\n 1,\n nothing;", 'orders.sql:3: column "nothing" does not exist'),
        ("more/types.sql", "BEGIN;\nSELECT 1/0;", "more/types.sql:2: division by zero"),
    ):
        right = (folder / name).read_text()
        (folder / name).write_text(text)
        with pytest.raises(TargetError) as raised:
            preparer(own, method="template").prepare(dataset(folder))
        assert message in raised.value.message
        assert raised.value.message.startswith("cannot load shop with rows = 1000")
        assert value(own, "SELECT count(*) FROM pg_class WHERE oid >= 16384") == 0
        assert stamped_dataset(own) is None
        (folder / name).write_text(right)


def test_an_error_ends_files_that_run_beside_it_and_an_open_transaction_is_one(own: Server, folder: Path) -> None:
    (folder / "slow.sql").write_text("SELECT pg_sleep(600);")
    (folder / "wrong.sql").write_text("SELECT pg_sleep(0.5); SELECT wrong;")
    with pytest.raises(TargetError, match=r'wrong\.sql:1: column "wrong"'):
        preparer(own, method="none").prepare(dataset(folder, ["schema.sql", ["slow.sql", "wrong.sql"]]))
    assert value(own, "SELECT count(*) FROM pg_class WHERE oid >= 16384") == 0
    (folder / "index.sql").write_text("BEGIN; CREATE TABLE t (a int);")
    with pytest.raises(TargetError, match="the last file leaves a transaction open"):
        preparer(own, method="none").prepare(dataset(folder))


# ---- plans ----

PLAN = fast_plan(
    'scripts = ["read.sql"]\n'
    'dataset = { name = "shop", sql = ["schema.sql", "fill.sql"], variables = { rows = 1e2, parts = 2 } }',
    "clients = 2\nvariables.parts = [2, 4]",
    "transactions = 5\n[reset]\ncheckpoint = false",
)
SHOP = """\
CREATE TABLE orders (id int) PARTITION BY HASH (id);
SELECT format('CREATE TABLE orders_%s PARTITION OF orders FOR VALUES WITH (MODULUS %s, REMAINDER %s)', i, :parts, i)
FROM generate_series(0, :parts - 1) AS i \\gexec
"""


def write_plan(folder: Path, fill: str) -> str:
    (folder / "schema.sql").write_text(SHOP)
    (folder / "fill.sql").write_text(fill)
    # a wrong number of partitions or rows would be an error
    (folder / "read.sql").write_text(
        "SELECT 1 / (count(*) = :parts)::int FROM pg_inherits WHERE inhparent = 'orders'::regclass;\n"
        "SELECT 1 / (count(*) = :rows)::int FROM orders;\n"
    )
    (folder / "shop.toml").write_text(PLAN)
    return "shop.toml"


def test_a_plan_loads_each_value_and_its_scripts_have_the_variables(warm_home: Home, tmp_path: Path) -> None:
    fill = "INSERT INTO orders SELECT i FROM generate_series(1, :rows) AS i;\n"
    pgdyno(warm_home, tmp_path, "run", write_plan(tmp_path, fill), code=ExitCode.OK)
    folder = the_run(tmp_path)
    assert [(trial.point.variables["parts"], trial.outcome.value) for trial in folder.trials()] == [
        ("2", "finished"), ("4", "finished"),
    ]  # fmt: skip
    taken = present(folder.manifest.fingerprint)
    assert {"schema.sql", "fill.sql"} <= taken.workload["files"].keys()
    (printed,) = taken.servers.values()
    assert [mark.rpartition(" (")[0] for mark in printed.dataset_marks] == [
        f"shop with rows = 100, parts = {parts}" for parts in (2, 4)
    ]
    (tmp_path / "fill.sql").write_text("SELECT :rows;")
    with pytest.raises(StoreError, match=r"the dataset's file fill\.sql has changed since the run began"):
        refuse_changed_scripts(folder, loaded_of(folder))


def test_over_the_network_only_a_database_of_its_own_is_replaced(
    own: Server, home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOPPER", "of the test")

    def spec(database: str) -> DsnTarget:
        values = {"kind": "dsn", "dsn": f"host={own.host} port={own.port} user=shopper", "database": database}
        return DsnTarget.model_validate({**values, "password_env": "SHOPPER", "allow_existing": True})

    execute(own, "CREATE ROLE shopper LOGIN CREATEDB PASSWORD 'of the test'", "CREATE DATABASE theirs OWNER shopper")
    execute(own, "CREATE TABLE precious AS SELECT 1 AS n", dbname="theirs")
    with (
        opened(home, spec("theirs"), "far") as server,
        pytest.raises(TargetError, match="into the database theirs, which pgdyno did not create"),
    ):
        preparer(server, method="none", checkpoint=False).prepare(dataset(folder))
    assert value(own, "SELECT n FROM precious", "theirs") == 1
    for _ in range(2):
        with opened(home, spec("ours"), "far") as server:
            # the ownership comment stays in front of the stamp
            preparer(server, method="reload", checkpoint=False).prepare(dataset(folder))
            assert value(server, "SELECT count(*) FROM shop.orders") == 1000


def is_selecting(home: Home) -> bool:
    """Whether a backend of a server of `home` runs a query, by its title."""
    backends = [each for leader in filter(None, map(identify, postmasters(home))) for each in descendants(leader)]
    return any(b" SELECT" in command_line(each.pid) for each in backends)


def test_a_load_can_be_stopped(warm_home: Home, tmp_path: Path) -> None:
    plan = write_plan(tmp_path, "\\set unused :rows\nSELECT pg_sleep(600);")
    with pgdyno_process(warm_home, tmp_path, "run", plan, "--no-preflight") as process:
        wait_until(lambda: is_selecting(warm_home) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    printed = (tmp_path / "said").read_text()
    assert process.returncode == 130, printed
    assert "Traceback" not in printed


ODD = r"""
\set half 500 -- a comment is a value
\set name 'it''s' ' "odd"'
CREATE TABLE "a;b" (n int, t text); -- one; two
INSERT INTO "a;b" VALUES (1, ';'), (2, E'\';'), (3, $$;$$), (4, $T$ $$ ; $t$ $T$), (5, :'name'); SELECT 1; INSERT
INTO "a;b" /* ; /* ; */ ; */ VALUES (:rows::int, ':rows'), (7, date'2026-01-01'::text || e'\\;'), (8, 'two
lines;');
CREATE FUNCTION f(a int[]) RETURNS SETOF text LANGUAGE sql BEGIN ATOMIC
  SELECT CASE WHEN a[1:2] = a THEN 'short;' ELSE 'long;' END; SELECT 'end;'; END;
INSERT INTO "a;b" SELECT 9, f(ARRAY[1, 2]);
DO $do$ BEGIN FOR i IN 10..12 LOOP INSERT INTO "a;b" VALUES (i, 'do;'); END LOOP; END; $do$;
CREATE RULE r AS ON UPDATE TO "a;b" DO ALSO (SELECT 1; SELECT 2);
COPY "a;b" FROM STDIN; INSERT INTO "a;b" VALUES (20, 'after');
21	'
22	:rows;
\.
SELECT format('INSERT INTO "a;b" VALUES (%s, %L)', i, ';'), NULL FROM generate_series(30, 32) i \gexec
BEGIN \; INSERT INTO "a;b" VALUES (40, 'one message') \; COMMIT;
\ir more/types.sql
\copy "a;b" from 'items.csv' with (format csv)
INSERT INTO "a;b" VALUES (50, :'rows')"""


def test_psql_makes_the_same_data(own: Server, folder: Path) -> None:
    (folder / "odd.sql").write_text(ODD)
    preparer(own, method="none").prepare(dataset(folder, ["odd.sql"]))
    (*_, program) = sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))
    execute(own, "CREATE DATABASE by_psql")
    environment = own.environment() | {"PGDATABASE": "by_psql", "PATH": "/usr/bin:/bin"}
    variables = [f"-v{name}={value}" for name, value in VARIABLES.items()]
    done = subprocess.run(
        [program, "-X", "-q", "-vON_ERROR_STOP=1", *variables, "-f", "odd.sql"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    every = "SELECT string_agg(n || '=' || t, E'\\n' ORDER BY n, t) FROM \"a;b\""
    by_psql = value(own, every, "by_psql")
    assert by_psql == value(own, every)
    assert by_psql.count("\n") > 20
