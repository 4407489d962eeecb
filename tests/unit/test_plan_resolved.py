"""A plan written to a manifest and read again is equal: resuming relies on that."""

import json
import tomllib

import pytest
from pydantic import ValidationError

from pgdyno.errors import PlanError
from pgdyno.plan import Plan, catalogue, load_plan, planned_trials
from pgdyno.report.plan_toml import plan_toml
from tests.unit.test_docs import plans

WHOLE = """\
name = "whole"
[target.a]
kind = "embedded"
version = "18"
settings = { work_mem = "4MB", fsync = false }
initdb = ["--locale=C.UTF-8"]
[workload]
scripts = ["tpcb-like@9", "select-only"]
variables = { range = 100 }
[sweep]
clients = ["4..16 doubling", 20]
workers = "clients / 4"
rate = [500, 1000.5]
exclude = ["clients > 16"]
settings.work_mem = ["4MB", "8MB"]
variables.range = [10, 100]
[trial]
order = "randomised"
repeats = 2
pause = "1.5s"
max_errors = 0
min_free_disk = "5GB"
seed = 3
[hooks]
before_run = "sync"
before_trial = ["sync", "-f", "/"]
timeout = "90s"
[[phase]]
name = "rise"
duration = "3s"
rate = { from = 10, to = 20 }
mix = { tpcb-like = 1 }
"""


def documented() -> list[tuple[str, str]]:
    return [(name, text) for name, text in plans() if "[sweep]" in text and "extends" not in text]


@pytest.mark.parametrize(("name", "text"), [("whole", WHOLE), *documented()])
def test_a_plan_comes_back_as_it_was(name: str, text: str) -> None:
    plan = Plan.model_validate(tomllib.loads(text))
    # through JSON, as a manifest is stored
    back = Plan.from_resolved(json.loads(json.dumps(plan.as_resolved())))
    assert back.as_resolved() == plan.as_resolved(), name
    assert planned_trials(back, 5) == planned_trials(plan, 5)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: str(entry.name))
def test_a_plan_of_the_catalogue_comes_back_as_it_was(entry: object) -> None:
    plan = load_plan(str(getattr(entry, "name", ""))).plan
    back = Plan.from_resolved(json.loads(json.dumps(plan.as_resolved())))
    assert back.as_resolved() == plan.as_resolved()
    assert planned_trials(back, 5) == planned_trials(plan, 5)


def test_the_plan_in_a_report_can_be_run_again() -> None:
    plan = Plan.model_validate(tomllib.loads(WHOLE))
    assert Plan.model_validate(tomllib.loads(plan_toml(plan.as_resolved()))).as_resolved() == plan.as_resolved()


def test_seconds_without_a_unit_are_for_manifests_only() -> None:
    with pytest.raises(ValidationError, match="give the duration a unit"):
        Plan.model_validate({"trial": {"duration": 3.0}})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('pause = "-1s"', "'-1s' is not a duration"),
        ("pause = 5", "give the duration a unit"),
        ("max_errors = -1", "must be at least 0"),
        ('min_free_disk = "5 gigs"', "'5 gigs' is not a size"),
        ("min_free_disk = 5", "must be text"),
        ('[hooks]\nbefore_trial = ""', "write a line for the shell"),
        ("[hooks]\nbefore_trial = [1]", "write a line for the shell"),
        ('[hooks]\ntimeout = "0s"', "must be more than 0s"),
        ('[hooks]\nbefore_trail = "sync"', "unknown key"),
    ],
)
def test_errors_in_limits_and_hooks_have_lines(tmp_path_factory: pytest.TempPathFactory, line: str, said: str) -> None:
    path = tmp_path_factory.mktemp("plan") / "wrong.toml"
    head = WHOLE.partition("[trial]")[0]
    path.write_text(f'{head}[trial]\nduration = "1s"\n{line}\n')
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    (problem,) = caught.value.problems
    assert said in problem.message, problem
    assert problem.line == path.read_text().splitlines().index(line.splitlines()[-1]) + 1
