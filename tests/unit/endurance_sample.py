"""Long trials with known trends: autoregressive noise, a saw-tooth of checkpoints, and a planted slope."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgdyno.store.trial_tables import IntervalRow
from tests.unit.comparison_sample import Array
from tests.unit.report_sample import interval_row

SECONDS = 3_600
CYCLE_S = 300
"""PostgreSQL's default checkpoint_timeout."""


def seconds_of(
    random: np.random.Generator, hours: int, *, memory_s: float = 0.0, saw: float = 0.0, slope: float = 0.0
) -> Array:
    """Returns throughput by second, about 1,000, with noise of 5 %.

    The noise of neighbouring seconds is correlated by exp(-1 / `memory_s`). A checkpoint begins every 300 s, from a
    random phase on: for its first tenth throughput is lower by `saw`, then it recovers linearly from a fifth of that.
    The logarithm falls so that an hour later there is `slope` less or more.
    """
    from scipy.signal import lfilter

    count = hours * SECONDS
    correlation = float(np.exp(-1 / memory_s)) if memory_s else 0.0
    fresh = random.normal(0, 0.05 * np.sqrt(1 - correlation**2), count)
    fresh[0] = random.normal(0, 0.05)
    noise = lfilter([1], [1, -correlation], fresh)
    at = (np.arange(count) + random.integers(CYCLE_S)) % CYCLE_S / CYCLE_S
    lost = np.where(at < 0.1, saw, 0.2 * saw * (1 - at))
    hour = np.arange(count) / SECONDS
    return np.asarray(1_000 * np.exp(noise + np.log1p(-lost) + np.log1p(slope) * hour))


def minutes_of(seconds: Array) -> list[float]:
    return [float(each) for each in seconds.reshape(-1, 60).mean(axis=1)]


def rows_of(seconds: Sequence[float], latency_ms: Sequence[float], trial: int = 1) -> list[IntervalRow]:
    rows = []
    for second, (tps, mean) in enumerate(zip(seconds, latency_ms, strict=True)):
        succeeded = round(tps)
        row = interval_row(trial, second, "measure", succeeded)
        rows.append(replace(row, latency_sum_ns=succeeded * mean * 1e6 if succeeded else None))
    return rows
