"""A mean over trials with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.student_t import two_sided_quantile

CONFIDENCE = 0.95
"""Level of every interval in this package."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` trials; `half` is half of its 95 % interval, None for a single trial."""

    mean: float
    half: float | None
    n: int

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
