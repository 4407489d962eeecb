"""Small plans, and what reading them says."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError, Problem
from pgdyno.plan import LoadedPlan, Plan, load_plan


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
    return loaded(folder, text, *overrides).plan


def problems(folder: Path, text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(PlanError) as caught:
        loaded(folder, text, *overrides)
    return caught.value.problems


def the_problem(folder: Path, text: str, *overrides: str) -> Problem:
    found = problems(folder, text, *overrides)
    assert len(found) == 1, found
    return found[0]
