"""Intervals of a mean log ratio: Student's t and Welch's below ten pairs, with BCa bootstrap from ten on.

Sources: Welch 1947 (two samples); Efron 1987 (BCa); Hesterberg 2015, "What Teachers Should Know About the Bootstrap"
(expanded percentiles).

Plain BCa intervals of a mean are too narrow for few values: resampling estimates the standard deviation with divisor n
and ignores t. At ten normal values, the 95 % interval contains the true mean 90 % of the time. Hesterberg's expansion
takes the percentiles at Phi(-t · s / s_plug-in) instead of (1 - level) / 2, which makes the interval of normal data
Student's, and keeps BCa's correction for skewness. That is sometimes still narrower than t; of the two, the further end
is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

FROM_BCA = 10
"""Number of values from which on an interval is bootstrapped."""
RESAMPLES = 9_999
FEWEST_IN_TAIL = 10
"""Resamples beyond an end; with fewer, chance would determine the end, and the t interval is used instead."""
_SEED = 20_160_101
"""Fixed, so that the same figures always have the same interval."""

Array = NDArray[np.float64]


class Method(StrEnum):
    """How an interval was computed."""

    T = "t"
    WELCH = "welch"
    BCA = "bca"


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of logarithms with its interval. `math.expm1` of each is the relative difference."""

    mean: float
    low: float
    high: float
    error: float
    """Standard error of the mean."""
    freedom: float
    """Degrees of freedom of `error`."""
    level: float
    """Confidence level: 0.95 for 95 %."""
    method: Method

    @property
    def half(self) -> float:
        """Return half of its width."""
        return (self.high - self.low) / 2

    def negated(self) -> Interval:
        """Return the interval of the inverse ratio."""
        return Interval(-self.mean, -self.high, -self.low, self.error, self.freedom, self.level, self.method)


def paired_interval(differences: Sequence[float], level: float, resamples: int = RESAMPLES) -> Interval | None:
    """Return the interval of the mean of `differences`, one per pair: t below ten, the wider ends of t and BCa from ten
    on.

    None for fewer than two. The order of the pairs does not matter; the interval of the negated differences is exactly
    the negation.
    """
    values = np.sort(np.asarray(differences, dtype=np.float64))
    if len(values) < 2:
        return None
    mirrored = np.sort(-values)
    if tuple(mirrored) < tuple(values):
        return _paired(mirrored, level, resamples).negated()
    return _paired(values, level, resamples)


def unpaired_interval(
    base: Sequence[float], other: Sequence[float], level: float, resamples: int = RESAMPLES
) -> Interval | None:
    """Return the interval of mean(`other`) - mean(`base`): Welch's t, and BCa if both have ten or more.

    None if one has fewer than two values. Swapped samples give exactly the negated interval.
    """
    first, second = (np.sort(np.asarray(values, dtype=np.float64)) for values in (base, other))
    if len(first) < 2 or len(second) < 2:
        return None
    if (len(second), tuple(second)) < (len(first), tuple(first)):
        return _unpaired(second, first, level, resamples).negated()
    return _unpaired(first, second, level, resamples)


def _paired(values: Array, level: float, resamples: int) -> Interval:
    n = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    by_t = _by_t(float(values.mean()), error, n - 1, level, Method.T)
    if n < FROM_BCA:
        return by_t
    return _by_bca(by_t, (values,), math.sqrt(n / (n - 1)), resamples)


def _unpaired(base: Array, other: Array, level: float, resamples: int) -> Interval:
    parts = [float(values.var(ddof=1)) / len(values) for values in (base, other)]
    error = math.sqrt(sum(parts))
    # Welch and Satterthwaite; two constant samples have nothing to estimate
    weights = [part**2 / (len(values) - 1) for part, values in zip(parts, (base, other), strict=True)]
    freedom = sum(parts) ** 2 / sum(weights) if sum(weights) > 0 else len(base) + len(other) - 2
    by_t = _by_t(float(other.mean() - base.mean()), error, freedom, level, Method.WELCH)
    if min(len(base), len(other)) < FROM_BCA or error == 0:
        return by_t
    plug_in = math.sqrt(sum(float(values.var()) / len(values) for values in (base, other)))
    return _by_bca(by_t, (base, other), error / plug_in, resamples)


def _by_t(mean: float, error: float, freedom: float, level: float, method: Method) -> Interval:
    half = t_quantile(level, freedom) * error
    return Interval(mean, mean - half, mean + half, error, freedom, level, method)


def t_quantile(level: float, freedom: float) -> float:
    """Return the t with P(|T| <= t) = `level`; `freedom` need not be an integer."""
    # importing scipy is slow
    from scipy import special

    return float(special.stdtrit(freedom, (1 + level) / 2))


def _by_bca(by_t: Interval, samples: tuple[Array, ...], expansion: float, resamples: int) -> Interval:
    """Return the wider ends of `by_t` and the BCa interval at expanded percentiles.

    Returns `by_t` if resamples cannot resolve these percentiles.
    """
    from scipy import special

    tail = float(special.ndtr(-expansion * t_quantile(by_t.level, by_t.freedom)))
    if by_t.error == 0 or tail * resamples < FEWEST_IN_TAIL:
        return by_t
    from scipy import stats

    found = stats.bootstrap(
        samples,
        _mean_of if len(samples) == 1 else _difference_of,
        confidence_level=1 - 2 * tail,
        n_resamples=resamples,
        method="BCa",
        rng=np.random.default_rng(_SEED),
        vectorized=True,
    ).confidence_interval
    # neither alone contains the true mean often enough at ten values: t fails if they are skewed, BCa if they are not
    low, high = min(float(found.low), by_t.low), max(float(found.high), by_t.high)
    return Interval(by_t.mean, low, high, by_t.error, by_t.freedom, by_t.level, Method.BCA)


def _mean_of(values: Array, axis: int = -1) -> Array:
    return np.asarray(np.mean(values, axis=axis))


def _difference_of(base: Array, other: Array, axis: int = -1) -> Array:
    return np.asarray(np.mean(other, axis=axis) - np.mean(base, axis=axis))
