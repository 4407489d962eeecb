"""Whether a trial of an hour or more holds its throughput and its latency from beginning to end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from pgdyno.analyse.intervals import CONFIDENCE, Array, t_quantile
from pgdyno.store.seconds import Seconds

SHORTEST_S = 3_540.0
"""Seconds measured: an hour, less what a trial of an hour may lose at its ends."""
BIN_S = 60
"""Length of the means to which the line is fitted."""
LEAST_CHANGE = 0.01
"""Smaller changes over the trial count as none, as in comparisons."""
HELD_WITHIN = 0.05
"""A trial holds if its interval excludes a loss of this much over the trial."""
BLOCKS = 5
"""Least number of blocks; longer ones would leave too few to estimate a spread from."""
LAGS = 0.25
"""Share of the series whose lags count in the length of a block."""
OUTLIER = 3.0
"""Spreads from the line beyond which a minute counts as that far."""
MOST_PAIRED = 500
"""Minutes whose pairs give the first line; of longer trials, evenly spaced ones."""
FLOOR = 0.01
"""Share of the median below which a mean counts as that: a minute without a transaction has no logarithm."""


class EnduranceVerdict(StrEnum):
    """What happens to throughput or latency over a trial."""

    HOLDS = "holds"
    DECLINES = "declines"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Trend:
    """Change per hour, relative: -0.1 is 10 % less after each hour."""

    per_hour: float
    low: float
    high: float
    """Ends of the 95 % interval."""
    verdict: EnduranceVerdict


@dataclass(frozen=True, slots=True)
class Endurance:
    """The trends of one trial."""

    hours: float
    """Measured."""
    tps: Trend
    latency: Trend | None
    """Of the typical latency: by minute, the median of the means of its seconds. None without latencies."""

    @property
    def verdict(self) -> EnduranceVerdict:
        """Return "declines" if one of the two does, "holds" if all do."""
        told = {each.verdict for each in (self.tps, self.latency) if each is not None}
        if EnduranceVerdict.DECLINES in told:
            return EnduranceVerdict.DECLINES
        return EnduranceVerdict.HOLDS if told == {EnduranceVerdict.HOLDS} else EnduranceVerdict.CANNOT_TELL


class LongRun(Protocol):
    """A run whose trials may be long."""

    def seconds(self, trial: int) -> Seconds:
        """Return the seconds of trial number `trial`, in order."""


def trial_endurance(run: LongRun, trial: int) -> Endurance | None:
    """Return the trends of the measured part of trial number `trial`, by minute; None if it is shorter than an hour."""
    seconds = run.seconds(trial)
    counted = seconds.is_measured
    lengths_s = (seconds.to_us - seconds.from_us)[counted] / 1e6
    measured_s = float(lengths_s.sum())
    if measured_s < SHORTEST_S:
        return None
    succeeded, latency_ns = seconds.succeeded[counted], seconds.latency_sum_ns[counted]
    minutes = [slice(at, at + BIN_S) for at in range(0, len(lengths_s) - BIN_S // 2 + 1, BIN_S)]
    hours = measured_s / 3600
    tps = trend([float(succeeded[of].sum() / lengths_s[of].sum()) for of in minutes], hours)
    if tps is None:
        return None
    some = succeeded > 0
    knows_latency = bool(np.all(latency_ns[some] > 0))
    means = np.divide(latency_ns, succeeded, out=np.full_like(latency_ns, np.nan), where=some)
    typical = [float(np.nanmedian(means[of])) for of in minutes if some[of].any()]
    return Endurance(hours, tps, trend(typical, hours, rising_is_worse=True) if knows_latency else None)


def trend(means: Sequence[float], hours: float, *, rising_is_worse: bool = False) -> Trend | None:
    """Return the trend of `means`, equally long and over `hours` together; None if there are too few or all are 0.

    A line is fitted to the logarithms, of which none counts as further than three spreads from the median line
    (Theil and Sen), so that an outage of the host is no trend. The variance of its slope is that of the stationary
    bootstrap (Politis and Romano 1994) of the residuals, which has a closed form, so that nothing is drawn. Blocks have
    a mean length of twice the statistical inefficiency.
    """
    values = np.asarray(means, dtype=np.float64)
    if len(values) < 3 * BLOCKS or (middle := float(np.median(values))) <= 0:
        return None
    times = np.linspace(-hours / 2, hours / 2, len(values))
    logs = _without_outliers(np.log(np.maximum(values, FLOOR * middle)), times)
    weights = times / float(times @ times)
    slope = float(weights @ logs)
    rest = logs - logs.mean() - slope * times
    block = min(max(2 * _inefficiency(rest), len(rest) ** (1 / 3)), len(rest) / BLOCKS)
    blocks = len(rest) / block
    # residuals of so few blocks vary less than the noise itself
    error = math.sqrt(_bootstrap_variance(rest, weights, block) * blocks / (blocks - 2))
    half = t_quantile(CONFIDENCE, blocks - 2) * error
    low, high = slope - half, slope + half
    worst, best = (-high, -low) if rising_is_worse else (low, high)
    if best * hours < -math.log1p(LEAST_CHANGE):
        verdict = EnduranceVerdict.DECLINES
    elif worst * hours > -math.log1p(HELD_WITHIN):
        verdict = EnduranceVerdict.HOLDS
    else:
        verdict = EnduranceVerdict.CANNOT_TELL
    return Trend(math.expm1(slope), math.expm1(low), math.expm1(min(high, 700.0)), verdict)


def _without_outliers(logs: Array, times: Array) -> Array:
    step = math.ceil(len(logs) / MOST_PAIRED)
    some, at = logs[::step], times[::step]
    first, second = np.triu_indices(len(some), 1)
    rest = logs - times * float(np.median((some[second] - some[first]) / (at[second] - at[first])))
    middle = float(np.median(rest))
    spread = 1.4826 * float(np.median(np.abs(rest - middle)))
    return logs if spread == 0 else logs - rest + np.clip(rest, middle - OUTLIER * spread, middle + OUTLIER * spread)


def _inefficiency(rest: Array) -> float:
    """Return the largest partial sum of 1 + 2 sum (1 - t / n) C(t), up to a quarter of the series.

    `intervals.statistical_inefficiency` ends where C first falls to zero, which a saw-tooth of checkpoints does within
    minutes, and so misses slower swings below it.
    """
    count = len(rest)
    power = float(rest @ rest)
    if power == 0:
        return 1.0
    lags = np.arange(1, max(int(LAGS * count), 1) + 1)
    correlation = np.array([float(rest[:-lag] @ rest[lag:]) / power * count / (count - lag) for lag in lags])
    return max(1.0, 1 + 2 * float(np.cumsum((1 - lags / count) * correlation).max()))


def _bootstrap_variance(rest: Array, weights: Array, block: float) -> float:
    """Return the variance of `weights` @ a stationary bootstrap series of `rest`, with blocks of mean length `block`.

    Two values of such a series, k apart, are from one block with probability (1 - 1 / block)^k and then k apart in
    `rest`, which is wrapped around a circle; otherwise they are independent.
    """
    count = len(rest)
    spectrum = np.fft.rfft(rest)
    circular = np.fft.irfft(spectrum * np.conj(spectrum), count) / count
    kept = (1 - 1 / block) ** np.arange(count)
    products = np.correlate(weights, weights, "full")[count - 1 :]
    terms = products * circular * kept
    return max(float(terms[0] + 2 * terms[1:].sum()), 0.0)
