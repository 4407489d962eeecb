"""The recorded conditions of a run: preflight and fingerprint, and `pgdyno doctor` while a server runs."""

import json
from pathlib import Path

import pytest

from pgdyno.doctor import BRIEF, CHECKS, Needs, Place, examine
from pgdyno.doctor.remote import reach_servers
from pgdyno.doctor.round_trips import round_trips
from pgdyno.plan import load_plan
from pgdyno.programs import find_engine
from pgdyno.records import CheckVerdict, Manifest
from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home, Server
from tests.forked import run_pgdyno
from tests.postgres.runs import environment, fast_plan
from tests.present import present
from tests.unit.doctor_sample import ONLY_WHERE_ASKED

PLAN = fast_plan(
    'scripts = ["mine.sql", "select-only@0"]', "clients = [1]\nscale = [1, 2]", 'duration = "0.2s"', ["pg18"]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept.toml").write_text(PLAN)
    (tmp_path / "mine.sql").write_text("SELECT 1;\n")
    return tmp_path


def measured(home: Home, folder: Path, *options: str) -> tuple[Manifest, str]:
    done = run_pgdyno(["run", "kept.toml", *options], cwd=folder, env=environment(home))
    assert done.returncode == 0, done.stderr
    return RunFolder.open(list_runs(folder / "pgdyno-runs")[0].path).manifest, done.stderr


def test_a_run_keeps_its_conditions(home: Home, folder: Path) -> None:
    manifest, stderr = measured(home, folder)
    assert {check.id for check in manifest.preflight} == CHECKS.keys() - ONLY_WHERE_ASKED
    for check in manifest.preflight:
        said = f"{check.verdict.value}: {check.id}: {check.found}" in stderr
        assert said == (check.verdict.value not in ("good", "unknown"))
    found = present(manifest.fingerprint)
    server = found.servers["pg18"]
    assert server.version.startswith("18.")
    assert "--with-" in present(server.configure)
    assert server.settings_changed["shared_buffers"] == "16MB"
    assert server.settings_changed["fsync"] == "off"
    assert server.dataset_marks == ["pgbench scale 1", "pgbench scale 2"]
    assert found.workload["files"].keys() == {"mine.sql"}
    assert found.host.disks["data and WAL of pg18"]
    assert found.seed == manifest.plan["trial"]["seed"]
    shown = run_pgdyno(["show", "--json"], cwd=folder, env=environment(home)).stdout
    assert json.loads(shown)["manifest"]["fingerprint"] == found.model_dump(mode="json")


# ---- measurements of the way to a server ----

NEEDS = Needs(plan="p", clients=2, scripts=("-b", "select-only"), places=(Place(Path("/var/tmp"), ("data of a",)),))
TOO_LONG_US = 10_000_000
"""A statement through a real backend takes longer than a system call, and no machine is too busy for it for so long."""


def away(dsn: str) -> str:
    target = f'kind = "dsn"\ndsn = "{dsn}"\npassword_env = "SECRET"\ndatabase = "pgdyno"\nallow_existing = true'
    return fast_plan('scripts = ["select-only"]', "clients = 2", 'duration = "1s"', ["away"], target)


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
    (tmp_path / "away.toml").write_text(away(dsn))
    servers, checks = reach_servers(load_plan(tmp_path / "away.toml").plan, lambda _: None)
    assert checks == []
    trips = round_trips(find_engine(), servers["away"], "prepared")
    assert trips.count > 1
    assert 5 < trips.least_us <= trips.median_us < TOO_LONG_US


def test_a_server_that_refuses_us_is_a_stop(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    (tmp_path / "away.toml").write_text(away(f"host={server.host} port={server.port} user=kept_short"))
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
