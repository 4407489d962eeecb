"""Claims on equal arms under disturbances with a period, by the order of the arms in a pair."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pgdyno.records.base import FEWEST_PAIRS
from simulations.stopping import ALPHA, EDGE, looks

Array = NDArray[np.float64]
PERIODS = np.arange(2, 8.25, 0.25)
DEPTH, SHARE, SPREAD = 0.1, 0.3, 0.02


def _fixed(_: np.random.Generator, times: int, pairs: int) -> NDArray[np.bool_]:
    return np.tile(np.arange(pairs) % 2 == 1, (times, 1))


def _blocks(random: np.random.Generator, times: int, pairs: int) -> NDArray[np.bool_]:
    first = random.random((times, (pairs + 1) // 2)) < 0.5
    return np.stack([first, ~first], axis=-1).reshape(times, -1)[:, :pairs]


def _pairs(random: np.random.Generator, times: int, pairs: int) -> NDArray[np.bool_]:
    return np.asarray(random.random((times, pairs)) < 0.5)


ORDERS: dict[str, Callable[[np.random.Generator, int, int], NDArray[np.bool_]]] = {
    "A B B A": _fixed,
    "A B B A or B A A B, drawn": _blocks,
    "A B or B A, drawn": _pairs,
}
"""Whether the other arm comes first, for each pair of each run."""


def claims(order: str, pairs: int, disturbed: Callable[[np.random.Generator, int, int], Array], times: int) -> float:
    """Returns the share of runs that call one of two equal arms faster.

    `disturbed` is added to the logarithms of the trials of each run.
    """
    random = np.random.default_rng(pairs)
    trials = random.normal(0, SPREAD, (times, 2 * pairs)) + disturbed(random, times, 2 * pairs)
    is_swapped = ORDERS[order](random, times, pairs)
    drawn = np.where(is_swapped, -1, 1) * (trials[:, 1::2] - trials[:, ::2])
    half = special.stdtrit(pairs - 1, 1 - ALPHA / 2) * drawn.std(axis=1, ddof=1) / np.sqrt(pairs)
    return float(np.mean(np.abs(drawn.mean(axis=1)) - half > EDGE))


def periodic(period: float, jitter: float = 0.0) -> Callable[[np.random.Generator, int, int], Array]:
    """Returns a loss of 10 % during 30 % of a period, which is in trials and begins anywhere."""

    def disturbed_until(at: Array) -> Array:
        whole = np.floor(at / period)
        return np.asarray(SHARE * period * whole + np.minimum(at - whole * period, SHARE * period))

    def disturbance(random: np.random.Generator, times: int, trials: int) -> Array:
        starts = (
            np.arange(trials) + period * random.random((times, 1)) + jitter * random.standard_normal((times, trials))
        )
        return np.log1p(-DEPTH * (disturbed_until(starts + 1) - disturbed_until(starts)))

    return disturbance


def drifting(_: np.random.Generator, times: int, trials: int) -> Array:
    """Returns a rise of 20 % over the run."""
    return np.tile(np.linspace(0, 0.2, trials), (times, 1))


def autoregressive(random: np.random.Generator, times: int, trials: int, correlation: float = 0.5) -> Array:
    """Returns noise of 5 % with a first-order autocorrelation."""
    noise = random.normal(0, 0.05, (times, trials))
    for at in range(1, trials):
        noise[:, at] = correlation * noise[:, at - 1] + np.sqrt(1 - correlation**2) * noise[:, at]
    return noise


def looks_with_memory(times: int = 20_000, most: int = 40) -> Iterator[Sequence[object]]:
    """Yields the share of runs of 6 to 40 pairs whose interval held zero at every look, by the memory of the noise."""
    correlations = (0.0, 0.3, 0.5, 0.8)
    yield ("order", *(f"autocorrelation {correlation:g}" for correlation in correlations))
    for order, is_swapped in ORDERS.items():
        cells = []
        for correlation in correlations:
            random = np.random.default_rng(most)
            trials = autoregressive(random, times, 2 * most, correlation)
            drawn = np.where(is_swapped(random, times, most), -1, 1) * (trials[:, 1::2] - trials[:, ::2])
            low, high = looks("Pocock's spending", drawn, FEWEST_PAIRS)
            cells.append(f"{100 * float(np.mean(np.all((low <= 0) & (high >= 0), axis=1))):.1f} %")
        yield (order, *cells)


def orders(times: int = 20_000) -> Iterator[Sequence[object]]:
    """Yields wrong claims in percent, at the worst period of 2 to 8 trials and under other noise."""
    yield ("order", "pairs", "period of 4", "with jitter of 0.3", "worst period", "drift of 20 %", "correlation 0.5")
    for order in ORDERS:
        for pairs in (6, 20):
            by_period = [claims(order, pairs, periodic(float(period)), times) for period in PERIODS]
            others = (periodic(4), periodic(4, 0.3), drifting, autoregressive)
            four, jittered, drift, correlated = (claims(order, pairs, other, times) for other in others)
            found = (four, jittered, max(by_period), drift, correlated)
            yield (order, pairs, *(f"{100 * share:.1f} %" for share in found))
