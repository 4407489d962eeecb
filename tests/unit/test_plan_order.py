"""The order of trials: each once, balanced arms, and few changes of what is expensive to change."""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.plan.sweeps.order import Order, Place, arm, by_chance, in_order, resolved_order
from pgdyno.records import Point

ORDERS: list[Order] = ["interleaved", "randomised", "as-listed"]


def swept(clients: int, scales: int, settings: int) -> list[Point]:
    return [
        Point(clients=each, scale=scale, settings={"work_mem": f"{setting}MB"} if settings else {})
        for scale in range(1, scales + 1)
        for setting in range(max(settings, 1))
        for each in range(1, clients + 1)
    ]


def arms_of(places: list[Place]) -> str:
    """Returns a letter per arm, in the order of their first trials."""
    letters: dict[object, str] = {}
    return "".join(letters.setdefault(arm(at.target, at.point), chr(65 + len(letters))) for at in places)


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
def test_every_trial_comes_exactly_once(order: Order, plan: Planned) -> None:
    places = plan.places(order)
    keys = [(at.target, at.point.model_dump_json(), at.repeat) for at in places]
    assert len(keys) == len(set(keys)) == len(plan.targets) * len(plan.points) * plan.repeats
    assert {at.repeat for at in places} == set(range(1, plan.repeats + 1))


@given(order=st.sampled_from(ORDERS), plan=plans)
def test_the_same_seed_gives_the_same_order(order: Order, plan: Planned) -> None:
    assert plan.places(order) == plan.places(order)


@given(order=st.sampled_from(["interleaved", "randomised"]), plan=plans)
def test_a_dataset_is_loaded_once_a_target(order: Order, plan: Planned) -> None:
    scales: list[object] = [at.point.scale for at in plan.places(order)]
    assert changes(scales) == len(set(scales)) - 1 or not plan.compares


@given(order=st.sampled_from(["interleaved", "randomised"]), plan=plans)
def test_blocks_hold_every_arm_of_one_point_once(order: Order, plan: Planned) -> None:
    places = plan.places(order)
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


def test_interleaved_repeats_go_through_all_points() -> None:
    places = in_order("interleaved", ["a", "b"], swept(2, 1, 0), 4, 1)
    assert [(at.point.clients, at.repeat, at.block) for at in places[::2]] == [
        (1, 1, 1), (2, 1, 2), (1, 2, 3), (2, 2, 4), (1, 3, 5), (2, 3, 6), (1, 4, 7), (2, 4, 8),
    ]  # fmt: skip


def test_listed_settings_change_no_more_often_than_the_arms() -> None:
    listed = in_order("as-listed", ["a"], swept(3, 2, 2), 1, 1)
    assert changes([arm(at.target, at.point) for at in listed]) == 3


@given(order=st.sampled_from(ORDERS), plan=plans)
def test_orders_without_chance_do_not_depend_on_the_seed(order: Order, plan: Planned) -> None:
    if not by_chance(order, plan.targets, plan.points):
        assert plan.places(order) == in_order(order, plan.targets, plan.points, plan.repeats, plan.seed + 1)


@pytest.mark.parametrize(("order", "settings"), [("interleaved", 2), ("interleaved", 3), ("randomised", 2)])
def test_seeds_matter_where_there_is_chance(order: Order, settings: int) -> None:
    assert len({str(in_order(order, ["a"], swept(3, 1, settings), 4, seed)) for seed in range(10)}) > 5


def test_points_that_cannot_be_interleaved_are_not() -> None:
    alone = [Point(clients=each, settings={"max_connections": str(each)}) for each in (1, 2, 3)]
    assert resolved_order(None, ["a"], alone) == "as-listed"
    assert resolved_order(None, ["a", "b"], alone) == "interleaved"
    assert resolved_order("randomised", ["a"], alone) == "randomised"
    assert in_order("interleaved", ["a"], alone, 2, 1) == in_order("as-listed", ["a"], alone, 2, 1)


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_count_from_one_and_grow(order: Order) -> None:
    blocks = [at.block for at in in_order(order, ["a", "b"], swept(2, 2, 2), 3, 1)]
    assert blocks[0] == 1
    assert all(after - before in (0, 1) for before, after in pairwise(blocks))
