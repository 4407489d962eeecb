"""Latency over time as counts, for a heatmap."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.histogram import LatencyHistogram, merge
from pgdyno.analyse.source import MEASURE, WARM_UP, RunSource
from pgdyno.analyse.timeline import bounds
from pgdyno.store.tables import IntervalRow

BINS_A_DECADE = 20


@dataclass(frozen=True)
class Heatmap:
    """Counts of transactions by step of time and latency."""

    seconds: tuple[float, ...]
    """Start of each step, since the trial began, its warm-up included."""
    end_s: float
    steps: tuple[LatencyHistogram | None, ...]
    """Each step's complete histogram; None if nothing succeeded."""
    edges_ns: tuple[float, ...]
    """Edges of the latency bins, one more than there are bins; each bin is a twentieth of a decade."""
    counts: NDArray[np.int64]
    """By step, then by bin."""


def latency_heatmap(run: RunSource, trial: int, most: int | None = None) -> Heatmap | None:
    """Return the heatmap of trial number `trial`, from the histograms of its seconds with scripts merged; None without
    any.

    Steps are seconds, or so many of them that there are at most `most`.
    """
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    rows: dict[int, list[IntervalRow]] = defaultdict(list)
    for interval in run.intervals(trial):
        if interval.phase in (MEASURE, WARM_UP):
            rows[interval.second].append(interval)
    if not blobs or not rows:
        return None
    ordered = sorted(rows)
    each = 1 if most is None else math.ceil(len(ordered) / most)
    found: dict[float, LatencyHistogram | None] = {}
    for group in (ordered[at : at + each] for at in range(0, len(ordered), each)):
        merged = merge(blob for second in group for blob in blobs.get(second, ()))
        of_group = [row for second in group for row in rows[second]]
        found[of_group[0].from_us / 1e6] = merged and merged.within(*bounds(of_group))
    return heatmap_of(found, rows[ordered[-1]][-1].to_us / 1e6) if any(found.values()) else None


def heatmap_of(steps: Mapping[float, LatencyHistogram | None], end_s: float) -> Heatmap:
    """Return the counts of `steps`, histograms by their start, in bins of a twentieth of a decade over all latencies.

    At least one of them has a transaction.
    """
    there = [each for each in steps.values() if each is not None]
    first = min(_bin(each.highest_ns[0]) for each in there)
    bins = max(_bin(each.highest_ns[-1]) for each in there) - first + 1
    counts = np.zeros((len(steps), bins), dtype=np.int64)
    for at, histogram in enumerate(steps.values()):
        if histogram is not None:
            places = np.floor(np.log10(np.maximum(histogram.highest_ns, 1)) * BINS_A_DECADE + 1e-9).astype(int) - first
            np.add.at(counts[at], places, histogram.counts)
    edges = [10 ** ((first + at) / BINS_A_DECADE) for at in range(bins + 1)]
    return Heatmap(tuple(steps), end_s, tuple(steps.values()), tuple(edges), counts)


def _bin(latency_ns: float) -> int:
    return math.floor(math.log10(max(latency_ns, 1)) * BINS_A_DECADE + 1e-9)
