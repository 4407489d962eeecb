"""A baseline that is measured twice in each block: how it is planned, pooled, and compared with itself."""

import math
from collections import Counter, defaultdict
from itertools import groupby
from pathlib import Path

import pytest

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.gate import GateVerdict, gate
from pgdyno.analyse.pairs import Metric, within
from pgdyno.commands.comparison.ab_answer import verdict_line
from pgdyno.errors import PlanError
from pgdyno.experiment.stopping import Looks
from pgdyno.plan import Plan, PlannedTrial, planned_trials
from pgdyno.plan.loaded_plan import load_text
from pgdyno.plan.time_budget.time_and_disk import trial_count
from pgdyno.plan.trials import time_needed_s, trials_in_recorded_order
from pgdyno.records import Outcome, StoppingRule
from pgdyno.report.answers.comparison import comparison_sentence, confounded_line
from tests.present import present
from tests.unit.plan_sample import small_plan
from tests.unit.report_sample import SampleRun, add_trial, manifest

PLAN = small_plan(sweep="clients = [1, 8]", trial='duration = "10s"\nrepeats = 6\ncontrol = true', a="18", b="17")


def loaded(text: str = PLAN) -> Plan:
    return load_text(text, Path(), "plan.toml").plan


def test_each_block_has_the_baseline_twice_at_balanced_places() -> None:
    plan = loaded(PLAN.replace("clients = [1, 8]", 'clients = 1\n[sweep.settings]\nwork_mem = ["4MB", "8MB"]'))
    trials = planned_trials(plan, seed=3)
    assert len(trials) == 6 * 5 == trial_count(plan, plan.points())
    assert time_needed_s(plan) == 300
    places: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for _, of_block in groupby(trials[:25], lambda trial: trial.block):
        arms = [(each.target, each.point.settings["work_mem"], each) for each in of_block]
        twice = [each for target, memory, each in arms if (target, memory) == ("a", "4MB")]
        assert [each.control for each in twice] == [False, True]
        assert twice[1].slug.endswith("-control")
        for at, (target, memory, _) in enumerate(arms):
            places[target, memory][at] += 1
    # in as many blocks as a block has trials, each arm is once at each place, and the baseline twice
    counts = {arm: set(of_arm.values()) for arm, of_arm in places.items()}
    assert counts == {("a", "4MB"): {2}, ("a", "8MB"): {1}, ("b", "4MB"): {1}, ("b", "8MB"): {1}}
    assert planned_trials(plan, seed=4) != trials
    recorded = [each.slug for each in trials]
    assert trials_in_recorded_order(planned_trials(plan, seed=4), recorded)[3].control == trials[3].control
    # the plan keeps it, and one without has no such key
    assert Plan.from_resolved(plan.as_resolved()).trial.control
    assert "control" not in loaded(PLAN.replace("control = true", "")).as_resolved()["trial"]


def test_a_control_needs_blocks_of_several_arms() -> None:
    for change, complaint in (
        (("repeats = 6", 'repeats = 6\norder = "duet"'), 'order = "duet"'),
        (("repeats = 6", 'repeats = 6\norder = "as-listed"'), 'order = "as-listed"'),
        (('[target.b]\nkind = "embedded"\nversion = "17"\n', ""), "needs two arms"),
        (("[trial]", '[search]\nfind = "peak"\n[trial]'), "is not possible in a search"),
    ):
        with pytest.raises(PlanError) as caught:
            loaded(PLAN.replace(*change))
        found = [each for each in caught.value.problems if each.path == "trial.control"]
        assert len(found) == 1
        assert complaint in found[0].message
        assert found[0].hint


def a_run(later: float = 1.0, other: float = 1.0, repeats: int = 8) -> SampleRun:
    """A run whose baseline is `later` times as fast in the second trial of a block, and whose other arm is `other`
    times as fast as in the first.
    """
    run = SampleRun(manifest(("a", "b"), trials_planned=3 * repeats))
    for repeat in range(1, repeats + 1):
        drift = 1 + 0.05 * repeat + 0.002 * (repeat % 3)
        for target, factor, control in (("a", 1.0, False), ("b", other, False), ("a", later, True)):
            noise = 1 + 0.001 * ((7 * repeat + len(run.trials)) % 5)
            add_trial(run, target, 8, 1000 * drift * factor * noise, 900, repeat=repeat)
            run.trials[-1] = run.trials[-1].model_copy(update={"control": control})
    return run


def test_the_figure_of_a_baseline_is_the_mean_of_both_trials_of_a_whole_block() -> None:
    run = a_run(later=1.21)
    (arms,) = within(run, "target", Metric.TPS)
    first = [present(each.summary).tps for each in run.trials if each.repeat == 1]
    assert arms.points[0].base[1] == pytest.approx(math.sqrt(first[0] * first[2]))
    assert arms.points[0].other[1] == first[1]
    assert (arms.base, arms.other, len(present(arms.control).points)) == ("a", "b", 1)
    (swapped,) = within(run, "target", Metric.TPS, base="b")
    assert swapped.points[0].log_ratio(1) == pytest.approx(-arms.points[0].log_ratio(1))
    assert present(swapped.control).points == present(arms.control).points
    run = a_run()
    for number in (3, 4):
        # the control of the first block, the baseline of the second
        run.trials[number - 1] = run.trials[number - 1].model_copy(update={"outcome": Outcome.FAILED})
    (arms,) = within(run, "target", Metric.TPS, removed={9})
    assert arms.points[0].repeats == [4, 5, 6, 7, 8]
    assert present(arms.control).points[0].repeats == [4, 5, 6, 7, 8]
    run.trials[:] = [each for each in run.trials if not each.control]
    assert within(run, "target", Metric.TPS)[0].control is None


def test_a_baseline_that_differs_from_itself_decides_nothing() -> None:
    for later, other, verdict in (
        (1.0, 1.0, GateVerdict.OK), (1.0, 0.9, GateVerdict.REGRESSION), (0.9, 0.8, GateVerdict.UNDECIDABLE),
        (1.1, 1.0, GateVerdict.UNDECIDABLE),
    ):  # fmt: skip
        (arms,) = within(a_run(later, other), "target", Metric.TPS)
        judged = gate(arms, 0.03)
        assert judged.verdict is verdict
        is_unequal = verdict is GateVerdict.UNDECIDABLE
        assert (judged.comparison.unequal_control is not None) is is_unequal
        assert (judged.control_pairs is not None) is is_unequal
        (compared,) = compare([arms])
        assert (compared.unequal_control is not None) is is_unequal
        assert (present(compared.chief).verdict is Verdict.INCONCLUSIVE) is is_unequal
        assert ("a differs from itself" in verdict_line(compared)) is is_unequal
        assert ((confounded_line(compared) or "").startswith("This machine cannot decide: ")) is is_unequal
        assert ("control: a vs itself" in comparison_sentence(compared)) is not is_unequal


def test_a_run_that_stops_when_decided_measures_whole_blocks() -> None:
    rule = StoppingRule(fewest=6, most=40, by="target", metric="tps", comparisons=1, margin=0.01)
    run, whole = a_run(other=0.8, repeats=7), a_run(other=0.8)
    run.manifest = run.manifest.model_copy(update={"stopping": rule})
    planned = [
        PlannedTrial(each.number, each.slug, each.target, each.point, each.repeat, control=each.control)
        for each in run.trials
    ]
    del run.trials[17:]
    looks = Looks(rule, planned, lambda: run)
    # the control of the sixth block is missing
    assert looks.needs(planned[17])
    run.trials.append(whole.trials[17])
    assert [each.verdict for each in looks.look()] == [Verdict.SLOWER.value]
    assert not looks.needs(planned[18])
