"""Which loads get a profile after the trials of a run."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgdyno.experiment.trials.profiling import Profiles, arms_to_profile
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan, Plan, load_plan
from pgdyno.probe.perf import PerfError
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


def stored(folder: Path, plan: str, points: list[Point]) -> tuple[LoadedPlan, RunFolder]:
    """A plan and its run without a profile, with tps of 100 at the first point, 200 at the second …"""
    path = folder / "profiled.toml"
    path.write_text(plan)
    run = SampleRun(manifest())
    for number, point in enumerate(points, start=1):
        add_trial(run, "pg18", point.planned_clients, 100.0 * number, 500, point=point)
    of_run = SimpleNamespace(trials=lambda: run.trials, manifest=SimpleNamespace(profiles=[]))
    return load_plan(path), cast("RunFolder", of_run)


@dataclass(frozen=True)
class Context:
    """What profiles need of a run's context."""

    plan: Plan
    loaded: LoadedPlan
    folder: RunFolder


def profiled(folder: Path, plan: str, points: list[Point]) -> list[tuple[Point, float]]:
    loaded, run = stored(folder, plan, points)
    return [(arm.trial.point, arm.tps) for arm in arms_to_profile(loaded.plan, run)]


def test_an_arm_is_profiled_at_its_fastest_point(tmp_path: Path) -> None:
    points = [Point(clients=clients, protocol="simple") for clients in (1, 16, 4)]
    assert profiled(tmp_path, PLAN.format(clients="[1, 4, 16]"), points) == [(points[2], 300.0)]


@pytest.mark.parametrize("costs", [("1", "2", "3"), ("4",)])
def test_the_settings_that_a_search_tries_are_one_arm(tmp_path: Path, costs: tuple[str, ...]) -> None:
    points = [Point(clients=4, protocol="simple", settings={"random_page_cost": cost}) for cost in costs]
    found = profiled(tmp_path, PLAN.format(clients=4) + SEARCH, points)
    assert found == [(points[-1], 100.0 * len(points))]


def test_arms_that_are_left_out_for_one_reason_are_named_in_one_note(tmp_path: Path) -> None:
    points = [Point(clients=4, protocol="simple", settings={"work_mem": size}) for size in ("4MB", "64MB")]
    loaded, run = stored(tmp_path, PLAN.format(clients='4\nsettings.work_mem = ["4MB", "64MB"]'), points)
    notes: list[Message] = []

    def run_unstored(*_: object) -> None:
        raise PerfError("perf is not installed", hint="install its package")

    context = Context(loaded.plan, loaded, run)
    progress = SimpleNamespace(note_once=notes.append, set_up=lambda _: None, trials=[])
    profiles = Profiles(context, progress, None, lambda *_: SimpleNamespace(run_unstored=run_unstored))  # type: ignore[arg-type]
    profiles.take()
    assert list(map(str, notes)) == [
        "no profile of work_mem 4MB; work_mem 64MB: perf is not installed; install its package"
    ]
