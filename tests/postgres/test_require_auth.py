"""Authentication and its refusals: pgdrive and libpq itself against a server with several ways to authenticate."""

from pathlib import Path

import psycopg
import pytest
from psycopg.pq import ConnStatus, PGconn

from tests.postgres.test_pgdrive_tls import PGDRIVE, run, secure
from tests.postgres.tls_server import PASSWORD, TlsServer

__all__ = ["secure"]

# the roles of the server that TLS is tested with: only_plain needs no password
USERS = ["by_scram", "by_password", "by_md5", "only_plain"]
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


def pgdrives(server: TlsServer, script: str, target: str) -> str:
    done = run(PGDRIVE, server, target, "-n", "-f", script, "-t", "1", PGPASSWORD="")
    said = done.stderr.split("pgdrive: error: ")[1].strip() if done.returncode else ""
    assert done.returncode == (1 if said else 0)
    return said


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
        assert pgdrives(secure, script, f"user={user} sslmode=disable {more}") == expected, required
        allowed |= set() if expected else {required}
    # so that libpq is not compared with itself refusing everything
    assert {"by_password": "password", "by_md5": "!none"}.get(user, "none,scram-sha-256") in allowed
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


def test_pgdrive_refuses_as_libpq_does(secure: TlsServer, script: str, tmp_path: Path) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:by_scram:{PASSWORD}\n*:*:*:by_md5:wrong\n")
    passfile.chmod(0o600)
    read_only = "options='-c default_transaction_read_only=on'"
    verdicts = {}
    for user, more in [
        ("by_scram", "password=wrong"),
        ("by_md5", ""),
        ("by_scram", f"passfile={passfile}"),
        ("by_md5", f"passfile={passfile}"),
        ("only_plain", "dbname=missing"),
        ("only_plain", f"host={secure.folder} requirepeer=nosuchuser"),
        ("only_plain", "target_session_attrs=standby"),
        ("only_plain", "target_session_attrs=primary"),
        ("only_plain", "target_session_attrs=prefer-standby"),
        ("only_plain", "target_session_attrs=read-only"),
        ("only_plain", f"target_session_attrs=read-only {read_only}"),
        ("only_plain", f"target_session_attrs=read-write {read_only}"),
    ]:
        target = conninfo(secure, user, more)
        verdicts[target] = pgdrives(secure, script, target)
        assert verdicts[target] == libpqs(target), target
    assert sum(not said for said in verdicts.values()) == 4
