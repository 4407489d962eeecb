"""Small plans, and what reading them says."""

import json
import tomllib
from pathlib import Path

import pytest

from pgdyno.errors import PlanError, Problem
from pgdyno.plan import LoadedPlan, Plan, load_plan
from pgdyno.report.plan_toml import plan_toml


def small_plan(
    workload: str = 'scripts = ["select-only"]',
    sweep: str = "clients = 1",
    trial: str = 'duration = "10s"',
    **versions: str,
) -> str:
    """Returns a plan on servers of `versions` by their names; its last section is [trial]."""
    versions = versions or {"pg18": "18"}
    targets = "".join(f'[target.{name}]\nkind = "embedded"\nversion = "{each}"\n' for name, each in versions.items())
    return f'name = "mine"\n{targets}[workload]\n{workload}\n[sweep]\n{sweep}\n[trial]\n{trial}\n'


def loaded(folder: Path, text: str, *overrides: str) -> LoadedPlan:
    path = folder / "mine.toml"
    path.write_text(text)
    return load_plan(path, overrides)


def load(folder: Path, text: str, *overrides: str) -> Plan:
    """Returns the plan, which manifests and reports keep as it is."""
    plan = loaded(folder, text, *overrides).plan
    resolved = plan.as_resolved()
    assert Plan.from_resolved(json.loads(json.dumps(resolved))).as_resolved() == resolved
    assert Plan.model_validate(tomllib.loads(plan_toml(resolved))).as_resolved() == resolved
    return plan


def problems(folder: Path, text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(PlanError) as caught:
        loaded(folder, text, *overrides)
    return caught.value.problems


def the_problem(folder: Path, text: str, *overrides: str) -> Problem:
    found = problems(folder, text, *overrides)
    assert len(found) == 1, found
    return found[0]


def refuse(folder: Path, text: str, path: str, message: str, hint: str = "", line: int | None = None) -> Problem:
    """Returns the only problem, which has this path, parts of its message and hint, and a line."""
    problem = the_problem(folder, text)
    assert (problem.path, problem.line) == (path, line or problem.line)
    assert message in problem.message
    assert hint in (problem.hint or "")
    assert problem.line is not None
    return problem
