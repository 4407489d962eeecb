"""Under the name `pgbench`, pgdrive connects to the database that pgbench chooses, and text keeps its encoding."""

import os
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgdyno.targets import Server
from tests.postgres.pgbench_words import assert_same_words, installed_pgbench
from tests.postgres.test_pgbench_differential import DATABASES, PGDRIVE, Pair, normalised, pair
from tests.postgres.test_pgdrive import drive, environment, loaded, value

__all__ = ["loaded", "pair"]

LATIN1 = os.fsdecode(b"caf\xe9")

# environment, options; ROLE is the role of the server's superuser, and no other name exists
DEFAULTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "PGDATABASE": ({"PGDATABASE": "nowhere"}, ()),
    "PGUSER": ({"PGUSER": "nobody-db"}, ("-U", "ROLE")),
    "the user of the system": ({}, ("-U", "ROLE")),
    "PGDATABASE as a connection string": ({"PGDATABASE": "dbname=nowhere user=ROLE"}, ()),
    "PGDATABASE as a URI": ({"PGDATABASE": "postgresql://ROLE@/nowhere"}, ()),
    "PGDATABASE before a service": ({"PGDATABASE": "nowhere", "PGSERVICE": "s"}, ("-U", "ROLE")),
    "PGUSER before a service": ({"PGUSER": "nobody-db", "PGSERVICE": "s"}, ("-U", "ROLE")),
    "a service": ({"PGSERVICE": "s"}, ("-U", "ROLE", "service=s")),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default_database_is_pgbenchs(server: Server, tmp_path: Path, name: str) -> None:
    ours = tmp_path / "pgbench"
    ours.symlink_to(PGDRIVE)
    services = tmp_path / "services"
    services.write_text("[s]\ndbname=of-the-service\n")
    with server.connect() as connection:
        role = connection.info.user
    given, args = DEFAULTS[name]
    env = {**environment(server), "PGSERVICEFILE": str(services), "LC_ALL": "C"}
    env.pop("PGDATABASE", None)
    if "PGUSER" in given or "ROLE" in args:
        env.pop("PGUSER", None)
    env |= {key: text.replace("ROLE", role) for key, text in given.items()}
    said = []
    for program in (installed_pgbench(), str(ours)):
        command = ["pgbench", "-n", "-t", "1", "-S", *(role if arg == "ROLE" else arg for arg in args)]
        done = subprocess.run(
            command, executable=program, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1, done.stderr
        said.append(normalised(done.stderr))
    assert_same_words(said[1], said[0])


@pytest.mark.parametrize("tables", [(), ("pgbench_branches",)])
def test_missing_tables_are_reported_in_the_same_words(pair: Pair, tmp_path: Path, tables: tuple[str, ...]) -> None:
    for database in DATABASES:
        name = sql.Identifier(database)
        execute(pair.server, database, sql.SQL("CREATE SCHEMA partial"))
        for table in tables:
            execute(pair.server, database, sql.SQL("CREATE TABLE partial.{} ()").format(sql.Identifier(table)))
        execute(pair.server, database, sql.SQL("ALTER DATABASE {} SET search_path = partial").format(name))
    try:
        theirs, ours = pair.both("-S", "-n", "-t", "1", folder=tmp_path)
    finally:
        for database in DATABASES:
            name = sql.Identifier(database)
            execute(pair.server, database, sql.SQL("ALTER DATABASE {} RESET search_path").format(name))
            execute(pair.server, database, sql.SQL("DROP SCHEMA partial CASCADE"))
    assert ours.returncode == theirs.returncode == 1
    # before 17, without quotation marks
    words = normalised(theirs.stderr).replace(" in search_path", ' in "search_path"')
    assert_same_words(normalised(ours.stderr), words)


def execute(server: Server, database: str, statement: sql.SQL | sql.Composed) -> None:
    env = environment(server)
    with psycopg.connect(
        host=env["PGHOST"],
        port=env["PGPORT"],
        user=env.get("PGUSER"),
        password=env.get("PGPASSWORD"),
        dbname=database,
        autocommit=True,
    ) as session:
        session.execute(statement)


@pytest.mark.parametrize("command", ["gset", "aset"])
def test_values_keep_the_clients_encoding(loaded: Server, tmp_path: Path, command: str) -> None:
    script = tmp_path / "encoding.sql"
    script.write_text(
        "DROP TABLE IF EXISTS encoded;\nCREATE TABLE encoded (a text);\n"
        f"SELECT 'x' || chr(233) AS a \\{command}\nINSERT INTO encoded VALUES (':a');\n"
    )
    done = drive(loaded, "-n", "-t", "1", "-f", str(script), PGCLIENTENCODING="latin1")
    assert done.returncode == 0, done.stderr
    assert value(loaded, "SELECT encode(convert_to(a, 'UTF8'), 'hex') FROM encoded") == "78c3a9"


def test_text_that_is_not_utf8_is_refused(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "latin1.sql"
    script.write_bytes(b"SELECT 1;\nSELECT 'caf\xe9';\n")
    refused = [
        (("-D", f"x={LATIN1}"), {}, 'command-line argument "x=caf\ufffd" is not UTF-8'),
        (("-f", str(script)), {}, f'could not read file "{script}": line 2 is not UTF-8'),
        (("-S",), {"PGUSER": LATIN1}, 'environment variable "PGUSER" is not UTF-8'),
        (("-S",), {"PGPASSWORD": LATIN1}, 'environment variable "PGPASSWORD" is not UTF-8'),
    ]
    for args, env, message in refused:
        done = drive(loaded, "-n", "-t", "1", *args, **env)
        assert done.returncode == 1, done.stderr
        assert f"pgdrive: error: {message}\n" in done.stderr
