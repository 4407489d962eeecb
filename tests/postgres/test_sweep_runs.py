"""Runs of sweeps: every trial gets its own rate, variables and place in the order."""

import json
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from pgdyno.errors import ExitCode
from pgdyno.report.plan_toml import plan_toml
from pgdyno.store import load_run
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run
from tests.present import present

PLAN = """\
name = "swept"
target.a = { kind = "embedded", version = "18", settings = { fsync = "off" } }
target.b = { kind = "embedded", version = "18", settings = { fsync = "off" } }
[workload]
scripts = ["rows.sql"]
dataset = "none"
variables = { rows = 1, base = 10 }
[sweep]
clients = [2, 4]
workers = "clients / 2"
rate = 400
variables.rows = ["variables.base * 3", 7]
exclude = "clients == 4 and variables.rows == 7"
[trial]
duration = "500ms"
repeats = 2
seed = 5
"""
SCRIPT = "SELECT count(*) = :rows AS right FROM generate_series(1, :rows);\nSELECT 1 / (:rows % 10 % 7);\n"


def run(home: Home, tmp_path: Path, plan: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "rows.sql").write_text(SCRIPT)
    (tmp_path / "swept.toml").write_text(plan)
    return pgdyno(home, tmp_path, "run", "swept.toml", "--json")


def test_trials_run_as_planned(warm_home: Home, tmp_path: Path) -> None:
    # 7 divides by zero, 31 does not: the script sees each point's own value
    done = run(warm_home, tmp_path, PLAN.replace("base * 3", "base * 3 + 1"))
    assert json.loads(done.stdout)["trials"] == 12
    folder = the_run(tmp_path)
    trials = folder.trials()
    assert folder.manifest.order == [trial.slug for trial in trials]
    assert folder.manifest.plan["trial"]["order"] == "interleaved"
    assert "".join(trial.target for trial in trials) == "baabababbaab"
    points = [(trial.point.clients, trial.point.workers, trial.point.variables["rows"]) for trial in trials[::2]]
    assert points == [(2, 1, "31"), (4, 2, "31"), (2, 1, "7")] * 2
    for trial in trials:
        assert trial.point.rate == 400.0
        if trial.point.variables["rows"] == "7":
            assert "division by zero" in present(trial.failure).message
            continue
        # 200 starts at random: five standard deviations
        assert abs(present(present(trial.summary).scheduled) - 200) < 5 * 200**0.5
        assert present(trial.generator).workers == trial.point.workers
    assert done.returncode == ExitCode.TRIALS_FAILED
    sql = "SELECT rate, variables['rows'], count(*) FROM trials GROUP BY ALL ORDER BY 2"
    assert load_run(folder).query(sql).rows == [(400.0, "31", 8), (400.0, "7", 4)]


@pytest.mark.long
def test_a_kept_plan_comes_to_the_same_trials(warm_home: Home, tmp_path: Path) -> None:
    """The plan of a run's page, run again, measures the same points in the same order."""
    run(warm_home, tmp_path, PLAN.replace("base * 3", "base + 1").replace("500ms", "200ms"))
    folder = the_run(tmp_path)
    (tmp_path / "again.toml").write_text(plan_toml(folder.manifest.plan))
    shown = pgdyno(warm_home, tmp_path, "plan", "show", "again.toml", "--json")
    assert [trial["slug"] for trial in json.loads(shown.stdout)["trials"]] == folder.manifest.order


def test_later_trials_of_a_load_have_the_threads_of_the_first(warm_home: Home, tmp_path: Path) -> None:
    plan = """\
        name = "threads"
        target.a = { kind = "embedded", version = "18", settings = { fsync = "off" } }
        target.b = { kind = "embedded", version = "18", settings = { fsync = "off" } }
        workload = { scripts = ["rows.sql"], dataset = "none", variables = { rows = 1 } }
        sweep = { clients = 12 }
        trial = { warmup = "1s", duration = "1s" }
        """
    done = run(warm_home, tmp_path, dedent(plan))
    assert done.returncode == ExitCode.OK, done.stderr
    first, second = (present(trial.generator) for trial in the_run(tmp_path).trials())
    assert second.workers == first.workers
