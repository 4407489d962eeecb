"""The percentile spectrum: latency by percentile, with finer steps towards 100."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgdyno.analyse.histogram import LatencyHistogram

STEPS_A_HALVING = 5
"""Steps while the distance to 100 % halves; the default of HDR Histogram's percentile iterator."""


@dataclass(frozen=True, slots=True)
class SpectrumPoint:
    """Latency that `percentile` percent of the transactions do not exceed."""

    percentile: float
    latency_ns: int

    @property
    def axis(self) -> float:
        """Return the position on the HDR axis: log10(1 / (1 - percentile / 100)); 0 at 0, 1 at 90, 2 at 99; infinite at
        100.
        """
        return axis_of(self.percentile)


def axis_of(percentile: float) -> float:
    """Return the position of a percentile on the HDR axis."""
    return math.inf if percentile >= 100 else -math.log10(1 - percentile / 100)


def spectrum(histogram: LatencyHistogram) -> list[SpectrumPoint]:
    """Return percentiles 0 to 100 with their latencies.

    From 0 to 50 in five steps, from 50 to 75 in five, from 75 to 87.5 in five, and so on (HdrHistogram,
    `percentileTicksPerHalfDistance`), until a single transaction is resolved: the last before 100 is at most 100 (1 - 1
    / count).
    """
    last = 100 * (1 - 1 / histogram.count)
    percentiles, start = [], 0.0
    while start <= last:
        step = (100 - start) / 2 / STEPS_A_HALVING
        percentiles += [start + step * at for at in range(STEPS_A_HALVING) if start + step * at <= last]
        start += step * STEPS_A_HALVING
    percentiles.append(100.0)
    latencies = histogram.percentiles_ns(percentiles)
    return [SpectrumPoint(each, latency) for each, latency in zip(percentiles, latencies, strict=True)]
