"""Promises of whole runs: what the terminal says, and the exit codes of --require."""

import json
from pathlib import Path

import pytest

import pgdyno as package
from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run

PLAN = """\
name = "promised"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "32MB" }
[workload]
scripts = ["select-only"]
scale = 1
[sweep]
clients = 2
rate = 200
[trial]
duration = "500ms"
"""
KEPT = '["tps > 1", "rate >= 1%", "errors <= 0%"]'
"""No latency, which is open if a busy machine answers less than 99 % of what is due in half a second."""


@pytest.mark.parametrize(
    ("promise", "repeats", "code"),
    [
        (KEPT, 3, ExitCode.OK),
        ('["tps > 1", "p50 < 1us"]', 3, ExitCode.PROMISE_BROKEN),
        ('"p99 < 20s"', 1, ExitCode.INCONCLUSIVE),
    ],
)
def test_require_exits_by_the_verdicts(
    promise: str, repeats: int, code: ExitCode, warm_home: Home, tmp_path: Path
) -> None:
    (tmp_path / "p.toml").write_text(f"{PLAN}repeats = {repeats}\npromise = {promise}\n")
    ran = pgdyno(warm_home, tmp_path, "run", str(tmp_path / "p.toml"), "--require")
    assert ran.returncode == code, ran.stderr
    words = {ExitCode.OK: ": held (", ExitCode.PROMISE_BROKEN: ": broken (", ExitCode.INCONCLUSIVE: "use repeats = 3"}
    assert words[code] in ran.stdout
    run = the_run(tmp_path)
    told = package.open(run.path).promises
    assert [each["promise"] for each in told] == (json.loads(promise) if promise[0] == "[" else [json.loads(promise)])
    shown = pgdyno(warm_home, tmp_path, "show", "--json")
    assert json.loads(shown.stdout)["answer"]["promises"] == told


def test_require_needs_a_promise(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(PLAN)
    ran = pgdyno(warm_home, tmp_path, "run", str(tmp_path / "p.toml"), "--require")
    assert ran.returncode == ExitCode.USAGE
    assert "--require needs a plan with a promise" in ran.stderr
    assert not (tmp_path / "pgdyno-runs").exists()
