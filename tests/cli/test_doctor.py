"""`pgdyno doctor` on the machine that runs the tests."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pgdyno.doctor import BRIEF, CHECKS, Needs, examine
from pgdyno.errors import ExitCode
from pgdyno.programs import find_engine
from tests.cli.conftest import Run
from tests.json_schema import validated
from tests.unit.doctor_sample import ONLY_WHERE_ASKED
from tests.unit.plan_sample import small_plan

PLAN = small_plan('scripts = ["tpcb-like"]\nscale = {scale}', 'clients = [2, 5]\nprotocol = "prepared"')

WITHOUT_PGNULL = {"PGDYNO_PGNULL": "/bin/false"}
"""Variables without which the generator would use all cores for seconds, to measure its ceiling."""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "asked.toml"
    path.write_text(PLAN.format(scale=1))
    return path


def by_id(text: str) -> dict[str, dict[str, Any]]:
    return {check["id"]: check for check in validated("doctor", text)["checks"]}


def test_a_plan_is_looked_at_with_every_check(run: Run, plan: Path) -> None:
    done = run("pgdyno", "doctor", plan.name, "--json")
    assert done.returncode in (ExitCode.OK, ExitCode.PREFLIGHT), done.stderr
    checks = by_id(done.stdout)
    assert checks.keys() == CHECKS.keys() - ONLY_WHERE_ASKED
    measured = {name: check["measured"] for name, check in checks.items()}
    assert measured["generator.ceiling"]["tps"] > 100
    assert 0 < measured["network.round-trip"]["median_us"] < 1e6
    assert 0 < measured["storage.fsync"]["median_us"] <= measured["storage.fsync"]["p99_us"]
    assert measured["clock.cost"]["call_ns"] > 0
    assert measured["memory.dataset"]["most_bytes"] == 15_000_000
    assert "tpcb-like; prepared) with 5 clients" in checks["generator.ceiling"]["found"]
    assert "of 7 statements" in checks["network.round-trip"]["means"]
    assert "data and WAL of pg18" in checks["storage.free"]["found"]
    for check in checks.values():
        # what is not good says what it means, and what is unknown why
        assert check["found"]
        assert check["means"] or check["verdict"] in ("good", "unknown")


def test_the_machine_is_looked_at_without_a_plan_and_clients_over_tcp_have_a_longer_way(run: Run) -> None:
    done = run("pgdyno", "doctor", env=WITHOUT_PGNULL)
    assert done.returncode in (ExitCode.OK, ExitCode.PREFLIGHT), done.stderr
    shown = {words[1] for line in done.stdout.splitlines() if len(words := line.split()) > 1}
    assert CHECKS.keys() - ONLY_WHERE_ASKED <= shown
    assert re.search(r"^\d+ checks: ", done.stdout, re.MULTILINE)
    assert "\x1b[" not in done.stdout
    needs = Needs(plan="p", servers=1, tcp=True)
    checks = {each.id: each for each in examine(needs, find_engine(), BRIEF, lambda _: None)}
    assert "to pgnull over loopback" in checks["network.round-trip"].found


def test_a_plan_that_the_machine_cannot_carry_or_that_is_wrong_is_refused(run: Run, plan: Path, tmp_path: Path) -> None:
    # its dataset needs 14 PiB
    plan.write_text(PLAN.format(scale=10**9))
    looked = run("pgdyno", "doctor", plan.name, "--json", env=WITHOUT_PGNULL)
    assert looked.returncode == ExitCode.PREFLIGHT
    checks = by_id(looked.stdout)
    assert checks["storage.free"]["verdict"] == json.loads(looked.stdout)["worst"] == "stop"
    for name in ("generator.ceiling", "network.round-trip"):
        assert checks[name]["verdict"] == "unknown"
        assert "pgnull does not start" in checks[name]["found"]
    ran = run("pgdyno", "run", plan.name, env=WITHOUT_PGNULL)
    assert ran.returncode == ExitCode.PREFLIGHT, ran.stderr
    assert f"error: plan {plan.name} cannot run on this machine: storage.free: " in ran.stderr
    assert re.search(r"hint: .+; to run it regardless: --no-preflight", " ".join(ran.stderr.split()))
    assert not (tmp_path / "pgdyno-runs").exists()
    # one that is wrong
    plan.write_text(PLAN.format(scale=0))
    assert run("pgdyno", "doctor", plan.name).returncode == ExitCode.PLAN


def test_what_cannot_be_reached_is_a_stop(run: Run, plan: Path) -> None:
    text = plan.read_text()
    nowhere = text.replace('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=127.0.0.1 port=1"')
    plan.write_text(nowhere)
    done = run("pgdyno", "doctor", plan.name, "--json", env=WITHOUT_PGNULL)
    assert done.returncode == ExitCode.PREFLIGHT, done.stderr
    found = by_id(done.stdout)
    assert found["network.round-trip"]["verdict"] == "stop"
    assert "pg18: cannot connect" in found["network.round-trip"]["found"]
    # the server's disk and memory are not visible from this machine
    assert "storage.free" not in found
    plan.write_text(f'generators = ["ssh://127.0.0.1:1"]\n{text}')
    done = run("pgdyno", "doctor", plan.name, "--json", env=WITHOUT_PGNULL)
    assert done.returncode == ExitCode.PREFLIGHT, done.stderr
    ceiling = by_id(done.stdout)["generator.ceiling"]
    assert (ceiling["verdict"], ceiling["change"]) == ("stop", "try: ssh 127.0.0.1 true")
    assert ceiling["found"].startswith("generator-1 does not start: cannot reach 127.0.0.1 over SSH: ")
