"""Distributions of whole numbers: which one fits a sample, and how pgbench's script language draws from it.

A distribution fits if two distances stay below a tolerance: the Kolmogorov-Smirnov distance between the values of the
sample and those that the distribution draws, and the same distance between how often the most frequent, the second most
frequent, … value occurs. The second one finds hot keys, wherever among the values they are. The tolerance is 0.02, the
largest error in the share of any range of values or of hot keys, and what chance adds in samples of that size (1 % level
of the two-sample test).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Integers = NDArray[np.int64]

TOLERANCE = 0.02
LEVEL_1_PERCENT = 1.63
"""The coefficient of the two-sample Kolmogorov-Smirnov test at the level of 1 %."""
MOST_LISTED = 20
"""The most values of a weighted list."""
BUCKETS = 20
"""Buckets of a histogram."""
ENOUGH = 50
"""The fewest values that show a shape."""
PER_LISTED = 3
"""Values of a sample for each value of a weighted list."""
FREQUENT = 10
"""How often a value must occur so that its place among the most frequent ones is not chance."""
DRAWN = 20_000
"""Values that are drawn from a distribution, to compare it with a sample."""
LEAST_ENGINE_EXPONENT, MOST_EXPONENT = 1.001, 5.0
"""random_zipfian has exponents from 1.001 on; above 5, nearly all values are the first one."""
SCATTER_SEED = 42
"""The seed of permute(): any will do."""
_EXACT = 10_000
"""Ranks whose probabilities are summed one by one; an integral stands for those beyond, to 1 part in 10^9."""
_SEED = 20_170_117
"""The same capture gives the same model."""


class Distribution(ABC):
    """How a variable of a script gets its values."""

    @abstractmethod
    def lines(self, name: str, scale: int = 1) -> list[str]:
        """The `\\set` lines that draw the variable `name`, divided by `scale`."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        """Draws `count` values as the script does."""

    @abstractmethod
    def describe(self, scale: int = 1) -> str:
        """The distribution in words; its values are divided by `scale`."""

    @property
    @abstractmethod
    def lowest(self) -> int:
        """The smallest value that it draws."""


class Drawn(Distribution):
    """A distribution that one expression draws."""

    low: int
    high: int

    @property
    def lowest(self) -> int:
        return self.low

    @abstractmethod
    def expression(self) -> str:
        """The expression that draws a value."""

    def lines(self, name: str, scale: int = 1) -> list[str]:
        return [f"\\set {name} {_scaled(self.expression(), scale)}"]


@dataclass(frozen=True)
class Constant(Drawn):
    """One value."""

    low: int

    @property
    def high(self) -> int:  # type: ignore[override]
        return self.low

    def expression(self) -> str:
        return str(self.low)

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        del rng
        return np.full(count, self.low, dtype=np.int64)

    def describe(self, scale: int = 1) -> str:
        return f"always {_number(self.low, scale)}"


@dataclass(frozen=True)
class Uniform(Drawn):
    """Every value of a range alike."""

    low: int
    high: int

    def expression(self) -> str:
        return f"random({self.low}, {self.high})"

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        return rng.integers(self.low, self.high, count, endpoint=True)

    def describe(self, scale: int = 1) -> str:
        return f"uniform, {_range(self, scale)}"


@dataclass(frozen=True)
class Exponential(Drawn):
    """Small values are frequent: random_exponential; mirrored if `falling` is false."""

    low: int
    high: int
    parameter: float
    falling: bool = True

    def expression(self) -> str:
        return _mirrored(self, f"random_exponential({self.low}, {self.high}, {self.parameter:.4g})", self.falling)

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        cut = math.exp(-self.parameter)
        part = -np.log(cut + (1 - cut) * (1 - rng.random(count))) / self.parameter
        return _spread(self, part, self.falling)

    def describe(self, scale: int = 1) -> str:
        which = "small" if self.falling else "large"
        return f"exponential, {which} values are frequent, {_range(self, scale)}"


@dataclass(frozen=True)
class Normal(Drawn):
    """Normal around the middle of a range: random_gaussian."""

    low: int
    high: int
    parameter: float
    """Standard deviations from the middle to either end."""

    def expression(self) -> str:
        return f"random_gaussian({self.low}, {self.high}, {self.parameter:.4g})"

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        deviations = rng.standard_normal(count)
        while (outside := np.abs(deviations) >= self.parameter).any():
            deviations[outside] = rng.standard_normal(int(outside.sum()))
        return _spread(self, (deviations + self.parameter) / (2 * self.parameter), True)

    def describe(self, scale: int = 1) -> str:
        deviation = (self.high - self.low) / (2 * self.parameter)
        middle = _number((self.low + self.high) / 2, scale)
        return f"normal around {middle}, standard deviation {_number(deviation, scale)}"


@dataclass(frozen=True)
class Ranks:
    """The probability of rank k of `count` is proportional to k^-exponent."""

    count: int
    exponent: float

    def expression(self, low: int) -> str:
        """The expression of rank + low - 1."""
        if self.exponent >= LEAST_ENGINE_EXPONENT:
            return f"random_zipfian({low}, {low + self.count - 1}, {self.exponent:.4f})"
        # the inverse of the integral of the density from 0.5 to count + 0.5; int() rounds to the nearest rank
        power = 1 - min(self.exponent, 0.999)
        first, last = 0.5**power, (self.count + 0.5) ** power
        drawn = f"{first:.9g} + {last - first:.9g} * random(0, 999999999) / 1000000000.0"
        rank = f"least({self.count}, int(pow({drawn}, {1 / power:.9g})))"
        return rank if low == 1 else f"{low - 1} + {rank}"

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        """Draws ranks from 1."""
        head, total = self._head, float(self._head[-1]) + self._tail
        at = rng.random(count) * total
        ranks = np.searchsorted(head, at, side="right").astype(np.int64) + 1
        beyond = at >= head[-1]
        if beyond.any():
            power, start = 1 - self.exponent, len(head) + 0.5
            if abs(power) < 1e-9:
                tail = start * np.exp(at[beyond] - head[-1])
            else:
                tail = (start**power + power * (at[beyond] - head[-1])) ** (1 / power)
            ranks[beyond] = np.clip(np.rint(tail), len(head) + 1, self.count).astype(np.int64)
        return ranks

    @cached_property
    def _head(self) -> NDArray[np.float64]:
        return np.cumsum(np.arange(1, min(self.count, _EXACT) + 1, dtype=float) ** -self.exponent)

    @property
    def _tail(self) -> float:
        return _integral(len(self._head) + 0.5, self.count + 0.5, self.exponent) if self.count > _EXACT else 0.0


@dataclass(frozen=True)
class Zipf(Drawn):
    """Zipf with the smallest value as the most frequent one; with the largest if `falling` is false."""

    low: int
    high: int
    exponent: float
    falling: bool = True

    @property
    def ranks(self) -> Ranks:
        return Ranks(self.high - self.low + 1, self.exponent)

    def expression(self) -> str:
        return _mirrored(self, self.ranks.expression(self.low), self.falling)

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        values = self.ranks.draw(rng, count) + (self.low - 1)
        return values if self.falling else self.low + self.high - values

    def describe(self, scale: int = 1) -> str:
        which = "smallest" if self.falling else "largest"
        return f"Zipf, exponent {self.exponent:.2f}, the {which} is the most frequent, {_range(self, scale)}"


@dataclass(frozen=True)
class ScatteredZipf(Drawn):
    """Zipf over `keys` values that permute() scatters over a range."""

    low: int
    high: int
    keys: int
    exponent: float

    def expression(self) -> str:
        size, ranks = self.high - self.low + 1, Ranks(self.keys, self.exponent)
        scattered = f"permute({ranks.expression(1)} - 1, {size}, {SCATTER_SEED})"
        return scattered if self.low == 0 else f"{self.low} + {scattered}"

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        """Draws ranks above `low`: where the values are does not matter."""
        return self.low - 1 + Ranks(self.keys, self.exponent).draw(rng, count)

    def describe(self, scale: int = 1) -> str:
        keys = f"{self.keys:,} keys scattered over {_range(self, scale)}"
        return f"Zipf, exponent {self.exponent:.2f}, {keys}; which keys are hot is not the captured ones"


@dataclass(frozen=True)
class Weighted(Distribution):
    """A list of values with how often each occurred."""

    values: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def lowest(self) -> int:
        return min(self.values)

    def lines(self, name: str, scale: int = 1) -> list[str]:
        shares = [_number(value, scale) for value in self.values]
        return [f"\\set {name}_of random(1, {sum(self.counts)})", f"\\set {name} {_cases(name, self.counts, shares)}"]

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        weights = np.array(self.counts, dtype=float)
        return rng.choice(np.array(self.values, dtype=np.int64), count, p=weights / weights.sum())

    def describe(self, scale: int = 1) -> str:
        del scale
        return f"{len(self.values)} values as often as captured"


@dataclass(frozen=True)
class Histogram(Distribution):
    """Buckets of equal probability, uniform within."""

    bounds: tuple[tuple[int, int], ...]

    @property
    def lowest(self) -> int:
        return self.bounds[0][0]

    def lines(self, name: str, scale: int = 1) -> list[str]:
        drawn = [_scaled(Uniform(*bounds).expression(), scale) for bounds in self.bounds]
        return [f"\\set {name}_of random(1, {len(drawn)})", f"\\set {name} {_cases(name, [1] * len(drawn), drawn)}"]

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        low, high = np.array(self.bounds, dtype=np.int64).T
        bucket = rng.integers(0, len(self.bounds), count)
        return rng.integers(low[bucket], high[bucket], endpoint=True)

    def describe(self, scale: int = 1) -> str:
        low, high = _number(self.bounds[0][0], scale), _number(self.bounds[-1][1], scale)
        return f"histogram of {len(self.bounds)} buckets, {low} to {high}"


def _scaled(expression: str, scale: int) -> str:
    return expression if scale == 1 else f"({expression}) / {scale}.0"


def _number(value: float, scale: int) -> str:
    return f"{value:.15g}" if scale == 1 else f"{value / scale:.15g}"


def _range(drawn: Drawn, scale: int) -> str:
    return f"{_number(drawn.low, scale)} to {_number(drawn.high, scale)}"


def _mirrored(drawn: Drawn, expression: str, falling: bool) -> str:
    return expression if falling else f"{drawn.low + drawn.high} - {expression}"


def _spread(drawn: Drawn, part: NDArray[np.float64], falling: bool) -> Integers:
    values = drawn.low + ((drawn.high - drawn.low + 1) * part).astype(np.int64)
    return values if falling else drawn.low + drawn.high - values


def _cases(name: str, counts: Sequence[int], results: Sequence[str]) -> str:
    upto = np.cumsum(counts)[:-1]
    whens = "".join(f"when :{name}_of <= {last} then {each} " for last, each in zip(upto, results, strict=False))
    return f"case {whens}else {results[-1]} end"


def _integral(start: float, end: float, exponent: float) -> float:
    """The integral of x^-exponent."""
    power = 1 - exponent
    return math.log(end / start) if abs(power) < 1e-9 else (end**power - start**power) / power


def _sum_of_powers(count: int, exponent: float) -> float:
    """The sum of k^-exponent for k from 1 to `count`."""
    head = float(np.sum(np.arange(1, min(count, _EXACT) + 1, dtype=float) ** -exponent))
    return head + (_integral(_EXACT + 0.5, count + 0.5, exponent) if count > _EXACT else 0.0)


# ---- fitting ----


@dataclass(frozen=True)
class Fit:
    """A distribution, and how far from the sample it is."""

    distribution: Distribution
    distance: float
    """The larger of the two distances; 0 for constants and weighted lists."""
    count: int
    """Values of the sample."""


def fit(sample: Integers) -> Fit:
    """Returns the simplest distribution that fits `sample`, which has at least one value.

    The first of a constant, a uniform range and a weighted list that fits; else the closest of an exponential, a normal,
    a Zipf and a scattered Zipf distribution that fits; else a histogram.
    """
    values, counts = np.unique(sample, return_counts=True)
    if len(values) == 1:
        return Fit(Constant(int(values[0])), 0.0, len(sample))
    listed = Weighted(tuple(map(int, values)), tuple(map(int, counts)))
    if len(sample) < ENOUGH:
        few = len(values) <= MOST_LISTED and len(sample) >= PER_LISTED * len(values)
        return Fit(listed, 0.0, len(sample)) if few else Fit(_uniform(sample), float("nan"), len(sample))
    uniform = _judged(_uniform(sample), sample)
    if uniform.distance <= tolerance(len(sample)):
        return uniform
    if len(values) <= MOST_LISTED:
        return Fit(listed, 0.0, len(sample))
    fits = [_judged(each, sample) for each in _shaped(sample, counts)]
    best = min(fits, key=lambda each: each.distance)
    if best.distance <= tolerance(len(sample)):
        return best
    histogram = _judged(_histogram(sample), sample)
    return min(histogram, best, key=lambda each: each.distance)


def tolerance(count: int) -> float:
    """The largest distance of a distribution that fits a sample of `count` values."""
    return TOLERANCE + LEVEL_1_PERCENT * math.sqrt(1 / count + 1 / min(count, DRAWN))


def _judged(distribution: Distribution, sample: Integers) -> Fit:
    rng = np.random.default_rng(_SEED)
    drawn = distribution.draw(rng, DRAWN)
    by_frequency = _frequency_distance(sample, distribution.draw(rng, min(len(sample), DRAWN)))
    if isinstance(distribution, ScatteredZipf):
        by_value = _scatter_distance(sample, distribution)
    else:
        by_value = _value_distance(sample, drawn)
    return Fit(distribution, max(by_frequency, by_value), len(sample))


def _value_distance(one: Integers, other: Integers) -> float:
    every = np.union1d(one, other)
    parts = (np.searchsorted(np.sort(each), every, side="right") / len(each) for each in (one, other))
    return float(np.max(np.abs(next(parts) - next(parts))))


def _scatter_distance(sample: Integers, scattered: ScatteredZipf) -> float:
    """How far the different values of `sample` are from being scattered over the range, beyond chance.

    There are fewer of them than values, so chance adds more.
    """
    different = np.unique(sample)
    rng = np.random.default_rng(_SEED)
    distance = _value_distance(different, Uniform(scattered.low, scattered.high).draw(rng, DRAWN))
    return max(0.0, distance - tolerance(len(different)) + tolerance(len(sample)))


def _frequency_distance(one: Integers, other: Integers) -> float:
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
    """The roundest number from `value` to `value + reach`."""
    unit = 1
    while value + reach >= -(-value // (unit * 10)) * unit * 10 and unit <= abs(value) + reach:
        unit *= 10
    return -(-value // unit) * unit


def _shaped(sample: Integers, counts: Integers) -> Iterator[Distribution]:
    bounds = _uniform(sample)
    low, high = bounds.low, bounds.high
    mean, deviation = float(sample.mean()), float(sample.std())
    for falling in (True, False):
        parameter = _exponential_parameter((mean - low if falling else high - mean) / (high - low))
        if parameter is not None:
            yield Exponential(low, high, parameter, falling)
        yield _zipf(sample, low, high, falling)
    half = min(mean - int(sample.min()), int(sample.max()) - mean)
    if half >= 2 * deviation:
        yield Normal(round(mean - half), round(mean + half), half / deviation)
    scattered = _scattered(np.sort(counts)[::-1], low, high)
    if scattered is not None:
        yield scattered


def _exponential_parameter(mean: float) -> float | None:
    """The parameter for which an exponential on [0, 1], cut at 1, has this mean; None if it does not fall."""

    def excess(parameter: float) -> float:
        return 1 / parameter - 1 / math.expm1(parameter) - mean

    steepest = 500.0
    if not excess(steepest) < 0 < excess(0.01):
        return None
    return float(optimize.brentq(excess, 0.01, steepest))


def _zipf(sample: Integers, low: int, high: int, falling: bool) -> Zipf:
    ranks = (sample - low if falling else high - sample) + 1.0
    return Zipf(low, high, _exponent(float(np.log(ranks).mean()), high - low + 1), falling)


def _exponent(mean_log_rank: float, count: int) -> float:
    """The most likely exponent of `count` ranks."""

    def unlikelihood(exponent: float) -> float:
        return exponent * mean_log_rank + math.log(_sum_of_powers(count, exponent))

    return float(optimize.minimize_scalar(unlikelihood, bounds=(0.01, MOST_EXPONENT), method="bounded").x)


def _scattered(counts: Integers, low: int, high: int) -> ScatteredZipf | None:
    """The Zipf distribution whose most frequent keys occur as often as `counts` says, most frequent first.

    The exponent is the most likely one of the frequent keys, because the order of the others is chance; the number of
    keys is the one with which these have the share that they have.
    """
    frequent = int((counts >= FREQUENT).sum())
    size = high - low + 1
    if frequent < 5:  # noqa: PLR2004 - fewer show no shape
        return None
    head = counts[:frequent]
    mean_log_rank = float((head * np.log(np.arange(1, frequent + 1))).sum() / head.sum())
    exponent = _exponent(mean_log_rank, frequent)
    wanted = _sum_of_powers(frequent, exponent) * counts.sum() / head.sum()
    fewest, most = len(counts), max(size, len(counts))
    while fewest < most:
        middle = (fewest + most) // 2
        if _sum_of_powers(middle, exponent) < wanted:
            fewest = middle + 1
        else:
            most = middle
    return ScatteredZipf(low, max(high, low + fewest - 1), fewest, exponent)


def _histogram(sample: Integers) -> Histogram:
    ordered = np.sort(sample)
    edges = [round(place * len(ordered) / BUCKETS) for place in range(BUCKETS + 1)]
    pairs = zip(edges, edges[1:], strict=False)
    return Histogram(tuple((int(ordered[first]), int(ordered[last - 1])) for first, last in pairs))
