"""Simulates searches for the cheapest target, for `make simulations` and, with fewer draws, for the tests."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tests.present import present
from tests.unit.test_search_trials import record

from pgdyno.experiment.search.cheapest_order import Families, Verdict, best_price, next_target
from pgdyno.experiment.search.cheapest_search import summarise_trials
from pgdyno.records import Point

LIMIT_MS = 10.0
IDLE_MS = 2.0
"""The p99 of an idle server; at the share u of its capacity it is this over (1 - u)."""
DUE = 1_000
"""Transactions of a trial, as in the sample's records."""
OVERLOADED_MS = 5_000.0


@dataclass(frozen=True, slots=True)
class World:
    """Priced targets with planted capacities."""

    families: Families
    prices: Mapping[str, float]
    loads: Mapping[str, float]
    """The promised load as a share of each target's capacity."""

    def keeps(self, target: str) -> bool:
        return self.loads[target] < 1 - IDLE_MS / LIMIT_MS

    @property
    def best(self) -> float:
        """The lowest price of a target that keeps the promise; infinite if none does."""
        return min((self.prices[each] for each in self.prices if self.keeps(each)), default=math.inf)


def world(random: np.random.Generator) -> World:
    """Draws four families of five sizes: each size has twice the capacity of the one before, for 1.7 to 2.1 times the
    price. The promised load is between the capacities of the smallest and the largest.
    """
    families, prices, loads = [], {}, {}
    load = math.exp(random.uniform(math.log(1), math.log(20)))
    for name in "abcd":
        family = [f"{name}{size}" for size in range(5)]
        capacity, price = random.uniform(0.8, 1.6), random.uniform(0.1, 0.2)
        for target in family:
            prices[target], loads[target] = round(price, 3), load / capacity
            capacity *= 2
            price *= random.uniform(1.7, 2.1)
        families.append(family)
    return World(families, prices, loads)


def verdict(random: np.random.Generator, load: float, noise: float, repeats: int) -> Verdict:
    """Measures a target whose p99 and capacity scatter log-normally from trial to trial by `noise`."""
    trials = []
    for number in range(1, repeats + 1):
        p99_ms = IDLE_MS / (1 - load) if load < 1 else OVERLOADED_MS
        p99_ms = min(p99_ms * math.exp(random.normal(0, noise)), OVERLOADED_MS)
        served = min(1.0, math.exp(random.normal(0, noise)) / load) if load > 1 else 1.0
        trials.append(record(number, "a", Point(clients=1, rate=1), p99_ms=p99_ms, served=round(DUE * served)))
    return present(summarise_trials(trials, f"p99 < {LIMIT_MS:g}ms", [], repeats)).verdict


def search(random: np.random.Generator, of: World, noise: float, repeats: int) -> dict[str, Verdict]:
    """Runs a search; returns the verdicts of the targets that it measured."""
    verdicts: dict[str, Verdict] = {}
    while (target := next_target(of.families, of.prices, verdicts)) is not None:
        verdicts[target] = verdict(random, of.loads[target], noise, repeats)
    return verdicts


def outcome(of: World, verdicts: Mapping[str, Verdict]) -> str:
    """Returns `right`, `too cheap` (the answer does not keep the promise), `named` (a cheaper target keeps it, and the
    answer names one as undecided), or `too dear`.
    """
    found = best_price(of.prices, verdicts)
    answers = [each for each in verdicts if verdicts[each] is Verdict.KEPT and of.prices[each] == found]
    if answers and not of.keeps(answers[0]):
        return "too cheap"
    if found == of.best:
        return "right"
    undecided = [each for each, its in verdicts.items() if its is Verdict.UNDECIDED and of.prices[each] < found]
    return "named" if undecided else "too dear"


def separately(of: World) -> int:
    """Returns the targets that bisections of each family measure which know nothing of the other families."""
    found = 0
    for family in of.families:
        verdicts: dict[str, Verdict] = {}
        while (target := next_target([family], of.prices, verdicts)) is not None:
            verdicts[target] = Verdict.KEPT if of.keeps(target) else Verdict.FAILED
        found += len(verdicts)
    return found


def searches(times: int = 500) -> Iterator[Sequence[object]]:
    """Yields how often the answer is right, by the noise of trials, and how many of 20 targets are measured."""
    yield (
        "noise of trials",
        "repeats",
        "right",
        "a cheaper one undecided, and named",
        "does not keep the promise",
        "dearer than necessary",
        "targets measured",
        "by bisecting each family",
    )
    for noise in (0.0, 0.02, 0.05, 0.1, 0.2):
        for repeats in (3, 5) if noise else (3,):
            random = np.random.default_rng(26)
            found, count, apart = [], 0, 0
            for _ in range(times):
                of = world(random)
                verdicts = search(random, of, noise, repeats)
                found.append(outcome(of, verdicts))
                count += len(verdicts)
                apart += separately(of)
            shares = [
                f"{100 * found.count(each) / times:.1f} %" for each in ("right", "named", "too cheap", "too dear")
            ]
            yield (f"{100 * noise:g} %", repeats, *shares, f"{count / times:.1f}", f"{apart / times:.1f}")


def at_limit(times: int = 2_000) -> Iterator[Sequence[object]]:
    """Yields the verdicts on a target whose p99 is close to the limit, with noise of 5 %."""
    yield ("p99 of the limit", "repeats", "kept", "undecided", "failed")
    for share in (0.8, 0.9, 1.0, 1.1, 1.25):
        for repeats in (3, 5, 10):
            random = np.random.default_rng(26)
            load = 1 - IDLE_MS / (share * LIMIT_MS)
            found = [verdict(random, load, 0.05, repeats) for _ in range(times)]
            kinds = (Verdict.KEPT, Verdict.UNDECIDED, Verdict.FAILED)
            yield (f"{100 * share:g} %", repeats, *(f"{100 * found.count(each) / times:.1f} %" for each in kinds))
