"""Whether a load writes, compared with what PostgreSQL lets it do and whether it needs a transaction's number."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.effect import BUILTIN_SCRIPTS, TPCC_SCRIPTS, Effect, effect_of_name
from pgdyno.effect.functions import HARMLESS_FUNCTIONS, WRITING_FUNCTIONS
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.run_program import PGDRIVE, run_program
from tests.sql_effects import READING, WRITING

WORKLOADS = Path(__file__).parents[2] / "crates/lua/src/workloads.rs"
SYSBENCH = re.findall(r'^    \(\s*"([a-z-]+)",', WORKLOADS.read_text(), re.MULTILINE)
READ_ONLY = "-c default_transaction_read_only=on"


@pytest.fixture(scope="module")
def own(installed: Installation) -> Iterator[OwnServer]:
    """A server with a database of each dataset, on which nothing else needs numbers of transactions."""
    with running_server(installed, "autovacuum = off\n", "bulk", "sbtest", "tpcc", "tpch") as server:
        server.execute("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'b'); CREATE SEQUENCE s")
        drive(server, "postgres", "-i", "-q")
        drive(server, "sbtest", "-i", "-q", "--dataset=sbtest", "--table-size=1000")
        drive(server, "bulk", "--workload=bulk-insert", "--lua-command=prepare", "-c", "1")
        yield server


def drive(server: OwnServer, database: str, *args: str, options: str = "", check: bool = True) -> str:
    environment = server.environment() | {"PGDATABASE": database, "PGOPTIONS": options}
    return run_program([PGDRIVE, *args], env=environment, check=check).stderr


def next_number(server: OwnServer) -> int:
    return int(server.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))


def assert_writes_as_the_table_says(server: OwnServer, folder: Path, name: str, database: str, *options: str) -> None:
    before = next_number(server)
    result = folder / "result.json"
    said = drive(server, database, "-n", f"--json={result}", "-c", "1", *options, check=False)
    assert json.loads(result.read_text())["succeeded"] > 0, said
    assert (next_number(server) > before) is (effect_of_name(name) is Effect.WRITES), said
    said = drive(server, database, "-n", "-c", "1", *options, options=READ_ONLY, check=False)
    assert ("read-only transaction" in said) is (effect_of_name(name) is Effect.WRITES), said


def test_loads_write_as_the_table_says(own: OwnServer, tmp_path: Path) -> None:
    for name in BUILTIN_SCRIPTS:
        assert_writes_as_the_table_says(own, tmp_path, name, "postgres", "-b", name, "-t", "5")
    for name in SYSBENCH:
        # rows of bulk-insert have two columns, and keys from 1 on
        database, size = ("bulk", []) if name == "bulk-insert" else ("sbtest", ["--table-size=1000"])
        assert_writes_as_the_table_says(own, tmp_path, name, database, f"--workload={name}", "-t", "5", *size)


@pytest.mark.long
def test_transactions_of_tpcc_and_tpch_write_as_the_table_says(own: OwnServer, tmp_path: Path) -> None:
    drive(own, "tpcc", "-i", "-q", "--dataset=tpcc", "--warehouses=1")
    phases = tmp_path / "phases.toml"
    for name in TPCC_SCRIPTS:
        phases.write_text(f'[[phase]]\nname = "one"\nduration = "300ms"\nmix = {{ "{name}" = 1 }}\n')
        for variant in ("functions", "sql"):
            options = ("--workload=tpcc", f"--tpcc-variant={variant}", f"--phases={phases}")
            assert_writes_as_the_table_says(own, tmp_path, name, "tpcc", *options)
    drive(own, "tpch", "-i", "-q", "--dataset=tpch", "--scale-factor=0.01")
    before = next_number(own)
    drive(own, "tpch", "--workload=tpch")
    assert next_number(own) > before
    assert effect_of_name("tpch") is Effect.WRITES


def test_sql_writes_as_its_text_says(own: OwnServer) -> None:
    for text in (*READING, *WRITING):
        with own.connect() as connection, connection.cursor() as cursor:
            if "BEGIN" not in text:
                cursor.execute("BEGIN")
            for statement in re.split(r"; (?=[A-Z])", text):
                if statement.startswith("COPY"):
                    with cursor.copy(statement.encode()) as copy:
                        list(copy)
                else:
                    cursor.execute(statement.encode(), prepare=False)
            needs_number = cursor.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()
            assert needs_number == (text in WRITING,), text
            cursor.execute("ROLLBACK")


VOLATILE = {
    "clock_timestamp", "pg_database_size", "pg_is_in_recovery", "pg_relation_size", "pg_sleep", "pg_table_size",
    "pg_total_relation_size", "random",
}  # fmt: skip
"""Their results change within a statement, and they write nothing."""


def test_functions_are_the_servers_own_and_write_what_the_list_says(own: OwnServer) -> None:
    of_server = "FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace GROUP BY 1"
    found = dict(own.rows(f"SELECT proname, bool_or(provolatile = 'v') {of_server}"))
    assert found.keys() >= HARMLESS_FUNCTIONS | WRITING_FUNCTIONS
    assert {name for name in HARMLESS_FUNCTIONS if found[name]} == VOLATILE
    with own.connect() as connection, connection.transaction():
        connection.execute(
            "SELECT clock_timestamp(), pg_database_size('postgres'), pg_is_in_recovery(), pg_relation_size('t'), "
            "pg_sleep(0), pg_table_size('t'), pg_total_relation_size('t'), random()"
        )
        assert connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)
