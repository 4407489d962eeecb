"""require_auth: pgdrive and libpq itself against a server with several ways to authenticate."""

from pathlib import Path

import psycopg
import pytest
from psycopg.pq import ConnStatus, PGconn

from tests.postgres.test_pgdrive_tls import PGDRIVE, run, secure
from tests.postgres.tls_server import PASSWORD, TlsServer

__all__ = ["secure"]

# the roles of the server that TLS is tested with: only_plain needs no password
USERS = ["by_scram", "by_password", "only_plain"]
REQUIRED = [
    "none", "!none", "md5", "!md5", "password", "!password", "scram-sha-256", "!scram-sha-256", "gss", "sspi,gss",
    "oauth", "password,scram-sha-256", "none,scram-sha-256", "!password,!scram-sha-256", "!none,!password",
    "!scram-sha-256,!oauth", "scram-sha-256,!md5", "!md5,scram-sha-256", "md5,none,md5", "!none,!none", "md5,", "MD5",
    "!",
]  # fmt: skip


def conninfo(server: TlsServer, user: str, more: str) -> str:
    return f"host=127.0.0.1 port={server.port} dbname=postgres user={user} sslmode=disable {more}"


def libpqs(target: str) -> str:
    connection = PGconn.connect(target.encode())
    try:
        return "" if connection.status == ConnStatus.OK else connection.error_message.decode().strip()
    finally:
        connection.finish()


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.sql"
    path.write_text("SELECT 1;\n")
    return str(path)


@pytest.mark.parametrize("user", USERS)
def test_pgdrive_allows_the_same_methods_as_libpq(secure: TlsServer, script: str, user: str) -> None:
    assert psycopg.pq.version() >= 180000, "oauth came with libpq 18"
    allowed = set()
    for required in REQUIRED:
        more = f"password={PASSWORD} require_auth='{required}'"
        expected = libpqs(conninfo(secure, user, more))
        done = run(PGDRIVE, secure, f"user={user} sslmode=disable {more}", "-n", "-f", script, "-t", "1")
        said = done.stderr.split("pgdrive: error: ")[1].strip() if done.returncode else ""
        assert said == expected, required
        assert done.returncode == (1 if expected else 0), required
        allowed |= set() if expected else {required}
    # so that libpq is not compared with itself refusing everything
    assert ("none,scram-sha-256" if user != "by_password" else "password") in allowed
    assert not {"MD5", "md5,", "gss"} & allowed


def test_an_empty_list_allows_everything(secure: TlsServer, script: str) -> None:
    # libpq means to, and refuses every password
    for user in USERS:
        target = f"user={user} sslmode=disable require_auth=''"
        assert run(PGDRIVE, secure, target, "-n", "-f", script, "-t", "1").returncode == 0


def test_require_auth_can_come_from_the_environment(secure: TlsServer, script: str) -> None:
    args = ("user=by_password sslmode=disable", "-n", "-f", script, "-t", "1")
    refused = run(PGDRIVE, secure, *args, PGREQUIREAUTH="scram-sha-256")
    why = 'authentication method requirement "scram-sha-256" failed: server requested a cleartext password'
    assert refused.returncode == 1
    assert why in refused.stderr
    assert run(PGDRIVE, secure, *args, PGREQUIREAUTH="password").returncode == 0
