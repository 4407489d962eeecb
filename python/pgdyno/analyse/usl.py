"""The Universal Scalability Law, where a curve allows it; beside the peak and the knee, never instead of them.

X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)): lambda is the throughput of one client, sigma the share that
waits for others (contention), kappa what keeping each other up to date costs (coherency). Gunther 2007,
"Guerrilla Capacity Planning".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analyse.correlation import Array
from pgdyno.analyse.estimate import CONFIDENCE
from pgdyno.analyse.scaling import ScalingCurve

FEWEST_COUNTS = 6
RESAMPLES = 1_999
BAND_RESAMPLES = 499
"""For a picture, whose lines are wider than what more of them would move."""
_SEED = 20_070_101


@dataclass(frozen=True, slots=True)
class Range:
    """A parameter with its 95 % interval."""

    fitted: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class UslFit:
    """A fitted curve."""

    rate: Range
    """lambda: transactions a second of one client."""
    contention: Range
    """sigma."""
    coherency: Range
    """kappa."""
    peak_clients: Range
    """sqrt((1 - sigma) / kappa)."""
    peak_tps: Range
    """X at `peak_clients`."""
    largest_error: float
    """Of a point's mean from the curve, relative: 0.1 says that the law does not describe this curve."""

    def at(self, clients: float) -> float:
        """Throughput of the fitted curve."""
        return float(usl(np.asarray([clients]), self.rate.fitted, self.contention.fitted, self.coherency.fitted)[0])


@dataclass(frozen=True, slots=True)
class NotFitted:
    """Why there is no fit."""

    reason: str


@dataclass(frozen=True, slots=True)
class UslBand:
    """The fitted curve between a curve's fewest and most clients, and its 95 % band."""

    clients: Sequence[float]
    fitted: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def usl(clients: Array, rate: float, contention: float, coherency: float) -> Array:
    """X(N) of the law."""
    return rate * clients / (1 + contention * (clients - 1) + coherency * clients * (clients - 1))


def fit_usl(points: Sequence[tuple[int, Sequence[float]]], resamples: int = RESAMPLES) -> UslFit | NotFitted:
    """The law fitted to throughputs by repeat of each number of clients.

    N / X is linear in (1, sigma, kappa) / lambda: least squares with all three not negative (Lawson and Hanson
    1974), rows divided by the measured N / X, for noise grows with throughput, and weighted with the repeats. Intervals
    by percentiles of a bootstrap over the repeats of each point (Efron 1979). Refused for fewer than 6 numbers of
    clients, and where the highest throughput is at the most clients, or the fit has no peak: it would be made up.
    """
    ordered = sorted((clients, [each for each in tps if each > 0]) for clients, tps in points)
    ordered = [(clients, tps) for clients, tps in ordered if tps]
    if len(ordered) < FEWEST_COUNTS:
        return NotFitted(f"{len(ordered)} numbers of clients, and the law needs {FEWEST_COUNTS}")
    clients = np.array([each for each, _ in ordered], dtype=np.float64)
    means = np.array([np.mean(tps) for _, tps in ordered])
    if int(np.argmax(means)) == len(means) - 1:
        return NotFitted("peak not reached: the highest throughput is at the most clients measured")
    weights = np.array([len(tps) for _, tps in ordered], dtype=np.float64)
    fitted = _solve(clients, means, weights)
    if fitted is None:
        return NotFitted("peak not reached: the fitted curve never falls")
    drawn = _resampled(clients, [np.asarray(tps) for _, tps in ordered], weights, resamples)
    ranges = [_range(value, drawn[:, at]) for at, value in enumerate(fitted)]
    errors = np.abs(usl(clients, *fitted[:3]) / means - 1)
    rate, contention, coherency, peak, top = ranges
    return UslFit(rate, contention, coherency, peak, top, float(errors.max()))


def fit_curve(curve: ScalingCurve) -> UslFit | NotFitted:
    """The law fitted to a curve of a run."""
    if any(point.summary.point.rate is not None for point in curve.points):
        return NotFitted("in open loop throughput is what the plan asks for")
    return fit_usl([(point.clients, point.summary.tps_by_trial) for point in curve.points])


def curve_band(
    curve: ScalingCurve, fit: UslFit | NotFitted, resamples: int = BAND_RESAMPLES, steps: int = 48
) -> UslBand | None:
    """Percentiles of the curves that resampled repeats give, at each of `steps` numbers of clients; None without a fit.

    The same bootstrap as that of the parameters, point by point (Efron 1979).
    """
    if isinstance(fit, NotFitted):
        return None
    clients = np.array([point.clients for point in curve.points], dtype=np.float64)
    tps = [np.asarray([each for each in point.summary.tps_by_trial if each > 0]) for point in curve.points]
    if any(not len(each) for each in tps):
        return None
    weights = np.array([len(each) for each in tps], dtype=np.float64)
    drawn = _resampled(clients, tps, weights, resamples)
    at = np.geomspace(clients[0], clients[-1], steps)
    every = np.array([usl(at, *row[:3]) for row in drawn]) if len(drawn) else np.full((1, steps), np.nan)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(every, [tail, 1 - tail], axis=0)
    fitted = [fit.at(each) for each in at]
    return UslBand(at.tolist(), fitted, low.tolist(), high.tolist()) if np.isfinite(low).all() else None


def _solve(clients: Array, tps: Array, weights: Array) -> tuple[float, float, float, float, float] | None:
    """lambda, sigma, kappa, and the peak's clients and throughput; None for a curve without one."""
    # scipy takes a while to load, and few reports have a curve that is fitted
    from scipy import optimize

    over = clients / tps
    columns = np.column_stack([np.ones_like(clients), clients - 1, clients * (clients - 1)])
    root = np.sqrt(weights)
    solved, _ = optimize.nnls(columns / over[:, None] * root[:, None], root)
    if solved[0] <= 0 or solved[2] <= 0 or solved[1] >= solved[0]:
        return None
    rate, contention, coherency = 1 / solved[0], solved[1] / solved[0], solved[2] / solved[0]
    peak = max(math.sqrt((1 - contention) / coherency), 1.0)
    top = float(usl(np.array([peak]), rate, contention, coherency)[0])
    return float(rate), float(contention), float(coherency), peak, top


def _resampled(clients: Array, tps: Sequence[Array], weights: Array, resamples: int) -> Array:
    """Solutions of resampled repeats; resamples without a peak are left out."""
    random = np.random.default_rng(_SEED)
    means = np.column_stack([each[random.integers(0, len(each), (resamples, len(each)))].mean(axis=1) for each in tps])
    return np.array([solved for row in means if (solved := _solve(clients, row, weights)) is not None]).reshape(-1, 5)


def _range(fitted: float, drawn: Array) -> Range:
    if not len(drawn):
        return Range(fitted, math.nan, math.nan)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Range(fitted, float(low), float(high))
