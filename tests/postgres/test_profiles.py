"""Profiles of a run's arms by perf; where this machine has none, the run says so in one line."""

import re
import shutil
from pathlib import Path

import pytest

from pgdyno.store import load_run
from pgdyno.store.profiles import read_profile
from pgdyno.targets import Home
from tests.forked import run_pgdyno
from tests.postgres.runs import environment, the_run

PLAN = """\
name = "profiled"
[target.a]
kind = "embedded"
version = "18"
settings = { fsync = "off" }
[workload]
dataset = "none"
scripts = ["sort.sql"]
[sweep]
clients = [1, 2]
[trial]
duration = "1s"
[probe]
profile = true
"""
SORT = "SELECT count(*) FROM (SELECT i FROM generate_series(1, 20000) i ORDER BY i DESC) s;\n"
NOT_INSTALLED = re.compile(r"no profile of a: perf is not installed; install its package \(.*\), and resume the run")
NOT_ALLOWED = re.compile(
    r"no profile of a: perf may not sample the server( \(kernel\.perf_event_paranoid is -?\d+\))?; "
    r"sysctl kernel\.perf_event_paranoid=1, and in a container --cap-add=PERFMON; then resume the run"
)
WITHOUT_PERF = ("cp", "cat", "env", "find", "id", "ls", "nice", "sh", "tar", "uname")


def run(home: Home, tmp_path: Path, *args: str, path: str | None = None) -> None:
    (tmp_path / "sort.sql").write_text(SORT)
    (tmp_path / "profiled.toml").write_text(PLAN)
    variables = environment(home) | ({"PATH": path} if path is not None else {})
    done = run_pgdyno([*args], cwd=tmp_path, env=variables)
    assert done.returncode == 0, done.stderr


def left_out(tmp_path: Path) -> list[str]:
    return [note for note in the_run(tmp_path).manifest.notes if note.startswith("no profile of")]


@pytest.mark.long
def test_a_profile_that_was_left_out_is_taken_by_a_resume(warm_home: Home, tmp_path: Path) -> None:
    # without perf on the PATH, the run is complete and says what to install
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in WITHOUT_PERF:
        program = shutil.which(name)
        if program is not None:
            (tools / name).symlink_to(program)
    run(warm_home, tmp_path, "run", "profiled.toml", "--no-preflight", path=str(tools))
    folder = the_run(tmp_path)
    (missing,) = left_out(tmp_path)
    assert NOT_INSTALLED.fullmatch(missing)
    assert folder.manifest.profiles == []

    run(warm_home, tmp_path, "run", "--resume", str(folder.path))
    folder = the_run(tmp_path)
    trials = [trial.slug for trial in folder.trials()]
    assert trials == folder.manifest.order
    assert folder.partials() == []
    if not folder.manifest.profiles:
        # no perf, or a kernel that does not allow it: one line says so, with the remedy for this machine
        if shutil.which("perf") is None:
            assert set(left_out(tmp_path)) == {missing}
        else:
            (refused,) = set(left_out(tmp_path)) - {missing}
            assert NOT_ALLOWED.fullmatch(refused)
        assert "Flame graph" not in (folder.path / "report.html").read_text()
        return
    (profile,) = folder.manifest.profiles
    best = max((trial for trial in folder.trials() if trial.summary), key=lambda trial: trial.summary.tps)  # type: ignore[union-attr]
    assert (profile.target, profile.point, profile.hz) == ("a", best.point, 99)
    assert profile.file == f"profiles/{best.slug}.folded"
    stacks = read_profile(folder.path, profile)
    assert stacks is not None
    assert stacks.total() == profile.samples
    # backends that the postmaster forked after perf had begun, down to the functions of the statement
    functions = {name for stack in stacks for name in stack.split(";")}
    assert {"PostgresMain", "standard_ExecutorRun"} <= functions
    assert list(load_run(folder).trials) == folder.trials()
    report = (folder.path / "report.html").read_text()
    assert "Flame graph of a" in report
    assert "tps under perf in one short load" in report
