"""The recorded conditions of a run: preflight and fingerprint."""

import json
import subprocess
from pathlib import Path

import pytest

from pgdyno.doctor import CHECKS
from pgdyno.fingerprint import Weight, comparable
from pgdyno.records import Fingerprint
from pgdyno.store import RunFolder, list_runs
from pgdyno.targets import Home
from tests.forked import run_pgdyno
from tests.postgres.runs import environment
from tests.present import present
from tests.unit.doctor_sample import ONLY_WHERE_ASKED

PLAN = """\
name = "kept"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "32MB" }
[workload]
scripts = ["mine.sql", "select-only@0"]
[sweep]
clients = [1]
scale = [1, 2]
[trial]
duration = "0.2s"
"""


def pgdyno(home: Home, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(args, cwd=folder, env=environment(home))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept.toml").write_text(PLAN)
    (tmp_path / "mine.sql").write_text("SELECT 1;\n")
    return tmp_path


def latest(folder: Path) -> RunFolder:
    return RunFolder.open(list_runs(folder / "pgdyno-runs")[0].path)


def fingerprint(folder: Path) -> Fingerprint:
    return present(latest(folder).manifest.fingerprint)


def test_a_run_keeps_its_conditions(home: Home, folder: Path) -> None:
    done = pgdyno(home, folder, "run", "kept.toml")
    assert done.returncode == 0, done.stderr
    manifest = latest(folder).manifest
    assert {check.id for check in manifest.preflight} == CHECKS.keys() - ONLY_WHERE_ASKED
    for check in manifest.preflight:
        said = f"{check.verdict.value}: {check.id}: {check.found}" in done.stderr
        assert said == (check.verdict.value not in ("good", "unknown"))
    found = fingerprint(folder)
    server = found.servers["pg18"]
    assert server.version.startswith("18.")
    assert "--with-" in present(server.configure)
    assert server.settings_changed["shared_buffers"] == "32MB"
    assert server.settings_changed["fsync"] == "off"
    assert server.dataset_marks == ["pgbench scale 1", "pgbench scale 2"]
    assert found.workload["files"].keys() == {"mine.sql"}
    assert found.host.disks["data and WAL of pg18"]
    assert found.seed == manifest.plan["trial"]["seed"]
    shown = json.loads(pgdyno(home, folder, "show", "--json").stdout)
    assert shown["manifest"]["fingerprint"] == found.model_dump(mode="json")


@pytest.mark.long
def test_two_runs_differ_by_what_was_changed(home: Home, folder: Path) -> None:
    once = ["run", "kept.toml", "--no-preflight", "--set", "sweep.scale=1"]
    assert pgdyno(home, folder, *once).returncode == 0
    first = fingerprint(folder)
    assert latest(folder).manifest.preflight == []
    (folder / "mine.sql").write_text("SELECT 2;\n")
    again = [*once, "--set", 'target.pg18.settings.shared_buffers="64MB"']
    assert pgdyno(home, folder, *again).returncode == 0
    found = comparable(first, fingerprint(folder))
    assert {each.field: each.severity for each in found} == {
        "servers.pg18.settings_changed.shared_buffers": Weight.CONFOUNDER,
        "workload.files.mine.sql": Weight.REFUSED,
        "seed": Weight.HARMLESS,
    }
