"""The uncertainty of a percentile within one trial: stationary block bootstrap over its seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.correlation import statistical_inefficiency
from pgdyno.analyse.estimate import CONFIDENCE
from pgdyno.analyse.histogram import LatencyHistogram
from pgdyno.analyse.interval import t_quantile

FEWEST_SECONDS = 20
RESAMPLES = 999
_SEED = 19_940_101


@dataclass(frozen=True, slots=True)
class PercentileInterval:
    """A percentile of a trial, in nanoseconds."""

    percentile: float
    latency_ns: int
    low_ns: int
    high_ns: int
    block_s: float
    """Mean length of the blocks."""


def percentile_interval(
    seconds: Sequence[LatencyHistogram], percentile: float, resamples: int = RESAMPLES
) -> PercentileInterval | None:
    """Return the percentile of all transactions of `seconds`, with an interval that accounts for dependent seconds.

    Seconds depend on their neighbours, so blocks of them are drawn, of geometric length (Politis and Romano 1994): on
    average max(2 g, cube root of n), g being the statistical inefficiency of that percentile by second. The ends are
    expanded percentiles (Hesterberg 2015) for as few values as there are blocks. The interval covers variation within a
    trial, not between trials. None for fewer than 20 seconds.
    """
    count = len(seconds)
    if count < FEWEST_SECONDS:
        return None
    highest = np.unique(np.concatenate([each.highest_ns for each in seconds]))
    counts = np.zeros((count, len(highest)))
    for at, each in enumerate(seconds):
        np.add.at(counts[at], np.searchsorted(highest, each.highest_ns), each.counts)
    by_second = np.array([each.percentile_ns(percentile) for each in seconds], dtype=np.float64)
    block = max(2 * statistical_inefficiency(by_second), count ** (1 / 3))
    drawn = np.stack([np.bincount(row, minlength=count) for row in stationary_blocks(count, block, resamples)])
    found = _percentiles(drawn @ counts, highest, percentile)
    tail = _tail(count / block)
    low, high = np.quantile(found, [tail, 1 - tail], method="nearest")
    whole = _percentiles(counts.sum(axis=0, keepdims=True), highest, percentile)
    return PercentileInterval(percentile, int(whole[0]), int(low), int(high), block)


def _tail(blocks: float) -> float:
    """Return the probability beyond each end: Phi(-t(m - 1) sqrt(m / (m - 1))) for m blocks, at least three."""
    # importing scipy is slow
    from scipy import special

    m = max(blocks, 3.0)
    return float(special.ndtr(-t_quantile(CONFIDENCE, m - 1) * math.sqrt(m / (m - 1))))


def stationary_blocks(count: int, mean_length: float, resamples: int) -> NDArray[np.int64]:
    """Return indices of `resamples` series of `count`: at every position the next index, or with probability 1 / length
    any.
    """
    random = np.random.default_rng(_SEED)
    fresh = random.integers(0, count, (resamples, count))
    starts = random.random((resamples, count)) < 1 / mean_length
    starts[:, 0] = True
    begun = np.maximum.accumulate(np.where(starts, np.arange(count), 0), axis=1)
    first = np.take_along_axis(fresh, begun, axis=1)
    return np.asarray((first + np.arange(count) - begun) % count, dtype=np.int64)


def _percentiles(counts: NDArray[np.float64], highest: NDArray[np.int64], percentile: float) -> NDArray[np.int64]:
    """Return the percentile of each row of counts, by HDR Histogram's definition of rank."""
    reached = np.cumsum(counts, axis=1)
    ranks = np.maximum(1, np.ceil(np.round(percentile / 100 * reached[:, -1], 6)))
    at = (reached < ranks[:, None]).sum(axis=1)
    return np.asarray(highest[np.minimum(at, len(highest) - 1)])
