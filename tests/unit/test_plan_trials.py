"""Order, names and length of the trials of a plan."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.plan import Plan, load_plan, planned_trials, time_needed_s
from pgdyno.plan.trials import trials_in_recorded_order


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


def test_order_and_slugs_of_a_plan_that_varies_everything() -> None:
    sweep = {"clients": [2, 4], "workers": [1, 2], "protocol": ["simple", "prepared"], "scale": [1, 10]}
    trials = planned_trials(plan(sweep, targets=("a", "b"), duration="1s", repeats=2, order="as-listed"))
    assert [trial.slug for trial in trials[:5]] == [
        "0001-a-c2-w1-simple-s1",
        "0002-a-c4-w1-simple-s1",
        "0003-a-c2-w2-simple-s1",
        "0004-a-c4-w2-simple-s1",
        "0005-a-c2-w1-prepared-s1",
    ]
    assert trials[8].slug == "0009-a-c2-w1-simple-s10"
    assert trials[16].slug == "0017-b-c2-w1-simple-s1"
    assert [trial.repeat for trial in trials] == [1] * 32 + [2] * 32
    assert trials[32].slug == "0033-a-c2-w1-simple-s1"


def test_only_what_varies_is_named() -> None:
    trials = planned_trials(plan({"clients": [1, 8], "workers": 1, "protocol": "prepared", "scale": 5}))
    assert [trial.slug for trial in trials] == ["0001-pg18-c1", "0002-pg18-c8"]
    assert [(trial.point.workers, trial.point.protocol, trial.point.scale) for trial in trials] == [
        (1, "prepared", 5)
    ] * 2


def test_defaults_for_what_the_sweep_does_not_set() -> None:
    (trial,) = planned_trials(plan({"clients": 3}))
    assert (trial.point.workers, trial.point.protocol, trial.point.scale) == (None, "simple", 10)


def test_time_needed() -> None:
    swept = {"clients": [1, 2, 4]}
    assert time_needed_s(plan(swept, targets=("a", "b"), warmup="500ms", duration="2s", repeats=3)) == 3 * 2 * 3 * 2.5
    assert time_needed_s(plan(swept, transactions=10)) is None


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


def test_the_quick_plan_is_quick() -> None:
    quick = load_plan("quick").plan
    assert len(planned_trials(quick)) == 18
    assert time_needed_s(quick) == pytest.approx(90)


@given(
    clients=st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True),
    workers=st.none() | st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    scale=st.none() | st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    repeats=st.integers(1, 3),
)
def test_slugs_are_distinct_and_fit_every_file_system(
    clients: list[int], workers: list[int] | None, scale: list[int] | None, repeats: int
) -> None:
    sweep = {"clients": clients, "workers": workers, "scale": scale, "protocol": ["simple", "extended"]}
    trials = planned_trials(plan(sweep, targets=("a", "b" * 64), duration="1s", repeats=repeats))
    assert len({trial.slug for trial in trials}) == len(trials)
    assert len({(trial.target, trial.point.model_dump_json(), trial.repeat) for trial in trials}) == len(trials)
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    for trial in trials:
        assert len(f".{trial.slug}.partial") < 255
        assert all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in trial.slug)
