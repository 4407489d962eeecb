"""A mean over trials with its interval.

Quantiles of Student's t distribution for whole degrees of freedom, without scipy.

The distribution function is the finite trigonometric sum of Abramowitz and Stegun, *Handbook of
Mathematical Functions*, 26.7.3 and 26.7.4; the quantile is found by bisection on it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
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


CONFIDENCE = 0.95
"""Level of every interval in this package."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` trials; `half` is half of its 95 % interval, None for a single trial."""

    mean: float
    half: float | None
    n: int
    instances: int = 1
    """With two or more, the interval is that of the means of instances."""

    @property
    def low(self) -> float:
        """Return the lower end of the interval; the mean itself if there is none."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """Return the upper end of the interval; the mean itself if there is none."""
        return self.mean + (self.half or 0.0)

    def overlaps(self, other: Estimate) -> bool:
        """Return whether the two intervals have a value in common."""
        return self.low <= other.high and other.low <= self.high


def trials_interval(values: Sequence[float], instances: Sequence[int | None]) -> Estimate:
    """Return `mean_interval` of trials, or of the means of instances if `instances`, one per trial, name several.

    Trials of one instance share what is particular to it; treating them as independent makes intervals too narrow.
    """
    by_instance: dict[int | None, list[float]] = defaultdict(list)
    for value, instance in zip(values, instances, strict=True):
        by_instance[instance].append(value)
    if len(by_instance) < 2:
        return mean_interval(values)
    found = mean_interval([math.fsum(each) / len(each) for each in by_instance.values()])
    return replace(found, n=len(values), instances=len(by_instance))


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the mean of at least one value, and its t interval: mean ± t(confidence, n-1) · s / √n.

    `s` is the sample standard deviation (divisor n-1). The trial is the unit: `values` are one per trial, never one per
    second. The interval is Student's (1908); it assumes that the means of trials are approximately normal.
    """
    n = len(values)
    if n == 0:
        raise ValueError("a mean needs at least one value")
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Estimate(mean, two_sided_quantile(confidence, n - 1) * math.sqrt(variance / n), n)
