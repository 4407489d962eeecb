"""Distributions of whole numbers, and how pgbench's script language draws from them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

LEAST_ENGINE_EXPONENT = 1.001
"""random_zipfian has exponents from here on."""
SCATTER_SEED = 42
"""The seed of permute(): any will do."""
_EXACT = 10_000
"""Ranks whose probabilities are summed one by one; an integral stands for those beyond, to 1 part in 10^9."""


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


class Drawn(Distribution):
    """A distribution that one expression draws."""

    low: int
    high: int

    @abstractmethod
    def expression(self) -> str:
        """The expression that draws a value."""

    def lines(self, name: str, scale: int = 1) -> list[str]:
        return [f"\\set {name} {_scale_expression(self.expression(), scale)}"]


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
        expression = self.ranks.expression(self.low)
        return expression if self.falling else f"{self.low + self.high} - {expression}"

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

    def lines(self, name: str, scale: int = 1) -> list[str]:
        drawn = [_scale_expression(Uniform(*bounds).expression(), scale) for bounds in self.bounds]
        return [f"\\set {name}_of random(1, {len(drawn)})", f"\\set {name} {_cases(name, [1] * len(drawn), drawn)}"]

    def draw(self, rng: np.random.Generator, count: int) -> Integers:
        low, high = np.array(self.bounds, dtype=np.int64).T
        bucket = rng.integers(0, len(self.bounds), count)
        drawn: Integers = rng.integers(low[bucket], high[bucket], endpoint=True)
        return drawn

    def describe(self, scale: int = 1) -> str:
        low, high = _number(self.bounds[0][0], scale), _number(self.bounds[-1][1], scale)
        return f"histogram of {len(self.bounds)} buckets, {low} to {high}"


def _scale_expression(expression: str, scale: int) -> str:
    return expression if scale == 1 else f"({expression}) / {scale}.0"


def _number(value: float, scale: int) -> str:
    return f"{value:.15g}" if scale == 1 else f"{value / scale:.15g}"


def _range(drawn: Drawn, scale: int) -> str:
    return f"{_number(drawn.low, scale)} to {_number(drawn.high, scale)}"


def _cases(name: str, counts: Sequence[int], results: Sequence[str]) -> str:
    upto = np.cumsum(counts)[:-1]
    whens = "".join(f"when :{name}_of <= {last} then {each} " for last, each in zip(upto, results, strict=False))
    return f"case {whens}else {results[-1]} end"


def _integral(start: float, end: float, exponent: float) -> float:
    power = 1 - exponent
    return math.log(end / start) if abs(power) < 1e-9 else (end**power - start**power) / power


def sum_of_powers(count: int, exponent: float) -> float:
    """The sum of k^-exponent for k from 1 to `count`."""
    head = float(np.sum(np.arange(1, min(count, _EXACT) + 1, dtype=float) ** -exponent))
    return head + (_integral(_EXACT + 0.5, count + 0.5, exponent) if count > _EXACT else 0.0)
