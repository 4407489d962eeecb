"""Latency by second as counts: what a heatmap shows."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.histogram import LatencyHistogram, merge
from pgdyno.analyse.source import RunSource

BINS_A_DECADE = 10


@dataclass(frozen=True)
class Heatmap:
    """Counts of transactions by second and latency."""

    seconds: tuple[float, ...]
    """Begin of each, since the trial began, its warm-up counted."""
    edges_ns: tuple[float, ...]
    """Of the bins of latency: one more than there are bins; each a tenth of a decade."""
    counts: NDArray[np.int64]
    """By second, then by bin."""


def latency_heatmap(run: RunSource, trial: int) -> Heatmap | None:
    """Of trial number `trial`, from the histograms of its seconds, scripts merged; None where none were kept."""
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    begins = {row.second: row.from_us / 1e6 for row in run.intervals(trial)}
    merged = {at: found for at, each in sorted(blobs.items()) if at in begins and (found := merge(each)) is not None}
    if not merged:
        return None
    return heatmap_of({begins[at]: histogram for at, histogram in merged.items()})


def heatmap_of(seconds: dict[float, LatencyHistogram]) -> Heatmap:
    """Counts of `seconds`, histograms by their begin, in bins of a tenth of a decade over all that is there."""
    lows = [_bin(each.highest_ns[0]) for each in seconds.values()]
    highs = [_bin(each.highest_ns[-1]) for each in seconds.values()]
    first, bins = min(lows), max(highs) - min(lows) + 1
    counts = np.zeros((len(seconds), bins), dtype=np.int64)
    for at, histogram in enumerate(seconds.values()):
        places = np.floor(np.log10(np.maximum(histogram.highest_ns, 1)) * BINS_A_DECADE + 1e-9).astype(int) - first
        np.add.at(counts[at], places, histogram.counts)
    edges = tuple(10 ** ((first + at) / BINS_A_DECADE) for at in range(bins + 1))
    return Heatmap(tuple(seconds), edges, counts)


def _bin(latency_ns: float) -> int:
    return math.floor(math.log10(max(latency_ns, 1)) * BINS_A_DECADE + 1e-9)
