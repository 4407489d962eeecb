"""SCRAM's keys: derived once per run, or for every connection as in libpq."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.test_pgdrive_tls import PGDRIVE, run, secure
from tests.postgres.tls_server import PASSWORD, TlsServer

__all__ = ["secure"]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.sql"
    path.write_text("SELECT 1;\n")
    return str(path)


@pytest.fixture(scope="module")
def slow_user(secure: TlsServer) -> Iterator[str]:
    """A user whose keys take many times longer to derive than a connection takes otherwise."""
    with secure.connect() as connection:
        connection.execute("SET password_encryption = 'scram-sha-256'")
        connection.execute("SET scram_iterations = 400000")
        # by_scram's line of pg_hba.conf asks for SCRAM
        connection.execute(f"ALTER ROLE by_scram PASSWORD '{PASSWORD}'".encode())
    yield "by_scram"
    with secure.connect() as connection:
        connection.execute(f"ALTER ROLE by_scram PASSWORD '{PASSWORD}'".encode())


def connection_ms(done: subprocess.CompletedProcess[str]) -> float:
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split("average connection time = ")[1].split()[0])


def test_keys_are_kept_unless_it_is_pgbench(secure: TlsServer, slow_user: str, script: str, tmp_path: Path) -> None:
    pgbench = tmp_path / "pgbench"
    shutil.copy(PGDRIVE, pgbench)
    args = (f"user={slow_user} sslmode=disable", "-n", "-f", script, "-C", "-t", "3")
    kept = [connection_ms(run(PGDRIVE, secure, *args, *option)) for option in ((), ("--scram-cache=on",))]
    derived = [
        connection_ms(run(PGDRIVE, secure, *args, "--scram-cache=off")),
        connection_ms(run(pgbench, secure, *args)),
    ]
    assert min(derived) > 5 * max(kept), (derived, kept)
    refused = run(pgbench, secure, *args, "--scram-cache=off")
    assert refused.returncode == 1
    assert "unrecognized option '--scram-cache'" in refused.stderr


def test_a_word_that_is_neither_is_refused(secure: TlsServer) -> None:
    done = run(PGDRIVE, secure, "user=by_scram", "--scram-cache=never")
    assert done.returncode == 1
    assert 'invalid value of --scram-cache: "never"' in done.stderr
