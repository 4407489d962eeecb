"""Intervals of mean log ratios: Student's t, Welch's, BCa bootstrap from ten pairs; autocorrelation.

Sources: Welch 1947 (two samples); Efron 1987 (BCa); Hesterberg 2015, "What Teachers Should Know About the Bootstrap"
(expanded percentiles).

Plain BCa intervals of a mean are too narrow for few values: resampling estimates the standard deviation with divisor n
and ignores t. At ten normal values, the 95 % interval contains the true mean 90 % of the time. Hesterberg's expansion
takes the percentiles at Phi(-t · s / s_plug-in) instead of (1 - level) / 2, which makes the interval of normal data
Student's, and keeps BCa's correction for skewness. That is sometimes still narrower than t; of the two, the further end
is taken.

Quantiles of Student's t distribution are computed for whole degrees of freedom, without scipy: the distribution
function is the finite trigonometric sum of Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.7.3 and
26.7.4, and the quantile is found by bisection on it.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FROM_BCA = 10
"""Number of values from which on an interval is bootstrapped."""
RESAMPLES = 9_999
FEWEST_IN_TAIL = 10
"""Resamples beyond an end; with fewer, chance would determine the end, and the t interval is used instead."""
WHOLE_FREEDOM = 1_000
"""Up to here, whole degrees of freedom do not need scipy, whose import takes a tenth of a report's time."""
_SEED = 20_160_101
"""Fixed, so that the same figures always have the same interval."""

Array = NDArray[np.float64]


class Method(StrEnum):
    """How an interval was computed."""

    T = "t"
    WELCH = "welch"
    BCA = "bca"
    INSTANCES = "instances"
    """From the means of instances, which are not paired."""


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
    look_level: float | None = None
    """The higher level at which it was computed, so that all looks of a run together hold `level`; None for one."""

    @property
    def quantile_level(self) -> float:
        """Return the level of the quantiles that made its ends."""
        return self.level if self.look_level is None else self.look_level

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    def inverse(self) -> Interval:
        """Return the interval of the inverse ratio."""
        return replace(self, mean=-self.mean, low=-self.high, high=-self.low)


ASSURANCE = 0.8
"""Share of runs in which the spread that a plan assumes is at least the true one."""


def upper_spread(spread: float, freedom: float) -> float:
    """Return the spread with which to plan: the upper end of a one-sided 80 % interval of the true one.

    s · sqrt(freedom / chi-squared), for a standard deviation or error of so many degrees of freedom. A plan with s
    itself reaches its power in fewer than half of all cases (Browne 1995).
    """
    # importing scipy is slow
    from scipy import special

    return spread * math.sqrt(freedom / float(special.chdtri(freedom, ASSURANCE)))


def paired_interval(differences: Sequence[float], level: float, resamples: int = RESAMPLES) -> Interval | None:
    """Return the interval of the mean of `differences`, one per pair: t below ten, the wider ends of t and BCa from ten
    on.

    None for fewer than two. The order of the pairs does not matter; the interval of the negated differences is exactly
    the negation.
    """
    if len(differences) < 2:
        return None
    values = tuple(sorted(map(float, differences)))
    mirrored = tuple(sorted(-each for each in values))
    if mirrored < values:
        return _paired_interval(mirrored, level, resamples).inverse()
    return _paired_interval(values, level, resamples)


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
        return _unpaired_interval(second, first, level, resamples).inverse()
    return _unpaired_interval(first, second, level, resamples)


def welch_freedom(parts: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the degrees of freedom of the difference of two means by Welch and Satterthwaite, (Σ p)² / Σ p² / (n - 1);
    p are the variances of the means. Two constant samples have nothing to estimate: the pooled ones.
    """
    below = sum(part**2 / (n - 1) for part, n in zip(parts, sizes, strict=True) if part > 0)
    return sum(parts) ** 2 / below if below > 0 else sum(sizes) - len(sizes)


def instances_interval(base: Sequence[float], other: Sequence[float], level: float) -> Interval | None:
    """Return the interval of mean(`other`) - mean(`base`), one value per instance of each arm.

    Welch's t with degrees of freedom midway between Welch's and the pooled n1 + n2 - 2, if both arms have equally many
    instances; else Welch's. For two or three instances, Welch's own contain the truth too often (98 and 97 of 100) and
    the pooled ones too seldom once the spreads differ (92 of 100 if they differ by a factor of 3); midway holds 94 to
    97 of 100 in both cases. None if an arm has fewer than two instances.
    """
    samples = [np.asarray(values, dtype=np.float64) for values in (base, other)]
    sizes = [len(values) for values in samples]
    if min(sizes) < 2:
        return None
    variances = [_variance(values) / len(values) for values in samples]
    mean, error, pooled = float(samples[1].mean() - samples[0].mean()), math.sqrt(sum(variances)), sum(sizes) - 2
    freedom = welch_freedom(variances, sizes)
    if sizes[0] == sizes[1]:
        freedom = (freedom + pooled) / 2
    return _by_t(mean, error, freedom, level, Method.INSTANCES)


@lru_cache(maxsize=4_096)
def _paired_interval(sample: tuple[float, ...], level: float, resamples: int) -> Interval:
    # cached, because a run that stops when decided compares all its points after every trial
    values = np.asarray(sample, dtype=np.float64)
    n = len(values)
    error = math.sqrt(_variance(values) / n)
    by_t = _by_t(float(values.mean()), error, n - 1, level, Method.T)
    if n < FROM_BCA:
        return by_t
    return _by_bca(by_t, (values,), math.sqrt(n / (n - 1)), resamples)


def _unpaired_interval(base: Array, other: Array, level: float, resamples: int) -> Interval:
    parts = [_variance(values) / len(values) for values in (base, other)]
    error = math.sqrt(sum(parts))
    freedom = welch_freedom(parts, [len(base), len(other)])
    by_t = _by_t(float(other.mean() - base.mean()), error, freedom, level, Method.WELCH)
    if min(len(base), len(other)) < FROM_BCA or error == 0:
        return by_t
    plug_in = math.sqrt(sum(float(values.var()) / len(values) for values in (base, other)))
    return _by_bca(by_t, (base, other), error / plug_in, resamples)


def _variance(values: Array) -> float:
    """Return the sample variance: 0 for equal values, which rounding would make 1e-31."""
    return 0.0 if values.min() == values.max() else float(values.var(ddof=1))


def _by_t(mean: float, error: float, freedom: float, level: float, method: Method) -> Interval:
    half = t_quantile(level, freedom) * error
    return Interval(mean, mean - half, mean + half, error, freedom, level, method)


def t_quantile(level: float, freedom: float) -> float:
    """Return the t with P(|T| <= t) = `level`; `freedom` need not be an integer."""
    if freedom == int(freedom) and 1 <= freedom <= WHOLE_FREEDOM:
        return two_sided_quantile(level, int(freedom))
    # importing scipy is slow
    from scipy import special

    return float(special.stdtrit(freedom, (1 + level) / 2))


def _by_bca(by_t: Interval, samples: tuple[Array, ...], expansion: float, resamples: int) -> Interval:
    """Return the wider ends of `by_t` and the BCa interval at expanded percentiles.

    Returns `by_t` if resamples cannot resolve these percentiles, or have no BCa interval because most are alike.
    """
    from scipy import special

    tail = float(special.ndtr(-expansion * t_quantile(by_t.level, by_t.freedom)))
    if by_t.error == 0 or tail * resamples < FEWEST_IN_TAIL:
        return by_t
    from scipy import stats

    with warnings.catch_warnings():
        # of resamples that are alike, which is said by an interval that is not finite
        warnings.simplefilter("ignore")
        found = stats.bootstrap(
            samples,
            _mean_of if len(samples) == 1 else _difference_of,
            confidence_level=1 - 2 * tail,
            n_resamples=resamples,
            method="BCa",
            rng=np.random.default_rng(_SEED),
            vectorized=True,
        ).confidence_interval
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return by_t
    # neither alone contains the true mean often enough at ten values: t fails if they are skewed, BCa if they are not
    low, high = min(float(found.low), by_t.low), max(float(found.high), by_t.high)
    return Interval(by_t.mean, low, high, by_t.error, by_t.freedom, by_t.level, Method.BCA)


def _mean_of(values: Array, axis: int = -1) -> Array:
    return np.asarray(np.mean(values, axis=axis))


def _difference_of(base: Array, other: Array, axis: int = -1) -> Array:
    return np.asarray(np.mean(other, axis=axis) - np.mean(base, axis=axis))


LEAST_LAGS = 3
"""Lags that count whatever their sign, as in pymbar."""


def statistical_inefficiency(series: Array) -> float:
    """Return g = 1 + 2 sum (1 - t / T) C(t) >= 1: g values of `series` carry as much information as one independent
    value.

    C is the autocorrelation; the sum ends where C first falls to zero or below (Chodera et al. 2007). 1 for a constant
    series, or one that is shorter than two.
    """
    count = len(series)
    deviations = series - series.mean() if count else series
    variance = float(deviations @ deviations)
    if count < 2 or variance == 0:
        return 1.0
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(deviations, size)
    lags = np.fft.irfft(spectrum * np.conj(spectrum), size)[:count]
    # sums over count - t terms, against the variance over count: unbiased in the lag
    correlation = lags / variance * count / (count - np.arange(count))
    fallen = np.flatnonzero(correlation[LEAST_LAGS:] <= 0)
    end = LEAST_LAGS + int(fallen[0]) if len(fallen) else count
    lag = np.arange(1, min(end, count))
    return max(1.0, 1 + 2 * float(np.sum((1 - lag / count) * correlation[lag])))


def central_probability(t: float, df: int) -> float:
    """Return the probability that |T| ≤ `t` for T with `df` ≥ 1 degrees of freedom (26.7.3 odd, 26.7.4 even)."""
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
        """Return the lower end of the interval, or the mean if there is no interval."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """Return the upper end of the interval, or the mean if there is no interval."""
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


def mean_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of at least one value, and its t interval: mean ± t(CONFIDENCE, n-1) · s / √n.

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
    return Estimate(mean, two_sided_quantile(CONFIDENCE, n - 1) * math.sqrt(variance / n), n)
