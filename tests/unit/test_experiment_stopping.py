"""Which trials a run that stops when decided still needs, computed from the stored trials."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pgdyno.experiment.stopping import Looks, stopping_rule
from pgdyno.plan import PlannedTrial, planned_trials
from pgdyno.plan.loaded_plan import load_text
from pgdyno.records import Manifest, StoppingRule
from pgdyno.report.run_events import Looked
from pgdyno.report.terminal.progress import look_line
from tests.unit.plan_sample import small_plan
from tests.unit.report_sample import SampleRun, add_trial, manifest

PLAN = small_plan(
    sweep="clients = [2, 8]",
    trial='duration = "10s"\norder = "interleaved"\nseed = 1\nrepeats = "6..20"\nmargin = "2%"',
    a="18",
    b="18",
    c="18",
)
Rate = Callable[[PlannedTrial], float]


def planned(text: str = PLAN) -> tuple[StoppingRule, Manifest, list[PlannedTrial]]:
    plan = load_text(text, Path(), "plan.toml").plan
    trials = planned_trials(plan)
    about = manifest(list(plan.target), plan=plan.as_resolved())
    rule = stopping_rule(plan, about, trials)
    assert rule is not None
    return rule, about.model_copy(update={"stopping": rule}), trials


def measured(run: SampleRun, looks: Looks, trials: list[PlannedTrial], rate: Rate, most: int = 1_000) -> list[Looked]:
    """Runs the trials that are needed, at most so many; returns the looks."""
    found = []
    done = {(trial.target, trial.point.planned_clients, trial.repeat) for trial in run.trials}
    for trial in trials:
        place = (trial.target, trial.point.planned_clients, trial.repeat)
        if most and place not in done and looks.needs(trial):
            most -= 1
            at = {"repeat": trial.repeat, "point": trial.point}
            add_trial(run, trial.target, trial.point.planned_clients, rate(trial), 100.0, seconds=1, **at)  # type: ignore[arg-type]
            found += looks.look()
    return found


def noisy(trial: PlannedTrial) -> float:
    """c is 30 % faster; b is as fast as a at 2 clients, and too noisy to tell at 8."""
    spread = 0.2 if (trial.target, trial.point.planned_clients) == ("b", 8) else 0.003
    chance = np.random.default_rng([trial.number, 7])
    return 1_000 * (1.3 if trial.target == "c" else 1.0) * float(np.exp(chance.normal(0, spread)))


def counts(run: SampleRun) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for trial in run.trials:
        place = trial.target, trial.point.planned_clients
        found[place] = found.get(place, 0) + 1
    return found


def test_the_rule_is_what_compare_shows_by_default() -> None:
    rule, _, _ = planned()
    assert (rule.by, rule.metric, rule.comparisons, rule.margin) == ("target", "tps", 4, 0.02)
    open_loop, _, _ = planned(PLAN.replace("[trial]", "rate = 100\n[trial]"))
    assert open_loop.metric == "p99"


def test_decided_points_get_no_more_trials_and_the_others_continue() -> None:
    rule, about, trials = planned()
    run = SampleRun(about)
    looks = Looks(rule, trials, lambda: run)
    found = measured(run, looks, trials, noisy)
    of = counts(run)
    # c is decided at the first looks; the baseline is needed as long as b
    assert of["c", 2] == of["c", 8] == 6
    assert of["b", 2] == of["a", 2] < 20
    assert of["b", 8] == of["a", 8] == 20
    assert looks.ended == "undecided"
    assert str(looks.summary) == "1 of 4 comparisons are undecided after 20 repeats"
    last = [each for each in found if (each.arm, each.point) == ("c", "2 clients")][-1]
    assert (last.pairs, last.verdict) == (6, "faster")
    assert look_line(last).startswith("c vs a at 2 clients: +30")
    assert look_line(last).endswith("6 of at most 20 pairs")


def test_a_run_that_is_resumed_decides_the_same() -> None:
    rule, about, trials = planned()
    whole, parts = SampleRun(about), SampleRun(about)
    measured(whole, Looks(rule, trials, lambda: whole), trials, noisy)
    for _ in range(40):
        # each attempt begins with what is stored
        measured(parts, Looks(rule, trials, lambda: parts), trials, noisy, most=7)
    assert counts(parts) == counts(whole)
    assert [(trial.target, trial.repeat) for trial in parts.trials] == [
        (trial.target, trial.repeat) for trial in whole.trials
    ]


def test_a_run_that_is_decided_says_after_how_many() -> None:
    rule, about, trials = planned(PLAN.replace("clients = [2, 8]", "clients = 2"))
    run = SampleRun(about)
    looks = Looks(rule, trials, lambda: run)
    measured(run, looks, trials, noisy)
    assert looks.ended == "decided"
    last = max(counts(run).values())
    span = f"6 to {last}" if last > 6 else "6"
    assert str(looks.summary) == f"stopped after {span} of at most 20 repeats: decided"


def test_failed_trials_cost_a_pair_and_no_look() -> None:
    rule, about, trials = planned(PLAN.replace("clients = [2, 8]", "clients = 2"))
    run = SampleRun(about)
    looks = Looks(rule, trials, lambda: run)
    found = measured(run, looks, [trial for trial in trials if (trial.target, trial.repeat) != ("c", 3)], noisy)
    assert [each.pairs for each in found if each.arm == "c"][-1] == 6
    assert counts(run)["c", 2] == 6
    assert max(trial.repeat for trial in run.trials if trial.target == "c") == 7
