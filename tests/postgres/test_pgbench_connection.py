"""Under the name `pgbench`, pgdrive connects to the database that pgbench chooses, and text keeps its encoding."""

import os
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.pgbench_words import assert_same_words, installed_pgbench
from tests.postgres.servers import value
from tests.postgres.test_pgbench_differential import normalised
from tests.postgres.test_pgdrive import PGDRIVE, drive, environment
from tests.run_program import run_program

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
    role = server.environment()["PGUSER"]
    given, args = DEFAULTS[name]
    env = {**environment(server), "PGSERVICEFILE": str(services), "LC_ALL": "C"}
    env.pop("PGDATABASE", None)
    if "PGUSER" in given or "ROLE" in args:
        env.pop("PGUSER", None)
    env |= {key: text.replace("ROLE", role) for key, text in given.items()}
    said = []
    for program in (installed_pgbench(), str(ours)):
        command = ["pgbench", "-n", "-t", "1", "-S", *(role if arg == "ROLE" else arg for arg in args)]
        done = run_program(command, executable=program, env=env)
        assert done.returncode == 1, done.stderr
        said.append(normalised(done.stderr))
    assert_same_words(said[1], said[0])


def test_values_keep_the_clients_encoding(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "encoding.sql"
    script.write_text(
        "DROP TABLE IF EXISTS encoded;\nCREATE TABLE encoded (a text);\n"
        "SELECT 'x' || chr(233) AS a \\aset\nINSERT INTO encoded VALUES (':a');\n"
    )
    done = drive(server, "-n", "-t", "1", "-f", str(script), PGCLIENTENCODING="latin1")
    assert done.returncode == 0, done.stderr
    assert value(server, "SELECT encode(convert_to(a, 'UTF8'), 'hex') FROM encoded") == "78c3a9"


def test_text_that_is_not_utf8_is_refused(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "latin1.sql"
    script.write_bytes(b"SELECT 1;\nSELECT 'caf\xe9';\n")
    for args, env, message in [
        (("-f", str(script)), {}, f'could not read file "{script}": line 2 is not UTF-8'),
        (("-S",), {"PGPASSWORD": os.fsdecode(b"caf\xe9")}, 'environment variable "PGPASSWORD" is not UTF-8'),
    ]:
        done = drive(server, "-n", "-t", "1", *args, **env)
        assert done.returncode == 1, done.stderr
        assert f"pgdrive: error: {message}\n" in done.stderr
