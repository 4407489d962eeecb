"""The level of each look at a comparison that is looked at after every pair: group-sequential alpha spending.

Looking n times at a 95 % interval is wrong more often than once in twenty. Lan and DeMets (1983) spread the 5 % over
the looks: by the time a share t of the most pairs is measured, 5 % · ln(1 + (e - 1) t) may be spent (Pocock's spending
function). The level of a look follows from the probability that a Brownian motion leaves the boundaries at it for the
first time (Armitage, McPherson and Rowe 1969), and applies to Student's t (Jennison and Turnbull 2000, 11.4).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_LOOKS = 1_000
_BISECTIONS = 60
_FURTHEST = 12.0
"""In standard errors: a normal variable is beyond it with a probability of 1e-33."""


Spending = Callable[[float, float], float]
"""How much of alpha may be spent when a share of the most pairs is measured."""


def pocock(alpha: float, share: float) -> float:
    """Return Lan and DeMets' spending function like Pocock's boundaries."""
    return alpha * math.log1p((math.e - 1) * share)


def look_level(level: float, pairs: int, fewest: int, most: int) -> float:
    """Return the level of the interval at `pairs`, so that all looks from `fewest` to `most` together hold `level`.

    Before the first look, its level: nothing is decided there. Raises ValueError unless 2 <= fewest <= most.
    """
    levels = look_levels(round(1 - level, 12), fewest, most)
    return levels[min(max(pairs, fewest), most) - fewest]


@lru_cache(maxsize=256)
def look_levels(alpha: float, fewest: int, most: int, spending: Spending = pocock) -> tuple[float, ...]:
    """Return the level of every look; increments have variance 1. Raises ValueError unless 2 <= fewest <= most."""
    # importing scipy is slow
    from scipy import special

    if not 2 <= fewest <= most <= MOST_LOOKS:
        raise ValueError(f"looks from {fewest} to {most}")
    levels = []
    before = 0.0
    places, weighted = np.zeros(1), np.ones(1)
    for pairs in range(fewest, most + 1):
        added = pairs if pairs == fewest else 1
        now = spending(alpha, pairs / most)
        bound = _spending_bound(places, weighted, added, now - before)
        before = now
        levels.append(1 - 2 * float(special.ndtr(-bound / math.sqrt(pairs))))
        nodes, weights = _nodes(32 + 8 * math.ceil(math.sqrt(pairs)))
        at = bound * nodes
        steps = np.exp(-((at[:, None] - places[None]) ** 2) / (2 * added)) / math.sqrt(2 * math.pi * added)
        places, weighted = at, (steps @ weighted) * bound * weights
    return tuple(levels)


def _spending_bound(places: Array, weighted: Array, added: int, share: float) -> float:
    """Return the sum that is exceeded for the first time, on either side, with probability `share`."""
    from scipy import special

    low, high = 0.0, float(np.max(np.abs(places))) + _FURTHEST * math.sqrt(added)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        # both sides are alike
        beyond = 2 * float(weighted @ special.ndtr((places - middle) / math.sqrt(added)))
        low, high = (middle, high) if beyond > share else (low, middle)
    return high


@lru_cache(maxsize=64)
def _nodes(count: int) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss and Legendre's quadrature over -1 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return np.asarray(nodes), np.asarray(weights)
