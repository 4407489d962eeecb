"""Plants slower commits in histories of 128 commits, and lets the search of `pgdyno bisect` find them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analyse.alpha_spending import look_level
from pgdyno.analyse.comparison import LEAST_DELTA, Verdict, verdict_of
from pgdyno.analyse.intervals import Interval, paired_interval
from pgdyno.bisection.search import BY_COUNTS, BY_PAIRS, Look, most_looks, next_commit, slow_chance, suspects

Row = Sequence[object]
LAST = 128
FEWEST, MOST = 6, 20
PAIR, INSTANCE = 0.015, 0.004
"""Standard deviations of the logarithm of a pair's ratio, and of what is particular to a server that was started."""
COUNT = 0.0002
"""Of the logarithm of a count of instructions."""


@dataclass(frozen=True, slots=True)
class History:
    """A history with one step, a smaller one, and commits that do not build."""

    step: int
    effects: tuple[float, ...]
    """Of each commit from 0, the logarithm of its cost relative to the first."""
    broken: frozenset[int]

    @property
    def first(self) -> int:
        """The first commit that cannot be told from that of the step."""
        before = self.step
        while before - 1 in self.broken:
            before -= 1
        return before

    @property
    def last(self) -> int:
        after = self.step
        while after in self.broken:
            after += 1
        return after


def plant(random: np.random.Generator, effect: float) -> History:
    """Returns a history with a step of `effect`, one of a third of it or less for better or worse, and a twentieth of
    the commits broken, in a row and here and there.
    """
    step, second = (int(each) for each in random.choice(np.arange(1, LAST + 1), 2, replace=False))
    smaller = effect * random.uniform(-0.4, 0.4)
    effects = tuple(effect * (at >= step) + smaller * (at >= second) for at in range(LAST + 1))
    row = int(random.integers(1, LAST - 6))
    broken = {*range(row, row + int(random.integers(2, 6))), *map(int, random.integers(1, LAST, 3))} - {LAST}
    return History(step, effects, frozenset(broken))


def look_at_pairs(random: np.random.Generator, difference: float, margin: float) -> Interval:
    """Returns the interval at which a run of pairs stops."""
    at = difference + random.normal(0, INSTANCE * math.sqrt(2))
    pairs: list[float] = []
    while True:
        pairs.append(at + random.normal(0, PAIR) * (3 if random.random() < 0.03 else 1))
        if len(pairs) < FEWEST:
            continue
        found = paired_interval(pairs, look_level(0.95, len(pairs), FEWEST, MOST), 1_999)
        assert found is not None
        if len(pairs) == MOST or verdict_of(found, len(pairs), margin, 1) is not Verdict.INCONCLUSIVE:
            return found


def search_by_pairs(random: np.random.Generator, of: History) -> tuple[list[Look], bool]:
    """Returns the looks of a search, and whether the good and the bad commit differed."""
    ends = look_at_pairs(random, of.effects[-1], LEAST_DELTA)
    if ends.low < math.log1p(LEAST_DELTA):
        return [], False
    threshold = ends.mean / 2

    def slow(commit: int) -> float:
        found = look_at_pairs(random, of.effects[commit], max(LEAST_DELTA, math.expm1(threshold)))
        return slow_chance(found.mean, found.error, found.freedom, threshold, BY_PAIRS)

    return _search(of, slow), True


def search_by_counts(random: np.random.Generator, of: History) -> tuple[list[Look], bool]:
    """Returns the looks of a search, whose counts hardly scatter."""

    def counted(commit: int) -> float:
        return of.effects[commit] + float(random.normal(0, COUNT))

    good, bad = counted(0), counted(LAST)
    return _search(of, lambda commit: slow_chance(counted(commit), 0, 1, (good + bad) / 2, BY_COUNTS)), bad > good


def _search(of: History, slow: Callable[[int], float]) -> list[Look]:
    looks: list[Look] = []
    while (commit := next_commit(LAST, looks)) is not None and len(looks) < most_looks(LAST):
        looks.append(Look(commit, None if commit in of.broken else slow(commit)))
    return looks


def bisections(times: int = 100) -> Iterator[Row]:
    """Yields how often searches name the planted commit, or it and the broken ones around it, and the median and the
    most builds (without the good and the bad commit), looks, and commits that do not build.
    """
    yield ("by", "step", "right", "wrong", "cannot tell", "ends alike", "builds", "looks", "broken")
    for name, search, effects in (("counts", search_by_counts, (0.01,)), ("pairs", search_by_pairs, (0.05, 0.1))):
        for effect in effects:
            random = np.random.default_rng(1)
            told = dict.fromkeys(("right", "wrong", "cannot tell", "ends alike"), 0)
            builds, looks, broken = [], [], []
            for _ in range(times):
                history = plant(random, effect)
                found, differ = search(random, history)
                told[_verdict(history, found, differ)] += 1
                builds.append(len({look.commit for look in found if look.slow is not None}))
                looks.append(sum(look.slow is not None for look in found))
                broken.append(sum(look.slow is None for look in found))
            shares = (f"{100 * each / times:.0f} %" for each in told.values())
            counts = (f"{np.median(each):.0f}; {max(each)}" for each in (builds, looks, broken))
            yield (name, f"{100 * effect:g} %", *shares, *counts)


def _verdict(of: History, looks: Sequence[Look], differ: bool) -> str:
    if not differ:
        return "ends alike"
    if next_commit(LAST, looks) is not None:
        return "cannot tell"
    found = suspects(LAST, looks)
    return "right" if (found.first, found.last) == (of.first, of.last) else "wrong"
