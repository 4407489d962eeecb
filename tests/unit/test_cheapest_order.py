"""The order in which the search for the cheapest target measures, against brute force over random families."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from simulations.cheapest import IDLE_MS, LIMIT_MS, outcome, search, verdict, world

from pgdyno.experiment.search.cheapest_order import Families, Verdict, next_target, open_targets

pytestmark = pytest.mark.slow


def drawn(source: random.Random) -> tuple[Families, dict[str, float], set[str]]:
    """Return families, prices, and the targets that keep the promise; prices of a family need not rise with size."""
    families, prices, keeps = [], {}, set()
    for name in "abcdef"[: source.randint(1, 6)]:
        family = [f"{name}{size}" for size in range(source.randint(1, 9))]
        price = source.uniform(1, 4)
        for target in family:
            prices[target] = round(price, 1)
            price *= source.choice((0.9, 1.0, 1.3, 2.0))
        keeps |= set(family[source.randint(0, len(family)) :])
        families.append(family)
    return families, prices, keeps


def measured(families: Families, prices: Mapping[str, float], keeps: set[str]) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {}
    while (target := next_target(families, prices, verdicts)) is not None:
        assert target in open_targets(families, prices, verdicts)
        # nothing dearer than a keeper and nothing smaller than a failure is tried
        kept = [each for each, verdict in verdicts.items() if verdict is Verdict.KEPT]
        assert prices[target] < cheapest(prices, kept)
        family = next(each for each in families if target in each)
        assert not any(verdicts.get(each) is Verdict.FAILED for each in family[family.index(target) :])
        verdicts[target] = Verdict.KEPT if target in keeps else Verdict.FAILED
    return verdicts


def cheapest(prices: Mapping[str, float], keeps: Sequence[str] | set[str]) -> float:
    return min((prices[each] for each in keeps), default=math.inf)


def test_the_answer_is_that_of_brute_force_in_no_more_trials_than_separate_bisections() -> None:
    source = random.Random(26)
    fewer = 0
    for _ in range(1_000):
        families, prices, keeps = drawn(source)
        verdicts = measured(families, prices, keeps)
        kept = [each for each, verdict in verdicts.items() if verdict is Verdict.KEPT]
        assert cheapest(prices, kept) == cheapest(prices, keeps)
        # bisections that know nothing of each other
        apart = sum(len(measured([family], prices, keeps)) for family in families)
        assert len(verdicts) <= apart
        assert apart <= sum(len(family).bit_length() for family in families)
        fewer += len(verdicts) < apart
    # pruning by price saves trials in many of the draws
    assert fewer > 160


def test_the_cheapest_of_the_middles_comes_first_and_what_is_not_decided_says_nothing_about_others() -> None:
    families = [["a1", "a2", "a3"], ["b1", "b2", "b3"], ["c"]]
    prices = {"a1": 2.0, "a2": 4.0, "a3": 8.0, "b1": 1.0, "b2": 3.0, "b3": 5.0, "c": 3.0}
    assert next_target(families, prices, {}) == "b2"
    assert open_targets(families, prices, {"b2": Verdict.KEPT}) == {"a1", "b1"}
    assert next_target(families, prices, {"b2": Verdict.KEPT}) == "b1"
    assert next_target(families, prices, {"b2": Verdict.KEPT, "b1": Verdict.FAILED}) == "a1"
    for undecided in (Verdict.UNDECIDED, Verdict.UNMEASURED):
        families, prices = [["s", "m", "l"]], {"s": 1.0, "m": 2.0, "l": 4.0}
        assert next_target(families, prices, {}) == "m"
        assert next_target(families, prices, {"m": undecided}) == "s"
        assert next_target(families, prices, {"m": undecided, "s": Verdict.FAILED}) == "l"
        done = {"m": undecided, "s": Verdict.FAILED, "l": Verdict.KEPT}
        assert next_target(families, prices, done) is None
        assert open_targets(families, prices, done) == set()
        # a smaller and dearer server is worth a trial only if the larger one was not decided
        dear = {"s": 3.0, "m": 2.0, "l": 4.0}
        assert next_target([["s", "m"]], dear, {"m": Verdict.FAILED}) is None
        assert next_target([["s", "m"]], dear, {"m": undecided}) == "s"


def test_noise_leaves_targets_undecided_rather_than_the_answer_wrong() -> None:
    source = np.random.default_rng(28)
    found: Counter[str] = Counter()
    for _ in range(100):
        of = world(source)
        found[outcome(of, search(source, of, 0.1, 3))] += 1
    assert found["too cheap"] + found["too dear"] <= 5
    assert found["right"] >= 60


def test_a_target_at_its_limit_is_called_neither_way_in_95_of_100() -> None:
    source = np.random.default_rng(29)
    found = Counter(verdict(source, 1 - IDLE_MS / LIMIT_MS, 0.05, 3) for _ in range(1_000))
    # twice the error that so many draws have themselves
    assert found[Verdict.UNDECIDED] >= 1_000 * 0.95 - 2 * math.sqrt(1_000 * 0.95 * 0.05)
