"""Which distribution of whole numbers fits a sample.

A distribution fits if two distances stay below a tolerance: the Kolmogorov-Smirnov distance between the values of the
sample and those that the distribution draws, and the same distance between how often the most frequent, the second most
frequent, … value occurs. The second one finds hot keys, wherever among the values they are. The tolerance is 0.02, the
largest error in the share of any range of values or of hot keys, and what chance adds in samples of that size (the 1 %
level of the two-sample test).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pgdyno.synthesise.distributions import (
    Constant,
    Distribution,
    Histogram,
    Integers,
    ScatteredZipf,
    Uniform,
    Weighted,
    Zipf,
    sum_of_powers,
)

TOLERANCE = 0.02
LEVEL_1_PERCENT = 1.63
"""The coefficient of the two-sample Kolmogorov-Smirnov test at the level of 1 %."""
MOST_LISTED = 20
BUCKETS = 20
"""Buckets of a histogram."""
ENOUGH = 50
"""The fewest values that show a shape."""
PER_LISTED = 3
"""Values of a sample for each value of a weighted list."""
FREQUENT = 10
"""How often the most frequent value must occur to be a hot key."""
DRAWN = 20_000
"""Values that are drawn from a distribution, to compare it with a sample."""
_SEED = 20_170_117
"""The same capture gives the same model."""
MOST_EXPONENT = 5.0
"""Above, nearly all values are the first one."""


@dataclass(frozen=True)
class Fit:
    """A distribution, and how far from the sample it is."""

    distribution: Distribution
    distance: float
    """The larger of the two distances; 0 for constants and weighted lists."""
    count: int
    """Values of the sample."""


def fit(sample: Integers) -> Fit:
    """Return the simplest distribution that fits `sample`, which has at least one value.

    That is the first that fits of: a constant; a uniform range; a weighted list; a Zipf distribution; a scattered Zipf
    distribution; a histogram. If none fits, it is the closest.
    """
    values, counts = np.unique(sample, return_counts=True)
    if len(values) == 1:
        return Fit(Constant(int(values[0])), 0.0, len(sample))
    listed = Weighted(tuple(map(int, values)), tuple(map(int, counts)))
    if len(sample) < ENOUGH:
        few = len(values) <= MOST_LISTED and len(sample) >= PER_LISTED * len(values)
        return Fit(listed, 0.0, len(sample)) if few else Fit(_uniform(sample), float("nan"), len(sample))
    uniform = _judge_fit(_uniform(sample), sample)
    if uniform.distance <= tolerance(len(sample)):
        return uniform
    if len(values) <= MOST_LISTED:
        return Fit(listed, 0.0, len(sample))
    closest = []
    by_value = (_zipf(sample, falling) for falling in (True, False))
    for candidates in (by_value, _scattered_distributions(sample, counts), [_histogram(sample)]):
        best = min((_judge_fit(each, sample) for each in candidates), key=lambda each: each.distance, default=None)
        if best is not None:
            if best.distance <= tolerance(len(sample)):
                return best
            closest.append(best)
    return min(closest, key=lambda each: each.distance)


def tolerance(count: int) -> float:
    """The largest distance of a distribution that fits a sample of `count` values."""
    return TOLERANCE + LEVEL_1_PERCENT * math.sqrt(1 / count + 1 / min(count, DRAWN))


def _judge_fit(distribution: Distribution, sample: Integers) -> Fit:
    rng = np.random.default_rng(_SEED)
    drawn = distribution.draw(rng, DRAWN)
    by_frequency = frequency_distance(sample, distribution.draw(rng, min(len(sample), DRAWN)))
    if isinstance(distribution, ScatteredZipf):
        by_value = _scatter_distance(sample, distribution)
    else:
        by_value = value_distance(sample, drawn)
    return Fit(distribution, max(by_frequency, by_value), len(sample))


def value_distance(one: Integers, other: Integers) -> float:
    every = np.union1d(one, other)
    parts = (np.searchsorted(np.sort(each), every, side="right") / len(each) for each in (one, other))
    return float(np.max(np.abs(next(parts) - next(parts))))


def _scatter_distance(sample: Integers, scattered: ScatteredZipf) -> float:
    different = np.unique(sample)
    rng = np.random.default_rng(_SEED)
    distance = value_distance(different, Uniform(scattered.low, scattered.high).draw(rng, DRAWN))
    return max(0.0, distance - tolerance(len(different)) + tolerance(len(sample)))


def frequency_distance(one: Integers, other: Integers) -> float:
    shares = []
    for each in (one[: len(other)], other):
        counts = np.sort(np.unique(each, return_counts=True)[1])[::-1]
        shares.append(np.cumsum(counts) / len(each))
    longest = max(map(len, shares))
    padded = [np.pad(each, (0, longest - len(each)), constant_values=1.0) for each in shares]
    return float(np.max(np.abs(padded[0] - padded[1])))


def _uniform(sample: Integers) -> Uniform:
    low, high = int(sample.min()), int(sample.max())
    # beyond its ends, a uniform sample lacks about a gap; a seventh of a thousandth of samples lacks seven
    reach = int(7 * (high - low) / max(len(sample) - 1, 1))
    return Uniform(_round_below(low, reach), _round_above(high, reach))


def _round_below(value: int, reach: int) -> int:
    """The roundest number from `value - reach` to `value`; 1 and 0 before all others."""
    if value - reach <= 1 <= value:
        return 1
    return -_round_above(-value, reach)


def _round_above(value: int, reach: int) -> int:
    unit = 1
    while value + reach >= -(-value // (unit * 10)) * unit * 10 and unit <= abs(value) + reach:
        unit *= 10
    return -(-value // unit) * unit


def _scattered_distributions(sample: Integers, counts: Integers) -> Iterator[Distribution]:
    """Zipf distributions over all values of the range, and over as many as were seen; none without hot keys."""
    if counts.max() >= FREQUENT:
        bounds = _uniform(sample)
        for keys in (bounds.high - bounds.low + 1, len(counts)):
            yield _scattered_over(keys, sample, bounds)


def _zipf(sample: Integers, falling: bool) -> Zipf:
    bounds = _uniform(sample)
    low, high = bounds.low, bounds.high
    ranks = (sample - low if falling else high - sample) + 1.0
    return Zipf(low, high, _exponent(float(np.log(ranks).mean()), high - low + 1), falling)


def _exponent(mean_log_rank: float, count: int) -> float:
    def unlikelihood(exponent: float) -> float:
        return exponent * mean_log_rank + math.log(sum_of_powers(count, exponent))

    return _least(unlikelihood, 0.01, MOST_EXPONENT)


def _scattered_over(keys: int, sample: Integers, bounds: Uniform) -> ScatteredZipf:
    def distance(exponent: float) -> float:
        drawn = ScatteredZipf(bounds.low, bounds.high, keys, exponent).draw(np.random.default_rng(_SEED), len(sample))
        return frequency_distance(sample, drawn)

    # the distance of a sample has small dips, at which a search over all exponents may end
    step = 0.1
    near = min(np.arange(0.1, 3.0 + step, step), key=distance)
    exponent = _least(distance, max(near - step, step), near + step, tolerance=0.005)
    return ScatteredZipf(bounds.low, bounds.high, keys, exponent)


def _least(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-5) -> float:
    # importing scipy is slow
    from scipy import optimize

    found = optimize.minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": tolerance})
    return float(found.x)


def _histogram(sample: Integers) -> Histogram:
    ordered = np.sort(sample)
    edges = np.round(np.linspace(0, len(ordered), BUCKETS + 1)).astype(int)
    lows, highs = ordered[edges[:-1]], ordered[edges[1:] - 1]
    # a value at an edge is in one bucket only, unless it fills several
    highs[:-1] = np.maximum(np.minimum(highs[:-1], lows[1:] - 1), lows[:-1])
    return Histogram(tuple(zip(lows.tolist(), highs.tolist(), strict=True)))
