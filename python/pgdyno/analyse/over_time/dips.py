"""Dips: periods well below the throughput around them, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgdyno.analyse.intervals import Array
from pgdyno.analyse.over_time.timeline import RunSource, Timeline, trial_timeline

WINDOW = 61
"""Seconds of the rolling median: a dip of up to half of it leaves the median unchanged."""
LEAST_DEPTH = 0.05
LEAST_MADS = 3.0
SHORTEST_S = 2.0


@dataclass(frozen=True, slots=True)
class Dip:
    """A period well below the throughput around it."""

    from_s: float
    """Seconds from the start of the trial, warm-up included; for a bare series, from the first value."""
    to_s: float
    depth: float
    """Depth of its deepest second, as a share of the median there: 1 if nothing succeeded."""
    loss: float
    """Transactions that were lost compared with the median."""


def dips(
    series: Sequence[float] | Array, seconds: Sequence[float] | Array | None = None, first_s: float = 0.0
) -> list[Dip]:
    """Return the dips of `series`, in transactions per second; `seconds` is the duration of each value, one if absent.

    A value counts as low if it is under median - max(5 % of the median, 3 x 1.4826 MAD): the median over 61 seconds
    around it, and the median absolute deviation of all values from theirs. A dip is a run of low values of at least 2
    s.
    """
    values = np.asarray(series, dtype=np.float64)
    if not len(values):
        return []
    lengths = np.ones(len(values)) if seconds is None else np.asarray(seconds, dtype=np.float64)
    median, edges = _low(values)
    reached = first_s + np.concatenate([[0.0], np.cumsum(lengths)])
    found = []
    for first, end in edges:
        if reached[end] - reached[first] < SHORTEST_S - 1e-6:
            continue
        missing = median[first:end] - values[first:end]
        found.append(
            Dip(
                float(reached[first]),
                float(reached[end]),
                float(np.max(missing / median[first:end])),
                float(missing @ lengths[first:end]),
            )
        )
    return found


def without_dips(values: Array) -> Array:
    """Return `values` with dips replaced by the rolling median, except at either end, where they are levels."""
    median, edges = _low(values)
    filled = values.copy()
    for first, end in edges:
        if first > 0 and end < len(values) and end - first <= WINDOW // 2:
            filled[first:end] = median[first:end]
    return filled


def _low(values: Array) -> tuple[Array, list[tuple[int, int]]]:
    """Return the rolling median, and the runs of values well below it, as half-open ranges."""
    median = rolling_median(values)
    spread = 1.4826 * float(np.median(np.abs(values - median)))
    low = values < median - np.maximum(LEAST_DEPTH * median, LEAST_MADS * spread)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], low.astype(np.int8), [0]])))
    return median, [(int(first), int(end)) for first, end in list(pairwise(edges))[::2]]


def trial_dips(run: RunSource, trial: int) -> list[Dip]:
    """Return the dips in the measured part of trial number `trial`."""
    return dips_of(trial_timeline(run, trial))


def dips_of(timeline: Timeline) -> list[Dip]:
    """Return the dips in the measured part of a trial."""
    measured = timeline.measured_part
    return dips(measured.tps, measured.to_s - measured.from_s, float(measured.from_s[0]) if len(measured) else 0.0)


def rolling_median(values: Array, window: int = WINDOW) -> Array:
    """Return the median of `window` values around each value; at the ends, of those that exist."""
    half = window // 2
    if len(values) <= window:
        padded = np.concatenate([np.full(half, np.nan), values, np.full(half, np.nan)])
        # missing values (infinity) sort after all others; nanmedian takes twenty times as long
        ordered = np.sort(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
        rows, there = np.arange(len(values)), np.sum(~np.isnan(ordered), axis=1)
        return np.asarray((ordered[rows, (there - 1) // 2] + ordered[rows, there // 2]) / 2)
    # inside, no window lacks a value, which allows a much faster function; np.median takes twice as long
    windows = np.lib.stride_tricks.sliding_window_view(values, 2 * half + 1)
    within = np.partition(windows, half, axis=1)[:, half]
    begin = rolling_median(values[: 2 * half], window)[:half]
    end = rolling_median(values[-2 * half :], window)[-half:]
    return np.concatenate([begin, within, end])
