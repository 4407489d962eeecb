"""The trials of a plan and their order: each once, balanced arms, and few changes of what is expensive to change."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.plan import Plan, load_plan, planned_trials, time_needed_s
from pgdyno.plan.sweeps.order import Order, Place, arm, by_chance, in_order, resolved_order
from pgdyno.plan.trials import trials_in_recorded_order
from pgdyno.records import Point

ORDERS: list[Order] = ["interleaved", "randomised", "as-listed"]


def swept(clients: int, scales: int, settings: int) -> list[Point]:
    return [
        Point(clients=each, scale=scale, settings={"work_mem": f"{setting}MB"} if settings else {})
        for scale in range(1, scales + 1)
        for setting in range(max(settings, 1))
        for each in range(1, clients + 1)
    ]


def changes(values: list[object]) -> int:
    return sum(before != after for before, after in pairwise(values))


@dataclass(frozen=True)
class Planned:
    targets: list[str]
    points: list[Point]
    repeats: int
    seed: int

    def places(self, order: Order) -> list[Place]:
        return in_order(order, self.targets, self.points, self.repeats, self.seed)

    @property
    def compares(self) -> bool:
        return resolved_order(None, self.targets, self.points) == "interleaved"


plans = st.builds(
    Planned,
    st.integers(1, 3).map(lambda count: ["a", "b", "c"][:count]),
    st.builds(swept, st.integers(1, 4), st.integers(1, 3), st.integers(0, 3)),
    st.integers(1, 5),
    st.integers(0, 2**31),
)


@given(order=st.sampled_from(ORDERS), plan=plans)
def test_every_order_has_each_trial_once_in_growing_blocks(order: Order, plan: Planned) -> None:
    places = plan.places(order)
    keys = [(at.target, at.point.model_dump_json(), at.repeat) for at in places]
    assert len(keys) == len(set(keys)) == len(plan.targets) * len(plan.points) * plan.repeats
    assert {at.repeat for at in places} == set(range(1, plan.repeats + 1))
    assert places == plan.places(order)
    assert places[0].block == 1
    assert all(after.block - before.block in (0, 1) for before, after in pairwise(places))
    if not by_chance(order, plan.targets, plan.points):
        assert places == in_order(order, plan.targets, plan.points, plan.repeats, plan.seed + 1)


@given(order=st.sampled_from(["interleaved", "randomised"]), plan=plans)
def test_a_dataset_is_loaded_once_a_target_and_blocks_hold_every_arm_once(order: Order, plan: Planned) -> None:
    places = plan.places(order)
    scales: list[object] = [at.point.scale for at in places]
    assert changes(scales) == len(set(scales)) - 1 or not plan.compares
    for _, group in groupby(places if plan.compares or order == "randomised" else [], key=lambda at: at.block):
        block = list(group)
        assert len({(at.repeat, at.point.model_dump_json(exclude={"settings"})) for at in block}) == 1
        assert len({arm(at.target, at.point) for at in block}) == len(block)


@pytest.mark.parametrize("settings", [2, 3])
def test_interleaved_arms_are_drawn_for_each_repeat(settings: int) -> None:
    """Whatever the period of a disturbance, it meets each arm about as often: no arm has a fixed place."""
    places = in_order("interleaved", ["a"], swept(1, 1, settings), 1_000, 1)
    for period in range(2, 9):
        met = Counter(arm(at.target, at.point) for at in places[::period])
        share = len(places[::period]) / settings
        assert all(abs(count - share) < 4 * share**0.5 for count in met.values())


@pytest.mark.parametrize(("order", "settings"), [("interleaved", 2), ("interleaved", 3), ("randomised", 2)])
def test_seeds_matter_where_there_is_chance(order: Order, settings: int) -> None:
    assert len({str(in_order(order, ["a"], swept(3, 1, settings), 4, seed)) for seed in range(10)}) > 5


def test_interleaved_repeats_go_through_all_points_that_can_be_interleaved() -> None:
    places = in_order("interleaved", ["a", "b"], swept(2, 1, 0), 4, 1)
    assert [(at.point.clients, at.repeat, at.block) for at in places[::2]] == [
        (1, 1, 1), (2, 1, 2), (1, 2, 3), (2, 2, 4), (1, 3, 5), (2, 3, 6), (1, 4, 7), (2, 4, 8),
    ]  # fmt: skip
    listed = in_order("as-listed", ["a"], swept(3, 2, 2), 1, 1)
    assert changes([arm(at.target, at.point) for at in listed]) == 3
    alone = [Point(clients=each, settings={"max_connections": str(each)}) for each in (1, 2, 3)]
    assert resolved_order(None, ["a"], alone) == "as-listed"
    assert resolved_order(None, ["a", "b"], alone) == "interleaved"
    assert resolved_order("randomised", ["a"], alone) == "randomised"
    assert in_order("interleaved", ["a"], alone, 2, 1) == in_order("as-listed", ["a"], alone, 2, 1)


def plan(sweep: dict[str, Any], *, targets: tuple[str, ...] = ("pg18",), **trial: object) -> Plan:
    return Plan.model_validate(
        {
            "name": "p",
            "target": {name: {"kind": "embedded", "version": "18"} for name in targets},
            "workload": {"scripts": ["select-only"], "scale": 10},
            "sweep": sweep,
            "trial": trial or {"duration": "10s"},
        }
    )


def test_slugs_name_in_order_what_varies_and_the_rest_has_defaults() -> None:
    sweep = {"clients": [2, 4], "workers": [1, 2], "protocol": ["simple", "prepared"], "scale": [1, 10]}
    trials = planned_trials(plan(sweep, targets=("a", "b"), duration="1s", repeats=2, order="as-listed"))
    assert [trial.slug for trial in (*trials[:5], trials[8], trials[16], trials[32])] == [
        "0001-a-c2-w1-simple-s1", "0002-a-c4-w1-simple-s1", "0003-a-c2-w2-simple-s1", "0004-a-c4-w2-simple-s1",
        "0005-a-c2-w1-prepared-s1", "0009-a-c2-w1-simple-s10", "0017-b-c2-w1-simple-s1", "0033-a-c2-w1-simple-s1",
    ]  # fmt: skip
    assert [trial.repeat for trial in trials] == [1] * 32 + [2] * 32
    assert [trial.number for trial in trials] == list(range(1, 65))
    assert len({trial.slug for trial in trials}) == 64
    # they fit every file system
    (longest, *_) = planned_trials(plan({**sweep, "scale": [1, 2**31 - 1]}, targets=("b" * 64,), duration="1s"))
    assert re.fullmatch("[A-Za-z0-9_-]{1,240}", longest.slug)
    one, other = planned_trials(plan({"clients": [1, 8], "workers": 1, "protocol": "prepared", "scale": 5}))
    assert (one.slug, other.slug) == ("0001-pg18-c1", "0002-pg18-c8")
    assert (one.point.workers, one.point.protocol, one.point.scale) == (1, "prepared", 5)
    (trial,) = planned_trials(plan({"clients": 3}))
    assert (trial.point.workers, trial.point.protocol, trial.point.scale) == (None, "simple", 10)


def test_the_time_that_is_needed() -> None:
    clients = {"clients": [1, 2, 4]}
    assert time_needed_s(plan(clients, targets=("a", "b"), warmup="500ms", duration="2s", repeats=3)) == 3 * 2 * 3 * 2.5
    assert time_needed_s(plan(clients, transactions=10)) is None
    quick = load_plan("quick").plan
    assert len(planned_trials(quick)) == 18
    assert time_needed_s(quick) == pytest.approx(90)


def test_the_order_of_an_earlier_version_is_kept() -> None:
    """Two arms ran A B B A before their order was drawn."""
    trials = planned_trials(plan({"clients": [1, 2]}, targets=("a", "b"), repeats=2, order="interleaved"), 1)
    slugs = [f"{at:04d}-{arm}-c{clients}" for at, (clients, arm) in enumerate(product((1, 2), "abba"), start=1)]
    ordered = trials_in_recorded_order(trials, slugs)
    assert [trial.slug for trial in ordered] == slugs
    assert [(trial.number, trial.target, trial.repeat) for trial in ordered[:4]] == [
        (1, "a", 1), (2, "b", 1), (3, "b", 2), (4, "a", 2),
    ]  # fmt: skip
    for wrong in (slugs[:-1], [*slugs, "0009-a-c1"], [*slugs[:-1], "0008-a-c3"]):
        with pytest.raises(ValueError, match="of the plan"):
            trials_in_recorded_order(trials, wrong)
