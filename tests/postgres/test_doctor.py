"""`pgdyno doctor` while a server runs."""

from pathlib import Path

import pytest

from pgdyno.doctor import BRIEF, CHECKS, Needs, Place, examine
from pgdyno.doctor.remote import reach_servers
from pgdyno.doctor.round_trips import round_trips
from pgdyno.plan import load_plan
from pgdyno.programs import find_engine
from pgdyno.records import CheckVerdict
from pgdyno.targets import Server
from tests.unit.doctor_sample import ONLY_WHERE_ASKED

NEEDS = Needs(plan="p", clients=2, scripts=("-b", "select-only"), places=(Place(Path("/var/tmp"), ("data of a",)),))

TOO_LONG_US = 10_000_000
"""A statement through a real backend takes longer than a system call, and no machine is too busy for it for so long."""
AWAY = """\
name = "away"
[target.away]
kind = "dsn"
dsn = "{dsn}"
password_env = "SECRET"
database = "pgdyno"
allow_existing = true
[workload]
scripts = ["select-only"]
[sweep]
clients = 2
[trial]
duration = "1s"
"""


def test_the_way_to_a_server_is_measured(server: Server) -> None:
    # one that is gone does not hide the others
    servers = {"gone": {**server.environment(), "PGPORT": "1"}, "pg18": server.environment()}
    checks = examine(NEEDS, find_engine(), BRIEF, lambda _: None, servers=servers)
    found = {check.id: check for check in checks}
    assert list(found) == [name for name in CHECKS if name not in ONLY_WHERE_ASKED]
    lost, trip = [check for check in checks if check.id == "network.round-trip"]
    assert lost.verdict is CheckVerdict.UNKNOWN
    assert lost.found.startswith("not measured: ")
    assert trip.found.endswith(f"to pg18 at {server.host}")
    assert 5 < float(trip.measured["median_us"]) < TOO_LONG_US
    assert "postgres" in found["machine.others"].found
    assert server.environment()["PGPASSWORD"] not in str(checks)


def test_a_plans_remote_server_is_reached(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libpq = server.environment()
    monkeypatch.setenv("SECRET", libpq["PGPASSWORD"])
    dsn = f"host={libpq['PGHOST']} port={libpq['PGPORT']} user={libpq['PGUSER']}"
    (tmp_path / "away.toml").write_text(AWAY.format(dsn=dsn))
    servers, checks = reach_servers(load_plan(tmp_path / "away.toml").plan, lambda _: None)
    assert checks == []
    trips = round_trips(find_engine(), servers["away"], "prepared")
    assert trips.count > 1
    assert 5 < trips.least_us <= trips.median_us < TOO_LONG_US


def test_a_server_that_refuses_us_is_a_stop(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "away.toml").write_text(AWAY.format(dsn=f"host={server.host} port={server.port} user=kept_short"))
    with server.connect("postgres") as connection:
        connection.execute("CREATE ROLE kept_short LOGIN PASSWORD 'x'")
        connection.execute("REVOKE SELECT ON pg_roles FROM PUBLIC")
        try:
            servers, (check,) = reach_servers(load_plan(tmp_path / "away.toml").plan, lambda _: None)
        finally:
            connection.execute("GRANT SELECT ON pg_roles TO PUBLIC")
            connection.execute("DROP ROLE kept_short")
    assert (servers, check.verdict) == ({}, CheckVerdict.STOP)
    assert check.found == "away: the server refused what pgdyno asked: permission denied for view pg_roles"
