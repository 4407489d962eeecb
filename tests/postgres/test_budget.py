"""Runs within a time budget, on a clock of their own: what does not fit is left out, and the run says so."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.experiment import Finished, run_experiment
from pgdyno.experiment.limits import budget_left
from pgdyno.experiment.limits.budget_left import BudgetLeft
from pgdyno.plan import load_plan
from pgdyno.plan.time_budget.budget import Budget, Room
from pgdyno.plan.time_budget.time_and_disk import FILE
from pgdyno.records import Outcome
from pgdyno.report.run_events import Noted, RunEnded, RunEvent
from pgdyno.report.terminal.progress import LiveView
from pgdyno.store import RunFolder
from pgdyno.targets import Home
from tests.postgres.runs import engines, fast_plan, pgdyno, postmasters, the_run
from tests.present import present

TRIAL = 'duration = "200ms"\nrepeats = {repeats}\norder = "as-listed"'
PLAN = fast_plan('scripts = ["one.sql"]\ndataset = "none"', "clients = {clients}\nrate = 200", TRIAL)
LOADING = fast_plan('scripts = ["select-only"]\nscale = 1', "clients = {clients}\nrate = 200", TRIAL)
TPCH = fast_plan(
    'name = "tpch"\nscale_factor = 0.01', "clients = {clients}", 'repeats = {repeats}\norder = "as-listed"'
)
GIB = 1024**3


class Seen(LiveView):
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def event(self, event: RunEvent) -> None:
        self.events.append(event)

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Noted)]


Runner = Callable[..., tuple[Finished, Seen]]


@pytest.fixture
def run(warm_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("PGDYNO_HOME", str(warm_home.path))
    (tmp_path / "one.sql").write_text("SELECT 1;\n")

    def within(
        seconds: float, clock: Callable[[], float], clients: str = "[1, 2, 4]", repeats: int = 2, text: str = PLAN
    ) -> tuple[Finished, Seen]:
        (tmp_path / "within.toml").write_text(text.replace("{clients}", clients).replace("{repeats}", str(repeats)))
        loaded = load_plan(tmp_path / "within.toml")
        budget = Budget(loaded.plan, Room(seconds, 8 * GIB, 8 * GIB))
        monkeypatch.setattr("pgdyno.experiment.resources.BudgetLeft", partial(BudgetLeft, clock=clock))
        view = Seen()
        loaded = replace(loaded, budget=budget)
        return run_experiment(loaded, tmp_path / "pgdyno-runs", view, check_first=False), view

    return within


def twenty_seconds_a_trial(runs: Path) -> Callable[[], float]:
    """A clock on which every stored trial has taken 20 s."""
    return lambda: 20.0 * len(list(runs.glob("*/trials/*")))


def test_points_that_do_not_fit_are_named_and_left_to_a_resume(warm_home: Home, tmp_path: Path, run: Runner) -> None:
    finished, view = run(90, twenty_seconds_a_trial(tmp_path / "pgdyno-runs"))
    assert (finished.stopped, finished.failed) == (None, [])
    manifest, trials = RunFolder.open(finished.folder.path).manifest, finished.folder.trials()
    assert manifest.outcome is Outcome.FINISHED
    assert manifest.attempts[-1].ended == "completed within its budget"
    assert present(manifest.budget).seconds == 90
    assert [trial.point.clients for trial in trials] == [1, 4, 1, 4]
    assert sorted([*(trial.slug for trial in trials), *present(manifest.budget).dropped]) == manifest.order
    left_out = "completed within the budget of 1 min 30 s; 1 point is not measured: 2 clients"
    assert left_out in manifest.notes
    assert RunEnded("completed within its budget", Outcome.FINISHED) in view.events
    assert view.notes[-1] == f"to measure what was left out: pgdyno run --resume {finished.folder.path}"
    assert left_out.capitalize() in " ".join(pgdyno(warm_home, tmp_path, "show").stdout.split())
    assert "finished within its budget" in pgdyno(warm_home, tmp_path, "list").stdout
    pgdyno(warm_home, tmp_path, "run", "--resume", "latest", "--json", code=ExitCode.OK)
    folder = the_run(tmp_path)
    assert [trial.slug for trial in folder.trials()] == manifest.order
    assert (folder.manifest.budget, folder.manifest.outcome) == (None, Outcome.FINISHED)


def test_repeats_that_do_not_fit_are_counted(tmp_path: Path, run: Runner) -> None:
    finished, _ = run(50, twenty_seconds_a_trial(tmp_path / "pgdyno-runs"), "1", 3)
    assert len(finished.records) == 2
    manifest = RunFolder.open(finished.folder.path).manifest
    assert "completed within the budget of 50 s, without 1 repeat of its points" in manifest.notes
    assert present(manifest.budget).dropped == manifest.order[2:]


@pytest.mark.long
def test_a_trial_of_tpch_that_exceeds_the_budget_is_left_out(warm_home: Home, tmp_path: Path, run: Runner) -> None:
    def clock() -> float:
        has_begun = any(tmp_path.glob("pgdyno-runs/*/.0002-*.partial/log/engine.log"))
        return 1000.0 if has_begun else 0.0

    finished, view = run(90, clock, "1", 2, TPCH)
    assert (finished.stopped, finished.failed) == (None, [])
    manifest = RunFolder.open(finished.folder.path).manifest
    assert [trial.slug for trial in finished.folder.trials()] == manifest.order[:1]
    assert present(manifest.budget).dropped == manifest.order[1:]
    assert RunEnded("completed within its budget", Outcome.FINISHED) in view.events
    assert (engines(warm_home), postmasters(warm_home)) == (set(), [])


def test_a_load_that_is_too_slow_for_the_budget_ends_the_run_and_the_next_one_knows_its_rate(
    warm_home: Home, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_left, "FIRST_RATE_S", 0.0)
    passed = {"s": 0.0}
    check_load = BudgetLeft.check_load

    def slow(left: BudgetLeft, rows: int, per_s: float, left_s: float) -> None:
        passed["s"] += 30
        check_load(left, rows, per_s / 1e6, left_s)

    monkeypatch.setattr(BudgetLeft, "check_load", slow)
    finished, view = run(60, lambda: passed["s"], text=LOADING)
    assert present(finished.stopped).startswith("loading would take about ")
    assert finished.records == []
    assert RunFolder.open(finished.folder.path).manifest.outcome is Outcome.INTERRUPTED
    assert any(note.startswith("hint: run the same command again") for note in view.notes)
    assert list(json.loads((warm_home.root / FILE).read_text())) == ["pgbench into embedded"]
    assert postmasters(warm_home) == []
