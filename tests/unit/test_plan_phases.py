"""Phases of a plan: errors with their lines, their length, and the engine's file."""

import tomllib
from pathlib import Path

import pytest

from pgdyno.plan import time_needed_s
from pgdyno.plan.output.show_plan import show_json
from pgdyno.records import Point
from pgdyno.report.plan_toml import plan_toml
from pgdyno.run.engine import phases_toml, trial_options
from tests.unit.plan_sample import loaded, the_problem

PLAN = """\
name = "spike"
[target.pg]
kind = "embedded"
version = "18"
[workload]
scripts = ["tpcb-like", "select-only@9"]
[sweep]
clients = [8, 16]
workers = 2
[trial]
repeats = 2
[[phase]]
name = "warm"
duration = "1m30s"
rate = 500
result = false
[[phase]]
name = "up"
duration = "10s"
rate = { from = 500, to = 5000.5 }
clients = { from = 2, to = 8 }
mix = { "select-only" = 1, 1 = 3 }
"""


def test_a_trial_is_as_long_as_its_phases(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN)
    assert time_needed_s(plan.plan) == 4 * 100
    assert '"measuring_s": 400' in show_json(plan)


def test_the_engine_gets_what_the_plan_says(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN).plan
    assert tomllib.loads(phases_toml(plan.phase)) == {"phase": _with_defaults()}
    options = trial_options(plan, Point(clients=8, workers=2, protocol="simple", scale=1), 1, Path("/f/phases.toml"))
    assert "--phases=/f/phases.toml" in options
    assert not any(option.startswith(("--time", "--warmup", "--transactions")) for option in options)


def _with_defaults() -> list[dict[str, object]]:
    return [{"result": True, **phase} for phase in tomllib.loads(PLAN)["phase"]]


def test_a_kept_plan_can_be_run_again(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN).plan
    again = loaded(tmp_path, plan_toml(plan.as_resolved())).plan
    assert again.as_resolved() == plan.as_resolved()


def test_a_plan_without_phases_does_not_speak_of_them(tmp_path: Path) -> None:
    head = PLAN.split("[[phase]]", 1)[0]
    assert "phase" not in loaded(tmp_path, head + 'duration = "1s"\n').plan.as_resolved()


@pytest.mark.parametrize(
    ("old", "new", "path", "line", "message"),
    [
        ("repeats = 2", 'duration = "10s"', "trial.duration", 11, "cannot be combined with phases"),
        ("repeats = 2", 'warmup = "10s"', "trial.warmup", 11, "cannot be combined with phases"),
        ("repeats = 2", "transactions = 10", "trial.transactions", 11, "cannot be combined with phases"),
        ('name = "up"', 'name = "warm"', "phase[1].name", 18, "two phases"),
        ('duration = "10s"', "duration = 10", "phase[1].duration", 19, "must be text"),
        ('duration = "10s"', 'duration = "0s"', "phase[1].duration", 19, "more than 0s"),
        ("rate = 500\n", "", "phase[0]", 12, "has no rate"),
        ("rate = 500\n", "rate = -1\n", "phase[0].rate", 15, "is invalid"),
        ("{ from = 500, to = 5000.5 }", "{ from = 500 }", "phase[1].rate", 20, "is invalid"),
        ("from = 2, to = 8", "from = 2, to = 9", "phase[1].clients", 21, "more than the 8 of sweep.clients"),
        ("from = 2, to = 8", "from = 1, to = 8", "phase[1].clients", 21, "fewer than the 2 workers"),
        ("from = 2, to = 8", "from = 2.5, to = 8", "phase[1].clients", 21, "is invalid"),
        ("1 = 3", "3 = 3", "phase[1].mix.3", 22, "is not a script of this plan"),
        ('"select-only" = 1, 1 = 3', '"select-only" = 0', "phase[1].mix", 22, "no weight above 0"),
        ("result = false", "result = 0", "phase[0].result", 16, "must be true or false"),
        ("result = false", "speed = 3", "phase[0].speed", 16, "unknown key"),
    ],
)
def test_mistakes_have_their_lines(tmp_path: Path, old: str, new: str, path: str, line: int, message: str) -> None:
    assert old in PLAN
    problem = the_problem(tmp_path, PLAN.replace(old, new, 1))
    assert (problem.path, problem.line) == (path, line)
    assert message in problem.message
