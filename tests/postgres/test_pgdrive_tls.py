"""TLS and authentication as in libpq: pgdrive compared with pgbench and libpq, and the content of encrypted sessions.

The last tests have a new connection for each transaction: time to connect by part, and refusals that end no client.

Rust's tests (crates/connect/src/tls, crates/wire) show what is accepted and refused in detail.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import ConnStatus, PGconn

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer
from tests.postgres.pgbench_words import has_known_words, installed_pgbench, version_of
from tests.postgres.runs import pgdyno, the_run
from tests.postgres.test_own_poolers import own_plan
from tests.postgres.tls_server import PASSWORD, TlsServer, make_certificates, running_tls_server
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import wait_until

POLLERS = ["epoll", "io_uring"]
by_poller = pytest.mark.parametrize("io", POLLERS)
DONE = "number of transactions actually processed: 6/6"
ENCRYPTED = "user=only_tls sslmode=require"


@pytest.fixture(scope="module")
def secure(installed: Installation) -> Iterator[TlsServer]:
    with running_tls_server(installed) as server:
        yield server


@pytest.fixture(scope="module")
def loaded(secure: TlsServer) -> TlsServer:
    secure.use("server")
    drive(secure, ENCRYPTED, "-i", "-s", "2", code=0)
    assert secure.value("SELECT count(*) FROM pgbench_accounts") == 200_000
    return secure


def run(
    program: str | Path, server: TlsServer, target: str, *args: str, code: int | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "SSL_"))}
    home = server.folder / "home"
    home.mkdir(exist_ok=True)
    at = "" if "host=" in target else "host=127.0.0.1 "
    return run_program(
        [program, *args, f"{at}port={server.port} dbname=postgres {target}"],
        env={**clean, "LC_ALL": "C", "HOME": str(home), "PGPASSWORD": PASSWORD, **env},
        code=code,
    )


def drive(
    server: TlsServer, target: str, *args: str, code: int | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    return run(PGDRIVE, server, target, *args, code=code, **env)


# ---- who connects ----


# a line is the server's certificate, the client's parameters, and the message unless it connects; {NAME}.crt is a file
LIKE_PGBENCH = """\
server user=only_tls sslmode=disable => no pg_hba.conf entry for host
server user=only_tls sslmode=allow
server user=only_tls
server user=only_plain sslmode=allow
server user=only_plain sslmode=prefer
server user=only_plain sslmode=require => no pg_hba.conf entry for host
server user=only_plain sslmode=prefer sslrootcert={other}.crt
server user=only_tls sslmode=prefer sslrootcert={other}.crt => certificate verify failed
server user=nobody_at_all sslmode=prefer => role "nobody_at_all" does not exist
server user=only_tls sslmode=verify-ca sslrootcert={root}.crt
server user=only_tls sslmode=require sslrootcert={other}.crt => certificate verify failed
server user=only_tls sslmode=require sslrootcert={nowhere}.crt
server user=only_tls sslmode=verify-ca => root certificate file
server user=only_tls ROOT
server host=localhost user=only_tls ROOT
elsewhere user=only_tls sslmode=verify-ca sslrootcert={root}.crt
elsewhere host=localhost user=only_tls ROOT => does not match host name
elsewhere host=a.example hostaddr=127.0.0.1 user=only_tls ROOT
elsewhere host= hostaddr=127.0.0.1 user=only_tls ROOT => host name
expired user=only_tls sslmode=verify-ca sslrootcert={root}.crt => certificate verify failed
expired user=only_tls sslmode=require
simple host=localhost user=only_tls ROOT
alone host=localhost user=only_tls sslmode=verify-full sslrootcert={alone}.crt
alone user=only_tls sslmode=verify-ca sslrootcert={root}.crt => certificate verify failed
server user=by_cert sslmode=require OWN_KEY
server user=by_cert sslmode=require sslcert={nowhere}.crt sslkey={by_cert}.key => a valid client certificate
server user=by_cert sslmode=require sslcert={stranger}.crt sslkey={stranger}.key => unknown ca
server user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={open}.key => group or world access
server user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={stranger}.key => key values mismatch
server user=by_scram sslmode=require channel_binding=require
server user=by_scram sslmode=require channel_binding=disable
server user=by_scram sslmode=disable channel_binding=prefer
server user=by_scram sslmode=disable channel_binding=require => channel binding required, but SSL not in use
server user=by_password sslmode=require channel_binding=require => binding required but not
server user=only_tls sslmode=require ssl_max_protocol_version=TLSv1.2
server user=by_scram sslmode=require channel_binding=require ssl_max_protocol_version=TLSv1.2
server user=only_tls sslmode=require ssl_min_protocol_version=TLSv1.3
server ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2 => SSL protocol version range
"""
# what the pgbench of PostgreSQL 15 does not know yet
OURS = """\
server user=only_tls sslmode=require sslnegotiation=direct
server user=only_tls sslmode=prefer sslnegotiation=direct => weak sslmode "prefer"
server user=only_tls sslmode=verify-ca sslrootcert=system => weak sslmode "verify-ca"
server user=by_cert sslmode=require sslcertmode=require OWN_KEY
server user=only_tls sslmode=require sslcertmode=require => without a valid SSL certificate
server user=only_plain sslmode=disable sslcertmode=require => did not request an SSL certificate
server user=by_cert sslmode=require sslcertmode=disable OWN_KEY => connection requires a valid client certificate
server user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={locked}.key => it is encrypted, which
server sslmode=require ssl_max_protocol_version=TLSv1.1 => TLS is spoken from version 1.2 on
server user=only_tls sslmode=require sslsni=0
"""
LOAD = ("-n", "-S", "-c", "2", "-t", "3")


def expect(done: subprocess.CompletedProcess[str], says: str = DONE, target: str = "") -> None:
    assert says in done.stdout + done.stderr, target
    assert done.returncode == (0 if says == DONE else 1), done.stderr


@pytest.mark.parametrize("case", LIKE_PGBENCH.splitlines())
def test_connects_as_pgbench_does(loaded: TlsServer, case: str) -> None:
    theirs = installed_pgbench()
    target, says = connect_with_both_pollers(loaded, case)
    # of messages in unknown words, only that there is one
    theirs_says = says if says == DONE or has_known_words(version_of(theirs)) else ""
    done = run(theirs, loaded, target, *LOAD, code=0 if says == DONE else 1)
    assert theirs_says in done.stdout + done.stderr


@pytest.mark.parametrize("case", OURS.splitlines())
def test_connects_as_newer_libpq_does(loaded: TlsServer, case: str) -> None:
    connect_with_both_pollers(loaded, case)


def connect_with_both_pollers(server: TlsServer, case: str) -> tuple[str, str]:
    """Returns the connection string and what is to be said."""
    given, _, says = case.partition(" => ")
    given = given.replace("ROOT", "sslmode=verify-full sslrootcert={root}.crt")
    certificate, _, target = given.replace("OWN_KEY", "sslcert={by_cert}.crt sslkey={by_cert}.key").partition(" ")
    target, says = re.sub(r"\{(\w+)\}", lambda name: server.certificates[name[1]], target), says or DONE
    server.use(certificate)
    # a refusal comes before there is a poller
    for io in POLLERS if says == DONE else POLLERS[:1]:
        expect(drive(server, target, *LOAD, f"--io={io}"), says, target)
    return target, says


def test_the_systems_authorities(loaded: TlsServer) -> None:
    loaded.use("server")
    for name, says in [("root.crt", DONE), ("other.crt", "certificate verify failed")]:
        file = loaded.certificates[name]
        expect(drive(loaded, "user=only_tls sslrootcert=system", *LOAD, SSL_CERT_FILE=file), says)


def test_files_in_the_home_are_found(loaded: TlsServer) -> None:
    loaded.use("server")
    home = loaded.folder / "furnished"
    own = home / ".postgresql"
    own.mkdir(parents=True)
    for name, file in (("root.crt", "root.crt"), ("by_cert.crt", "postgresql.crt"), ("by_cert.key", "postgresql.key")):
        shutil.copyfile(loaded.certificates[name], own / file)
    (own / "postgresql.key").chmod(0o600)
    expect(drive(loaded, "host=localhost user=by_cert sslmode=verify-full", *LOAD, HOME=str(home)))
    # require verifies too, now that there is a root
    shutil.copyfile(loaded.certificates["other.crt"], own / "root.crt")
    done = drive(loaded, "user=by_cert sslmode=require", *LOAD, HOME=str(home))
    expect(done, "certificate verify failed")


# ---- encrypted sessions ----


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.sql"


@pytest.mark.long_cases("[TLSv1.2-extended", "[TLSv1.2-prepared", "[TLSv1.2-simple-io_uring]")
@by_poller
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_transactions_run_encrypted(loaded: TlsServer, io: str, protocol: str, version: str, script: Path) -> None:
    # a division by zero for a session without TLS, or of another version
    script.write_text(
        f"SELECT 1 / (ssl AND version = '{version}')::int FROM pg_stat_ssl WHERE pid = pg_backend_pid();\n"
        "\\set aid random(1, 200000)\n"
        "BEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n\\sleep 1 ms\nEND;\n"
    )
    loaded.use("server")
    target = f"{ENCRYPTED} ssl_min_protocol_version={version} ssl_max_protocol_version={version}"
    for sessions in (["-R", "400"], ["-C"]):
        args = ["-n", "-f", str(script), "-M", protocol, f"--io={io}", "-c", "4", "-j", "2", "-t", "10"]
        done = drive(loaded, target, *args, *sessions, code=0)
        assert "number of transactions actually processed: 40/40" in done.stdout


@by_poller
def test_megabytes_go_both_ways(loaded: TlsServer, io: str, script: Path) -> None:
    script.write_text(
        # with its quotes, for a variable stands in a statement as it is
        "SELECT quote_literal(string_agg(md5(i::text), '')) AS large FROM generate_series(1, 40000) AS i \\gset\n"
        # a division by zero when a byte was lost or changed
        "SELECT 1 / (md5(:large) = md5(string_agg(md5(i::text), '')))::int FROM generate_series(1, 40000) AS i;\n"
        "SELECT repeat('x', 3000000);\n"
        "COPY pgbench_tellers TO STDOUT;\n"
        "COPY pgbench_history FROM STDIN;\n"
        "SELECT 1;\n"
    )
    loaded.use("server")
    expect(drive(loaded, ENCRYPTED, "-n", "-f", str(script), "-c", "3", "-t", "2", f"--io={io}"))


@by_poller
def test_a_session_that_is_terminated(loaded: TlsServer, io: str, script: Path) -> None:
    script.write_text("SELECT pg_terminate_backend(pg_backend_pid());\n")
    loaded.use("server")
    args = ["-n", "-f", str(script), "-c", "1", "-t", "3", f"--io={io}"]
    plain = drive(loaded, "user=only_plain sslmode=disable", *args)
    sealed = drive(loaded, ENCRYPTED, *args)
    assert "terminating connection due to administrator command" in sealed.stderr
    assert sealed.returncode == plain.returncode == 2
    assert sealed.stderr.splitlines() == plain.stderr.splitlines()


def test_sessions_end_in_order(loaded: TlsServer) -> None:
    loaded.use("server")
    log = loaded.folder / "log"
    before = len(log.read_text())
    for io in POLLERS:
        for sessions in ([], ["-C"]):
            drive(loaded, ENCRYPTED, "-S", "-c", "4", "-t", "5", f"--io={io}", *sessions, code=0)
    wait_until(lambda: loaded.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'only_tls'") == 0)
    assert log.read_text()[before:] == ""


def test_unix_sockets_have_no_tls(loaded: TlsServer, script: Path) -> None:
    script.write_text("SELECT 1 / (NOT ssl)::int FROM pg_stat_ssl WHERE pid = pg_backend_pid();\n")
    target = f"host={loaded.folder} user=postgres sslmode=verify-full"
    expect(drive(loaded, target, "-n", "-f", str(script), "-c", "2", "-t", "3"))


# ---- authentication ----

# only_plain needs no password
USERS = ["by_scram", "by_password", "by_md5", "only_plain"]
REQUIRED = [
    "none", "!none", "md5", "!md5", "password", "!password", "scram-sha-256", "gss", "oauth", "password,scram-sha-256",
    "none,scram-sha-256", "!password,!scram-sha-256", "!scram-sha-256,!oauth", "scram-sha-256,!md5", "md5,", "MD5",
]  # fmt: skip


def conninfo(server: TlsServer, user: str, more: str) -> str:
    return f"host=127.0.0.1 port={server.port} dbname=postgres user={user} sslmode=disable {more}"


def libpqs(target: str) -> str:
    connection = PGconn.connect(target.encode())
    try:
        return "" if connection.status == ConnStatus.OK else connection.error_message.decode().strip()
    finally:
        connection.finish()


def pgdrives(server: TlsServer, script: Path, target: str) -> str:
    script.write_text("SELECT 1;\n")
    done = run(PGDRIVE, server, target, "-n", "-f", str(script), "-t", "1", PGPASSWORD="")
    said = done.stderr.split("pgdrive: error: ")[1].strip() if done.returncode else ""
    assert done.returncode == (1 if said else 0)
    return said


@pytest.mark.parametrize("user", USERS)
def test_pgdrive_allows_the_same_methods_as_libpq(secure: TlsServer, script: Path, user: str) -> None:
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
    # libpq means an empty list to allow everything, and refuses every password
    assert pgdrives(secure, script, f"user={user} sslmode=disable password={PASSWORD} require_auth=''") == ""


def test_require_auth_can_come_from_the_environment(secure: TlsServer) -> None:
    refused = drive(secure, "user=by_password sslmode=disable", *LOAD, PGREQUIREAUTH="scram-sha-256")
    expect(refused, 'authentication method requirement "scram-sha-256" failed: server requested a cleartext password')


def test_pgdrive_refuses_as_libpq_does(secure: TlsServer, script: Path, tmp_path: Path) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:by_scram:{PASSWORD}\n*:*:*:by_md5:wrong\n")
    passfile.chmod(0o600)
    read_only = "options='-c default_transaction_read_only=on'"
    verdicts = {}
    for user, more in [
        ("by_scram", "password=wrong"), ("by_md5", ""), ("by_scram", f"passfile={passfile}"),
        ("by_md5", f"passfile={passfile}"), ("only_plain", "dbname=missing"),
        ("only_plain", f"host={secure.folder} requirepeer=nosuchuser"), ("only_plain", "target_session_attrs=standby"),
        ("only_plain", "target_session_attrs=primary"), ("only_plain", "target_session_attrs=prefer-standby"),
        ("only_plain", f"target_session_attrs=read-only {read_only}"),
        ("only_plain", f"target_session_attrs=read-write {read_only}"),
    ]:  # fmt: skip
        target = conninfo(secure, user, more)
        verdicts[target] = pgdrives(secure, script, target)
        assert verdicts[target] == libpqs(target), target
    assert sum(not said for said in verdicts.values()) == 4


def test_new_connections_come_in_with_kept_and_with_derived_keys_of_scram(
    secure: TlsServer, script: Path, tmp_path: Path
) -> None:
    """Rust's tests show which keys are used."""
    script.write_text("SELECT 1;\n")
    for option in [(), ("--scram-cache=off",)]:
        args = ("user=by_scram sslmode=disable", "-n", "-f", str(script), "-C", "-c", "2", "-t", "3", *option)
        expect(drive(secure, *args))
    expect(drive(secure, "user=by_scram", "--scram-cache=never"), 'invalid value of --scram-cache: "never"')
    pgbench = tmp_path / "pgbench"
    pgbench.symlink_to(PGDRIVE)
    expect(run(pgbench, secure, "user=by_scram", "--scram-cache=off"), "unrecognized option '--scram-cache'")


PARTS = ("socket", "tls", "authentication", "backend_start")


def storm(server: TlsServer, folder: Path, target: str, *args: str) -> dict[str, Any]:
    """Returns the results of transactions that hold their connection for 20 ms."""
    script, results = folder / "script.sql", folder / "results.json"
    script.write_text("SELECT pg_sleep(0.02);\n")
    options = ("-n", "-f", str(script), "-C", "--count-refusals", f"--json={results}", *args)
    done = drive(server, target, *options, code=0)
    assert PASSWORD not in results.read_text() + done.stdout + done.stderr
    end: dict[str, Any] = json.loads(results.read_text())
    return end


@pytest.mark.parametrize(("sslmode", "there"), [("require", PARTS), ("disable", ("socket", *PARTS[2:]))])
def test_the_parts_of_connecting_add_up(
    secure: TlsServer, tmp_path: Path, sslmode: str, there: tuple[str, ...]
) -> None:
    secure.use("server")
    end = storm(secure, tmp_path, f"user=by_scram sslmode={sslmode}", "-c", "3", "-t", "4")
    connect = end["connect"]
    assert connect["count"] == 12
    assert [name for name in PARTS if connect[name] is not None] == list(there)
    parts = sum(connect[name]["latency_ns"]["sum"] for name in there)
    assert parts == pytest.approx(connect["total"]["latency_ns"]["sum"], rel=1e-6)


def test_what_the_server_refuses_fails_and_ends_no_client(
    installed: Installation, tmp_path: Path, scratch: Path
) -> None:
    server, script, results = OwnServer.make(installed, scratch / "one"), tmp_path / "s.sql", tmp_path / "r.json"
    script.write_text("SELECT pg_sleep(0.02);\n")
    with (server.data / "postgresql.conf").open("a") as configuration:
        configuration.write("max_connections = 10\n")
    server.start()
    try:
        args = ("-n", "-f", script, "-C", "--count-refusals", "-c", "30", "-T", "1", f"--json={results}")
        done = run_program([PGDRIVE, *args], env=server.environment())
    finally:
        server.stop("immediate")
    assert done.returncode == 0, done.stderr
    end = json.loads(results.read_text())
    assert (end["outcome"], end["clients_aborted"]) == ("finished", 0)
    assert all(each["refused"] for each in end["errors"])
    # its socket may be full, too
    assert "53300" in {each["sqlstate"] for each in end["errors"]} <= {"53300", None}
    assert sum(each["count"] for each in end["errors"]) == end["failed"] > 0
    assert end["connect"]["count"] == end["succeeded"] > 0
    assert end["latency_ns"]["min"] >= 20_000_000, "of those that were served"


def test_a_storm_goes_through_a_pooler_with_tls_and_scram(
    installed: Installation, home: Home, scratch: Path, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path / "made")
    key, certificate = (scratch / name for name in ("server.key", "server.crt"))
    for file in (key, certificate):
        file.write_bytes(Path(made[file.name]).read_bytes())
        home.account.take(file)
    files = f'client_tls_key_file = "{key}", client_tls_cert_file = "{certificate}"'
    pooler = f'{{ kind = "pgbouncer", pool = 3, settings = {{ client_tls_sslmode = "require", {files} }} }}'
    plan = own_plan(installed, tmp_path, pooler, connect="tcp", duration="2s")
    plan.write_text(plan.read_text().replace("[sweep]\n", '[sweep]\nrate = 20\nconnect = ["once", "each"]\n'))
    pgdyno(home, tmp_path, "run", str(plan), code=ExitCode.OK)
    once, each = sorted(the_run(tmp_path).trials(), key=lambda trial: trial.point.connect or "", reverse=True)
    assert present(once.summary).connect is None
    connect = present(present(each.summary).connect)
    assert connect.count == present(each.summary).succeeded
    assert None not in (connect.socket, connect.tls, connect.authentication, connect.backend_start)
