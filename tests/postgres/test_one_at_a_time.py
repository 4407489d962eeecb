"""Whole runs while another pgdyno measures on the same host."""

from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home, SilentProgress, Use, host_in_use

from .runs import pgdyno, the_run

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "16MB" }
[workload]
scripts = ["select-only"]
scale = 1
[sweep]
clients = 1
[trial]
transactions = 20
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(PLAN)
    return path


def test_the_second_is_refused_before_anything_is_made(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    with host_in_use(Use("slow"), SilentProgress()):
        done = pgdyno(warm_home, tmp_path, "run", str(plan))
    assert done.returncode == ExitCode.TARGET
    assert "another pgdyno is measuring on this host: process" in done.stderr
    assert "plan slow" in done.stderr
    assert "--wait" in done.stderr
    assert not (tmp_path / "pgdyno-runs").exists()


def test_measuring_alongside_is_kept_with_the_run(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    with host_in_use(Use("slow"), SilentProgress()):
        done = pgdyno(warm_home, tmp_path, "run", "--alongside", str(plan))
    assert done.returncode == ExitCode.OK, done.stderr
    assert any(note.startswith("measured alongside: another pgdyno") for note in the_run(tmp_path).manifest.notes)


def test_both_options_at_once(warm_home: Home, tmp_path: Path, plan: Path) -> None:
    done = pgdyno(warm_home, tmp_path, "run", "--alongside", "--wait", str(plan))
    assert done.returncode == ExitCode.USAGE
    assert "exclude each other" in done.stderr
