"""Autocorrelation of a series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

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
