"""TLS as in libpq: pgdrive compared with the real pgbench, and the content of encrypted sessions."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pgdyno.targets.cluster.installation import Installation
from tests.postgres.pgbench_words import has_known_words, installed_pgbench, version_of
from tests.postgres.tls_server import PASSWORD, TlsServer, running_tls_server
from tests.run_program import run_program

PGDRIVE = Path(sys.executable).parent / "pgdrive"
POLLERS = ["epoll", "io_uring"]
DONE = "number of transactions actually processed: 6/6"
NO_ENTRY = "no pg_hba.conf entry for host"
UNVERIFIED = "certificate verify failed"
WRONG_NAME = "does not match host name"


@pytest.fixture(scope="module")
def secure(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with running_tls_server(installed, Path(tmp_path_factory.mktemp("tls"))) as server:
        yield server


@pytest.fixture(scope="module")
def loaded(secure: TlsServer) -> TlsServer:
    secure.use("server")
    done = drive(secure, "user=only_tls sslmode=require", "-i", "-s", "2")
    assert done.returncode == 0, done.stderr
    assert secure.value("SELECT count(*) FROM pgbench_accounts") == 200_000
    return secure


def run(
    program: str | Path, server: TlsServer, target: str, *args: str, **env: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "SSL_"))}
    home = server.folder / "home"
    home.mkdir(exist_ok=True)
    at = "" if "host=" in target else "host=127.0.0.1 "
    return run_program(
        [program, *args, f"{at}port={server.port} dbname=postgres {target}"],
        env={**clean, "LC_ALL": "C", "HOME": str(home), "PGPASSWORD": PASSWORD, **env},
    )


def drive(server: TlsServer, target: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(PGDRIVE, server, target, *args, **env)


class Case(NamedTuple):
    """Returns the message for a client with these parameters and a server with this certificate."""

    certificate: str
    target: str
    says: str = DONE


def cases(*given: tuple[str, ...]) -> list[Case]:
    return [Case(*one) for one in given]


LIKE_PGBENCH = cases(
    # which way is taken
    ("server", "user=only_tls sslmode=disable", NO_ENTRY),
    ("server", "user=only_tls sslmode=allow"),
    ("server", "user=only_tls sslmode=prefer"),
    ("server", "user=only_tls"),
    ("server", "user=only_tls sslmode=require"),
    ("server", "user=only_plain sslmode=disable"),
    ("server", "user=only_plain sslmode=allow"),
    ("server", "user=only_plain sslmode=prefer"),
    ("server", "user=only_plain sslmode=require", NO_ENTRY),
    ("server", "user=only_plain sslmode=prefer sslrootcert={other}.crt"),
    ("server", "user=only_tls sslmode=prefer sslrootcert={other}.crt", UNVERIFIED),
    ("server", "user=nobody_at_all sslmode=prefer", 'role "nobody_at_all" does not exist'),
    # whom to trust
    ("server", "user=only_tls sslmode=verify-ca sslrootcert={root}.crt"),
    ("server", "user=only_tls sslmode=verify-ca sslrootcert={other}.crt", UNVERIFIED),
    ("server", "user=only_tls sslmode=require sslrootcert={other}.crt", UNVERIFIED),
    ("server", "user=only_tls sslmode=require sslrootcert={nowhere}.crt"),
    ("server", "user=only_tls sslmode=verify-ca", "root certificate file"),
    ("server", "user=only_tls sslmode=verify-full", "does not exist"),
    ("server", "user=only_tls sslmode=verify-full sslrootcert={root}.crt"),
    ("server", "host=localhost user=only_tls sslmode=verify-full sslrootcert={root}.crt"),
    ("elsewhere", "user=only_tls sslmode=verify-ca sslrootcert={root}.crt"),
    ("elsewhere", "host=localhost user=only_tls sslmode=verify-full sslrootcert={root}.crt", WRONG_NAME),
    ("elsewhere", "host=a.example hostaddr=127.0.0.1 user=only_tls sslmode=verify-full sslrootcert={root}.crt"),
    ("elsewhere", "host= hostaddr=127.0.0.1 user=only_tls sslmode=verify-full sslrootcert={root}.crt", "host name"),
    ("expired", "user=only_tls sslmode=verify-ca sslrootcert={root}.crt", UNVERIFIED),
    ("expired", "user=only_tls sslmode=require"),
    # certificates as the manual makes them
    ("simple", "host=localhost user=only_tls sslmode=verify-full sslrootcert={root}.crt"),
    ("simple", "user=only_tls sslmode=verify-full sslrootcert={root}.crt", WRONG_NAME),
    ("simple", "user=only_tls sslmode=verify-ca sslrootcert={other}.crt", UNVERIFIED),
    ("alone", "user=only_tls sslmode=verify-ca sslrootcert={alone}.crt"),
    ("alone", "host=localhost user=only_tls sslmode=verify-full sslrootcert={alone}.crt"),
    ("alone", "user=only_tls sslmode=verify-full sslrootcert={alone}.crt", WRONG_NAME),
    ("alone", "user=only_tls sslmode=verify-ca sslrootcert={root}.crt", UNVERIFIED),
    # our own certificate
    ("server", "user=by_cert sslmode=require sslcert={by_cert}.crt sslkey={by_cert}.key"),
    ("server", "user=by_cert sslmode=require", "connection requires a valid client certificate"),
    ("server", "user=by_cert sslmode=require sslcert={nowhere}.crt sslkey={by_cert}.key", "a valid client certificate"),
    ("server", "user=by_cert sslmode=require sslcert={stranger}.crt sslkey={stranger}.key", "unknown ca"),
    ("server", "user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={open}.key", "group or world access"),
    ("server", "user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={root}.key", "key values mismatch"),
    ("server", "user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={nowhere}.key", "but not private key file"),
    # binding
    ("server", "user=by_scram sslmode=require channel_binding=require"),
    ("server", "user=by_scram sslmode=require channel_binding=prefer"),
    ("server", "user=by_scram sslmode=require channel_binding=disable"),
    ("server", "user=by_scram sslmode=disable channel_binding=prefer"),
    ("server", "user=by_scram sslmode=disable channel_binding=require", "channel binding required, but SSL not in use"),
    ("server", "user=by_password sslmode=require channel_binding=require", "binding required but not"),
    ("server", "user=only_tls sslmode=require channel_binding=require", "authenticated client without channel binding"),
    # versions
    ("server", "user=only_tls sslmode=require ssl_max_protocol_version=TLSv1.2"),
    ("server", "user=by_scram sslmode=require channel_binding=require ssl_max_protocol_version=TLSv1.2"),
    ("server", "user=only_tls sslmode=require ssl_min_protocol_version=TLSv1.3"),
    ("server", "ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2", "SSL protocol version range"),
    ("server", "sslmode=perhaps", 'invalid sslmode value: "perhaps"'),
)  # fmt: skip

# what the pgbench of PostgreSQL 15 does not know yet
OURS = cases(
    ("server", "user=only_tls sslmode=require sslnegotiation=direct"),
    ("server", "user=only_tls sslmode=prefer sslnegotiation=direct", 'weak sslmode "prefer"'),
    ("server", "user=only_tls sslmode=verify-ca sslrootcert=system", 'weak sslmode "verify-ca"'),
    ("server", "user=by_cert sslmode=require sslcertmode=require sslcert={by_cert}.crt sslkey={by_cert}.key"),
    ("server", "user=only_tls sslmode=require sslcertmode=require", "without a valid SSL certificate"),
    ("server", "user=only_plain sslmode=disable sslcertmode=require", "did not request an SSL certificate"),
    (
        "server",
        "user=by_cert sslmode=require sslcertmode=disable sslcert={by_cert}.crt sslkey={by_cert}.key",
        "connection requires a valid client certificate",
    ),
    (
        "server",
        "user=only_tls sslmode=require sslcert={by_cert}.crt sslkey={locked}.key",
        "it is encrypted, which is not supported",
    ),
    ("server", "sslmode=require ssl_max_protocol_version=TLSv1.1", "TLS is spoken from version 1.2 on"),
    ("server", "user=only_tls sslmode=require sslsni=0"),
)


def filled(server: TlsServer, target: str) -> str:
    names = ["root", "other", "alone", "by_cert", "stranger", "open", "locked", "nowhere"]
    return target.format(**{name: server.certificates[name] for name in names})


def expect(done: subprocess.CompletedProcess[str], case: Case) -> None:
    assert case.says in done.stdout + done.stderr
    assert done.returncode == (0 if case.says == DONE else 1), done.stderr


@pytest.mark.parametrize("case", LIKE_PGBENCH, ids=lambda case: f"{case.certificate} {case.target}")
def test_connects_as_pgbench_does(loaded: TlsServer, case: Case) -> None:
    theirs = installed_pgbench()
    loaded.use(case.certificate)
    target = filled(loaded, case.target)
    args = ["-n", "-S", "-c", "2", "-t", "3"]
    # of messages in unknown words, only that there is one
    theirs_says = case.says if case.says == DONE or has_known_words(version_of(theirs)) else ""
    expect(run(theirs, loaded, target, *args), case._replace(says=theirs_says))
    for io in POLLERS:
        expect(drive(loaded, target, *args, f"--io={io}"), case)


@pytest.mark.parametrize("case", OURS, ids=lambda case: f"{case.certificate} {case.target}")
def test_connects_as_newer_libpq_does(loaded: TlsServer, case: Case) -> None:
    loaded.use(case.certificate)
    for io in POLLERS:
        expect(drive(loaded, filled(loaded, case.target), "-n", "-S", "-c", "2", "-t", "3", f"--io={io}"), case)


def test_the_systems_authorities(loaded: TlsServer) -> None:
    loaded.use("server")
    args = ("-n", "-S", "-c", "2", "-t", "3")
    target = "user=only_tls sslrootcert=system"
    known = drive(loaded, target, *args, SSL_CERT_FILE=loaded.certificates["root.crt"])
    expect(known, Case("server", target))
    unknown = drive(loaded, target, *args, SSL_CERT_FILE=loaded.certificates["other.crt"])
    expect(unknown, Case("server", target, UNVERIFIED))


def test_files_in_the_home_are_found(loaded: TlsServer) -> None:
    loaded.use("server")
    home = loaded.folder / "furnished"
    own = home / ".postgresql"
    own.mkdir(parents=True)
    for name, file in (("root.crt", "root.crt"), ("by_cert.crt", "postgresql.crt"), ("by_cert.key", "postgresql.key")):
        shutil.copyfile(loaded.certificates[name], own / file)
    (own / "postgresql.key").chmod(0o600)
    args = ("-n", "-S", "-c", "2", "-t", "3")
    target = "host=localhost user=by_cert sslmode=verify-full"
    expect(drive(loaded, target, *args, HOME=str(home)), Case("server", target))
    # require verifies too, now that there is a root
    shutil.copyfile(loaded.certificates["other.crt"], own / "root.crt")
    target = "user=by_cert sslmode=require"
    expect(drive(loaded, target, *args, HOME=str(home)), Case("server", target, UNVERIFIED))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.sql"


@pytest.mark.long_cases("[TLSv1.2-extended", "[TLSv1.2-prepared", "[TLSv1.2-simple-io_uring]")
@pytest.mark.parametrize("io", POLLERS)
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_transactions_run_encrypted(loaded: TlsServer, io: str, protocol: str, version: str, script: Path) -> None:
    # a division by zero for a session without TLS, or of another version
    script.write_text(
        f"SELECT 1 / (ssl AND version = '{version}')::int FROM pg_stat_ssl WHERE pid = pg_backend_pid();\n"
        "\\set aid random(1, 200000)\n"
        "BEGIN;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\nEND;\n"
    )
    loaded.use("server")
    target = f"user=only_tls sslmode=require ssl_min_protocol_version={version} ssl_max_protocol_version={version}"
    for sessions in ([], ["-C"]):
        args = ["-n", "-f", str(script), "-M", protocol, f"--io={io}", "-c", "4", "-j", "2", "-t", "20"]
        done = drive(loaded, target, *args, *sessions)
        assert done.returncode == 0, done.stderr
        assert "number of transactions actually processed: 80/80" in done.stdout


@pytest.mark.parametrize("io", POLLERS)
def test_megabytes_go_both_ways(loaded: TlsServer, io: str, script: Path) -> None:
    script.write_text(
        # with its quotes, for a variable stands in a statement as it is
        "SELECT quote_literal(string_agg(md5(i::text), '')) AS large FROM generate_series(1, 40000) AS i \\gset\n"
        # a division by zero when a byte was lost or changed
        "SELECT 1 / (md5(:large) = md5(string_agg(md5(i::text), '')))::int FROM generate_series(1, 40000) AS i;\n"
        "SELECT repeat('x', 3000000);\n"
        "COPY pgbench_accounts TO STDOUT;\n"
        "COPY pgbench_history FROM STDIN;\n"
        "SELECT 1;\n"
    )
    loaded.use("server")
    done = drive(loaded, "user=only_tls sslmode=require", "-n", "-f", str(script), "-c", "3", "-t", "2", f"--io={io}")
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 6/6" in done.stdout


@pytest.mark.parametrize("io", POLLERS)
def test_a_session_that_is_terminated(loaded: TlsServer, io: str, script: Path) -> None:
    script.write_text("SELECT pg_terminate_backend(pg_backend_pid());\n")
    loaded.use("server")
    args = ["-n", "-f", str(script), "-c", "1", "-t", "3", f"--io={io}"]
    plain = drive(loaded, "user=only_plain sslmode=disable", *args)
    sealed = drive(loaded, "user=only_tls sslmode=require", *args)
    assert "terminating connection due to administrator command" in sealed.stderr
    assert sealed.returncode == plain.returncode == 2
    assert sealed.stderr.splitlines() == plain.stderr.splitlines()


@pytest.mark.parametrize("io", POLLERS)
def test_sleeping_clients_and_schedules(loaded: TlsServer, io: str, script: Path) -> None:
    script.write_text("SELECT 1;\n\\sleep 5 ms\nSELECT 2;\n")
    loaded.use("server")
    args = ["-n", "-f", str(script), "-c", "4", "-R", "200", "-t", "10", f"--io={io}"]
    done = drive(loaded, "user=only_tls sslmode=require", *args)
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 40/40" in done.stdout


def test_sessions_end_in_order(loaded: TlsServer) -> None:
    loaded.use("server")
    log = loaded.folder / "log"
    before = len(log.read_text())
    for io in POLLERS:
        for sessions in ([], ["-C"]):
            done = drive(loaded, "user=only_tls sslmode=require", "-S", "-c", "4", "-t", "5", f"--io={io}", *sessions)
            assert done.returncode == 0, done.stderr
    loaded.wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'only_tls'")
    assert log.read_text()[before:] == ""


def test_unix_sockets_have_no_tls(loaded: TlsServer, script: Path) -> None:
    script.write_text("SELECT 1 / (NOT ssl)::int FROM pg_stat_ssl WHERE pid = pg_backend_pid();\n")
    target = f"host={loaded.folder} user=postgres sslmode=verify-full"
    expect(drive(loaded, target, "-n", "-f", str(script), "-c", "2", "-t", "3"), Case("server", target))
