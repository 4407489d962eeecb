"""Quantiles of Student's t distribution for whole degrees of freedom, without scipy.

The distribution function is the finite trigonometric sum of Abramowitz and Stegun, *Handbook of
Mathematical Functions*, 26.7.3 and 26.7.4; the quantile is found by bisection on it.
"""

from __future__ import annotations

import math
from functools import lru_cache


def central_probability(t: float, df: int) -> float:
    """Return the probability that |T| ≤ `t` for T with `df` ≥ 1 degrees of freedom (26.7.3 for odd, 26.7.4 for
    even).
    """
    if df < 1:
        raise ValueError(f"degrees of freedom must be 1 or more, not {df}")
    theta = math.atan(t / math.sqrt(df))
    cos, sin = math.cos(theta), math.sin(theta)
    first = 1 if df % 2 == 0 else 2
    term, total = (1.0, 1.0) if df % 2 == 0 else (cos, cos)
    for denominator in range(first, df - 2, 2):
        # each term is the previous one times (k / (k + 1)) cos², k = 1, 3, 5… or 2, 4, 6…
        term *= denominator / (denominator + 1) * cos * cos
        total += term
    if df % 2 == 0:
        return sin * total
    return 2 / math.pi * (theta + (sin * total if df > 1 else 0.0))


@lru_cache(maxsize=256)
def two_sided_quantile(confidence: float, df: int) -> float:
    """Return the t with P(|T| ≤ t) = `confidence`, 0 < confidence < 1: 2.262 for 95 % and 9 degrees of freedom."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    high = 1.0
    while central_probability(high, df) < confidence:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if central_probability(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2
