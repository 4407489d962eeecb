"""Plans whose number of repeats depends on results: keys, errors, and reductions by a budget."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan import LoadedPlan, Plan, planned_trials
from pgdyno.plan.loaded_plan import load_text
from pgdyno.plan.output.plan_output import total
from pgdyno.plan.time_budget.budget import Room, fit
from tests.unit.plan_sample import small_plan

TWO = small_plan(sweep="clients = [1, 8]", trial='duration = "10s"\nrepeats = "6..40"', a="18", b="17")


def loaded(text: str) -> LoadedPlan:
    return load_text(text, Path(), "plan.toml")


def problems(text: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        loaded(text)
    return [f"{each.path}: {each.message}" for each in caught.value.problems]


def test_the_largest_number_is_planned_and_shown_as_such() -> None:
    plan = loaded(TWO + 'margin = "2%"\n').plan
    assert (plan.trial.fewest_repeats, plan.trial.most_repeats, plan.trial.margin) == (6, 40, "2%")
    assert len(planned_trials(plan)) == 2 * 2 * 40
    shown = total(plan)
    assert shown.startswith("at most 160 trials, ")
    assert "each point stops when it is decided, after 6 to 40 repeats" in shown


def test_the_manifest_keeps_the_range() -> None:
    for text in (TWO, TWO + 'margin = "2%"\n', TWO.replace('"6..40"', "6")):
        plan = loaded(text).plan
        assert Plan.from_resolved(plan.as_resolved()).trial == plan.trial.model_copy(update={"order": plan.order()})
    assert "margin" not in loaded(TWO).plan.as_resolved()["trial"]


@pytest.mark.parametrize(
    ("repeats", "message"),
    [
        ('"5..40"', "write a range from 6 or more to 1,000 or less"),
        ('"6..6"', "write a range from 6 or more"),
        ('"6..2000"', "to 1,000 or less"),
        ('"40"', "write a number, such as 6, or a range"),
        ("0", "must be at least 1"),
        ("true", "write a number"),
    ],
)
def test_ranges_that_are_none(repeats: str, message: str) -> None:
    (problem,) = problems(TWO.replace('"6..40"', repeats))
    assert problem.startswith("trial.repeats: ")
    assert message in problem


def test_a_range_of_repeats_needs_two_arms() -> None:
    text = TWO.replace('[target.b]\nkind = "embedded"\nversion = "17"\n', "")
    (problem,) = problems(text)
    assert problem == "trial.repeats: is 6..40, but the plan has one arm, so there is nothing to compare"
    # settings are arms, too
    assert loaded(text.replace("[trial]", 'settings.work_mem = ["4MB", "64MB"]\n[trial]')).plan.trial.most_repeats == 40


def test_several_instances_and_searches_are_refused() -> None:
    (problem,) = problems(TWO.replace('version = "18"', 'version = "18"\ninstances = 3'))
    assert "the interval is one of the 3 instances of target a" in problem
    found = problems(TWO + '[search]\nfind = "peak"\n')
    assert "trial.repeats: a search has no range of repeats" in found


def test_a_margin_needs_a_range_and_a_sensible_size() -> None:
    (problem,) = problems(TWO.replace('"6..40"', '6\nmargin = "2%"'))
    assert "margin is valid only with a range of repeats" in problem
    (problem,) = problems(TWO + 'margin = "0.5%"\n')
    assert problem == "trial.margin: '0.5%' is not a margin"


def test_a_budget_lowers_the_largest_number_first() -> None:
    plan = loaded(TWO).plan
    room = Room(seconds=1_000, memory_bytes=1 << 34, disk_bytes=1 << 38)
    fitted = fit(plan, room)
    assert (fitted.plan.trial.duration, fitted.plan.trial.fewest_repeats) == (10, 6)
    assert 6 < fitted.plan.trial.most_repeats < 40
    assert [str(each) for each in fitted.gave_up] == [f"{fitted.plan.trial.repeats} repeats instead of 6..40"]


def test_a_small_budget_leaves_a_fixed_number() -> None:
    plan = loaded(TWO + 'margin = "2%"\n').plan
    fitted = fit(plan, Room(seconds=230, memory_bytes=1 << 34, disk_bytes=1 << 38))
    assert (fitted.plan.trial.repeats, fitted.plan.trial.margin) == (6, None)
    assert "no margin instead of 2%, because the number of repeats is fixed" in map(str, fitted.gave_up)
