"""Which commit to measure next, and which one it was: a bisection that a wrong look does not mislead.

Commits are numbered in their order, from 0 for the good one to `last` for the bad one. Each look at a commit gives the
probability that it behaves as the bad one, and every commit keeps the probability of being the first that does
(Horstein 1963, Burnashev and Zigangirov 1974): Bayes' rule, with equal probabilities before the first look.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

CERTAIN = 0.95
"""The search ends when a commit has this probability."""
BY_COUNTS, BY_PAIRS = 1 - 1e-9, 0.97
"""How far one look is trusted. Counts hardly scatter. The interval of pairs does not know what is particular to a
server that was started or compiled once.
"""
_AVOIDED, _NEAR = 0.8, 8
"""By how much a commit next to one that cannot be measured counts less, and the share of the commits left that is next
to it, as a divisor.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What was learnt about one commit."""

    commit: int
    slow: float | None
    """The probability that it behaves as the bad one; None for a commit that cannot be measured."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """The commits `first` to `last`, of which one is the first slow one; all but the last cannot be measured."""

    first: int
    last: int
    probability: float


def slow_chance(mean: float, error: float, freedom: float, threshold: float, trusted: float) -> float:
    """Return the probability that a difference whose estimate is `mean` is above `threshold`, by Student's t.

    At least 1 - `trusted`, at most `trusted`.
    """
    # importing scipy is slow
    from scipy import special

    distance = mean - threshold
    chance = float(special.stdtr(freedom, distance / error)) if error > 0 else 0.5 + math.copysign(0.5, distance)
    return min(max(chance, 1 - trusted), trusted)


def chances(last: int, looks: Sequence[Look]) -> NDArray[np.float64]:
    """Return the probability of each commit from 1 to `last` to be the first slow one."""
    number = np.arange(1, last + 1)
    logs = np.zeros(last)
    for look in looks:
        if look.slow is not None:
            logs += np.where(number <= look.commit, math.log(look.slow), math.log1p(-look.slow))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def suspects(last: int, looks: Sequence[Look]) -> Suspects:
    """Return the most probable commit, together with those before it that cannot be measured."""
    total = np.concatenate([[0.0], np.cumsum(chances(last, looks))])
    ends = [0, *_measurable(last, looks), last]
    spans = pairwise(ends)
    return max((Suspects(a + 1, b, float(total[b] - total[a])) for a, b in spans), key=lambda each: each.probability)


def next_commit(last: int, looks: Sequence[Look]) -> int | None:
    """Return the commit to measure next; None if the search has ended.

    It is the median of the probabilities, apart from commits that cannot be measured: their neighbours often cannot,
    too, so the search keeps a distance, as `git bisect skip` does.
    """
    left = _measurable(last, looks)
    if not left or suspects(last, looks).probability >= CERTAIN:
        return None
    total = np.cumsum(chances(last, looks))
    numbers = np.array(left)
    gains = 0.5 - np.abs(total[numbers - 1] - 0.5)
    nearest = np.full(len(left), np.inf)
    for look in looks:
        if look.slow is None:
            nearest = np.minimum(nearest, np.abs(numbers - look.commit))
    return left[int(np.argmax(gains * (1 - _AVOIDED * np.exp(-nearest * _NEAR / (likely(last, looks) + _NEAR)))))]


def likely(last: int, looks: Sequence[Look]) -> int:
    """Return the number of commits that together have the probability `CERTAIN`, the most probable ones."""
    return int(np.searchsorted(np.cumsum(np.sort(chances(last, looks))[::-1]), CERTAIN)) + 1


def most_looks(last: int) -> int:
    """Return the number of looks after which the search cannot tell: three times those of a bisection without noise."""
    return 3 * max(math.ceil(math.log2(last)), 1) + 6


def _measurable(last: int, looks: Sequence[Look]) -> list[int]:
    skipped = {look.commit for look in looks if look.slow is None}
    return [commit for commit in range(1, last) if commit not in skipped]
