"""The recorded conditions of a run: preflight and fingerprint."""

import json
from pathlib import Path

import pytest

from pgdyno.doctor import CHECKS
from pgdyno.fingerprint import Weight, comparable
from pgdyno.records import Manifest
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept.toml").write_text(PLAN)
    (tmp_path / "mine.sql").write_text("SELECT 1;\n")
    return tmp_path


def measured(home: Home, folder: Path, *options: str) -> tuple[Manifest, str]:
    """Runs the plan; returns the manifest, and what was said."""
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
    assert server.settings_changed["shared_buffers"] == "32MB"
    assert server.settings_changed["fsync"] == "off"
    assert server.dataset_marks == ["pgbench scale 1", "pgbench scale 2"]
    assert found.workload["files"].keys() == {"mine.sql"}
    assert found.host.disks["data and WAL of pg18"]
    assert found.seed == manifest.plan["trial"]["seed"]
    shown = run_pgdyno(["show", "--json"], cwd=folder, env=environment(home)).stdout
    assert json.loads(shown)["manifest"]["fingerprint"] == found.model_dump(mode="json")


@pytest.mark.long
def test_two_runs_differ_by_what_was_changed(home: Home, folder: Path) -> None:
    once = ["--no-preflight", "--set", "sweep.scale=1"]
    first, _ = measured(home, folder, *once)
    assert first.preflight == []
    (folder / "mine.sql").write_text("SELECT 2;\n")
    second, _ = measured(home, folder, *once, "--set", 'target.pg18.settings.shared_buffers="64MB"')
    found = comparable(present(first.fingerprint), present(second.fingerprint))
    assert {each.field: each.severity for each in found} == {
        "servers.pg18.settings_changed.shared_buffers": Weight.CONFOUNDER,
        "workload.files.mine.sql": Weight.REFUSED,
        "seed": Weight.HARMLESS,
    }
