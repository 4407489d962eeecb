"""Periods of disturbances in a series of trials."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHORTEST = 2
"""In trials. What comes more often cannot be told from what comes less often."""
LONGEST = 8
"""In trials. What comes less often looks like drift."""
FEWEST = 12
"""Trials in which a period can be found."""
CERTAINTY = 0.99
"""Confidence that the period is not chance."""
_STEPS = 4
"""Frequencies tried per independent one."""


@dataclass(frozen=True, slots=True)
class Period:
    """A wave in a series."""

    trials: float
    """Its length."""
    amplitude: float
    """Half of the difference between its highest and its lowest value, in the unit of the series."""


def period_of(values: Sequence[float]) -> Period | None:
    """Return the wave of 2 to 8 trials that explains most of `values`, one per trial in the order of their starts.

    A line through the values and their first-order autocorrelation, where it is positive, are removed first, so that
    drift and noise with a memory are no waves. A wave that explains a share R² of n values counts if n (1 - R²)^((n -
    4) / 2) <= 1 %: the chance that white noise has as strong a one at any of n frequencies (Scargle 1982). None if
    no wave counts, or for fewer than 12 values.
    """
    n = len(values)
    if n < FEWEST:
        return None
    places = np.arange(n, dtype=np.float64)
    series = _without_memory(_residuals(np.asarray(values, dtype=np.float64), np.stack([np.ones(n), places], axis=1)))
    squares = float(series @ series)
    if squares < n * np.finfo(float).eps:
        return None
    best, frequency = 0.0, 0.0
    for tried in np.arange(1 / LONGEST, 1 / SHORTEST + 1e-9, 1 / (_STEPS * n)):
        rest = _residuals(series, _wave(places, tried))
        share = 1 - float(rest @ rest) / squares
        if share > best:
            best, frequency = share, float(tried)
    if n * (1 - min(best, 1.0)) ** ((n - 4) / 2) > 1 - CERTAINTY:
        return None
    wave = series - _residuals(series, _wave(places, frequency))
    return Period(1 / frequency, math.sqrt(2 * float(wave @ wave) / n))


def _wave(places: Array, frequency: float) -> Array:
    angle = 2 * math.pi * frequency * places
    return np.stack([np.ones(len(places)), np.cos(angle), np.sin(angle)], axis=1)


def least_squares(series: Array, columns: Array) -> Array:
    """Return the combination of `columns`, of shape (values, columns), that is nearest to `series`."""
    return np.asarray(columns @ np.linalg.lstsq(columns, series, rcond=None)[0])


def _residuals(series: Array, columns: Array) -> Array:
    return series - least_squares(series, columns)


def _without_memory(series: Array) -> Array:
    squares = float(series @ series)
    memory = float(series[1:] @ series[:-1]) / squares if squares else 0.0
    if memory > 0:
        series = np.concatenate([series[:1], series[1:] - memory * series[:-1]])
    return np.asarray(series - series.mean())
