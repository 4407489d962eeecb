"""Which loads get a profile after the trials of a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.experiment.trials.profiling import arms_to_profile
from pgdyno.plan import load_plan
from pgdyno.records import Point
from pgdyno.store import RunFolder
from tests.unit.report_sample import SampleRun, add_trial, manifest

PLAN = """\
name = "profiled"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
scripts = ["select-only"]
[sweep]
clients = {clients}
[trial]
duration = "5s"
[probe]
profile = true
"""
SEARCH = """\
[search]
find = "settings"
over.random_page_cost = "1..4"
"""


def profiled(folder: Path, plan: str, points: list[Point]) -> list[tuple[Point, float]]:
    """The points that a run of `plan` profiles, with their tps: 100 at the first one, 200 at the second …"""
    path = folder / "profiled.toml"
    path.write_text(plan)
    run = SampleRun(manifest())
    for number, point in enumerate(points, start=1):
        add_trial(run, "pg18", point.clients, 100.0 * number, 500, point=point)
    stored = SimpleNamespace(trials=lambda: run.trials, manifest=SimpleNamespace(profiles=[]))
    arms = arms_to_profile(load_plan(path).plan, cast("RunFolder", stored))
    return [(arm.trial.point, arm.tps) for arm in arms]


def test_an_arm_is_profiled_at_its_fastest_point(tmp_path: Path) -> None:
    points = [Point(clients=clients, protocol="simple") for clients in (1, 16, 4)]
    assert profiled(tmp_path, PLAN.format(clients="[1, 4, 16]"), points) == [(points[2], 300.0)]


@pytest.mark.parametrize("costs", [("1", "2", "3"), ("4",)])
def test_the_settings_that_a_search_tries_are_one_arm(tmp_path: Path, costs: tuple[str, ...]) -> None:
    points = [Point(clients=4, protocol="simple", settings={"random_page_cost": cost}) for cost in costs]
    found = profiled(tmp_path, PLAN.format(clients=4) + SEARCH, points)
    assert found == [(points[-1], 100.0 * len(points))]
