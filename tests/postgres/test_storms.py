"""A new connection for each transaction: time to connect by part, and refusals that end no client."""

import json
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer
from tests.postgres.runs import pgdyno, the_run
from tests.postgres.test_own_poolers import own_plan
from tests.postgres.test_pgdrive import PGDRIVE
from tests.postgres.test_pgdrive_tls import drive, secure
from tests.postgres.tls_server import PASSWORD, TlsServer, make_certificates
from tests.run_program import run_program

__all__ = ["secure"]
PARTS = ("socket", "tls", "authentication", "backend_start")


def storm(server: TlsServer, folder: Path, target: str, *args: str) -> dict[str, Any]:
    """Returns the results of transactions that hold their connection for 20 ms."""
    script, results = folder / "script.sql", folder / "results.json"
    script.write_text("SELECT pg_sleep(0.02);\n")
    options = ("-n", "-f", str(script), "-C", "--count-refusals", f"--json={results}", *args)
    done = drive(server, target, *options)
    assert done.returncode == 0, done.stderr
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
        args = ("-n", "-f", script, "-C", "--count-refusals", "-c", "30", "-T", "2", f"--json={results}")
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
    # connecting over TLS takes so long here that clients at work at the end would count in a shorter trial
    plan = own_plan(installed, tmp_path, pooler, connect="tcp", duration="2s")
    plan.write_text(plan.read_text().replace("[sweep]\n", '[sweep]\nconnect = ["once", "each"]\n'))
    done = pgdyno(home, tmp_path, "run", str(plan))
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    once, each = sorted(the_run(tmp_path).trials(), key=lambda trial: trial.point.connect or "", reverse=True)
    assert once.summary is not None
    assert once.summary.connect is None
    assert each.summary is not None
    connect = each.summary.connect
    assert connect is not None
    assert connect.count == each.summary.succeeded
    assert None not in (connect.socket, connect.tls, connect.authentication, connect.backend_start)
