"""Runs whose number of repeats depends on results: their plans, and the trials that they still need."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pgdyno.experiment.stopping import Looks, stopping_rule
from pgdyno.plan import PlannedTrial, planned_trials
from pgdyno.plan.output.plan_output import total
from pgdyno.plan.time_budget.budget import Fitted, Room, fit
from pgdyno.records import Manifest, StoppingRule
from pgdyno.report.run_events import Looked
from pgdyno.report.terminal.progress import look_line
from tests.present import present
from tests.unit.plan_sample import load, problems, refuse, small_plan
from tests.unit.report_sample import SampleRun, add_trial, manifest

# ---- plans ----

TWO = small_plan(sweep="clients = [1, 8]", trial='duration = "10s"\nrepeats = "6..40"', a="18", b="17")


def test_the_largest_number_is_planned_and_shown_as_such(tmp_path: Path) -> None:
    plan = load(tmp_path, TWO + 'margin = "2%"\n')
    assert (plan.trial.fewest_repeats, plan.trial.most_repeats, plan.trial.margin) == (6, 40, "2%")
    assert len(planned_trials(plan)) == 2 * 2 * 40
    shown = total(plan)
    assert shown.startswith("at most 160 trials, ")
    assert "each point stops when it is decided, after 6 to 40 repeats" in shown
    assert "margin" not in load(tmp_path, TWO).as_resolved()["trial"]


def test_a_range_of_repeats_needs_two_arms_no_search_and_a_sensible_margin(tmp_path: Path) -> None:
    for old, new, message in (
        ('"6..40"', '"5..40"', "write a range from 6 or more to 1,000 or less"),
        ('"6..40"', '"6..6"', "write a range from 6 or more"),
        ('"6..40"', '"6..2000"', "to 1,000 or less"),
        ('"6..40"', '"40"', "write a number, such as 6, or a range"),
        ('"6..40"', "0", "must be at least 1"),
        ('"6..40"', "true", "write a number"),
        ('"6..40"', '6\nmargin = "2%"', "margin is valid only with a range of repeats"),
        ('version = "18"', 'version = "18"\ninstances = 3', "the interval is one of the 3 instances of target a"),
    ):
        path = "trial" if "margin" in new else "trial.repeats"
        refuse(tmp_path, TWO.replace(old, new), path, message)
    text = TWO.replace('[target.b]\nkind = "embedded"\nversion = "17"\n', "")
    said = "is 6..40, but the plan has one arm, so there is nothing to compare"
    assert refuse(tmp_path, text, "trial.repeats", said).message == said
    # settings are arms, too
    arms = text.replace("[trial]", 'settings.work_mem = ["4MB", "64MB"]\n[trial]')
    assert load(tmp_path, arms).trial.most_repeats == 40
    found = problems(tmp_path, TWO + '[search]\nfind = "peak"\n')
    assert "a search has no range of repeats" in [each.message for each in found if each.path == "trial.repeats"]
    said = "'0.5%' is not a margin"
    assert refuse(tmp_path, TWO + 'margin = "0.5%"\n', "trial.margin", said).message == said


def test_a_budget_lowers_the_largest_number_first(tmp_path: Path) -> None:
    def fitted(text: str, seconds: int) -> Fitted:
        return fit(load(tmp_path, text), Room(seconds, memory_bytes=1 << 34, disk_bytes=1 << 38))

    long = fitted(TWO, 1_000)
    trial = long.plan.trial
    assert (trial.duration, trial.fewest_repeats) == (10, 6)
    assert 6 < trial.most_repeats < 40
    assert [str(each) for each in long.gave_up] == [f"{trial.repeats} repeats instead of 6..40"]
    # a small one leaves a fixed number
    short = fitted(TWO + 'margin = "2%"\n', 230)
    assert (short.plan.trial.repeats, short.plan.trial.margin) == (6, None)
    assert "no margin instead of 2%, because the number of repeats is fixed" in map(str, short.gave_up)


# ---- the trials that a run still needs ----

PLAN = small_plan(
    sweep="clients = [2, 8]",
    trial='duration = "10s"\norder = "interleaved"\nseed = 1\nrepeats = "6..20"\nmargin = "2%"',
    a="18",
    b="18",
    c="18",
)
ONE = PLAN.replace("clients = [2, 8]", "clients = 2")
Rate = Callable[[PlannedTrial], float]


def planned(folder: Path, text: str) -> tuple[StoppingRule, Manifest, list[PlannedTrial]]:
    plan = load(folder, text)
    trials = planned_trials(plan)
    about = manifest(list(plan.target), plan=plan.as_resolved())
    rule = present(stopping_rule(plan, about, trials))
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


def counts(run: SampleRun) -> Counter[tuple[str, int]]:
    return Counter((trial.target, trial.point.planned_clients) for trial in run.trials)


def test_the_rule_is_what_compare_shows_by_default(tmp_path: Path) -> None:
    rule, _, _ = planned(tmp_path, PLAN)
    assert (rule.by, rule.metric, rule.comparisons, rule.margin) == ("target", "tps", 4, 0.02)
    open_loop, _, _ = planned(tmp_path, PLAN.replace("[trial]", "rate = 100\n[trial]"))
    assert open_loop.metric == "p99"


def test_decided_points_get_no_more_trials_and_the_others_continue(tmp_path: Path) -> None:
    rule, about, trials = planned(tmp_path, PLAN)
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
    # a run that is resumed decides the same: each attempt begins with what is stored
    parts = SampleRun(about)
    for _ in range(10):
        measured(parts, Looks(rule, trials, lambda: parts), trials, noisy, most=11)
    assert [(trial.target, trial.repeat) for trial in parts.trials] == [
        (trial.target, trial.repeat) for trial in run.trials
    ]
    assert counts(parts) == of


def test_a_run_that_is_decided_says_after_how_many_and_failed_trials_cost_a_pair(tmp_path: Path) -> None:
    rule, about, trials = planned(tmp_path, ONE)
    run = SampleRun(about)
    looks = Looks(rule, trials, lambda: run)
    measured(run, looks, trials, noisy)
    assert looks.ended == "decided"
    last = max(counts(run).values())
    span = f"6 to {last}" if last > 6 else "6"
    assert str(looks.summary) == f"stopped after {span} of at most 20 repeats: decided"
    rule, about, trials = planned(tmp_path, ONE)
    run = SampleRun(about)
    looks = Looks(rule, trials, lambda: run)
    found = measured(run, looks, [trial for trial in trials if (trial.target, trial.repeat) != ("c", 3)], noisy)
    assert [each.pairs for each in found if each.arm == "c"][-1] == 6
    assert counts(run)["c", 2] == 6
    assert max(trial.repeat for trial in run.trials if trial.target == "c") == 7
