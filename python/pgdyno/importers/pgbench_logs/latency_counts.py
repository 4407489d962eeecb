"""Counts of a log's transactions by latency bucket."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from pgdyno.records import Latency

LONGEST_NS = 3_600_000_000_000
"""Longer latencies are put into the last bucket, as in the engine."""
DIGITS = 3
"""Significant digits, as in the engine's histograms."""
EXACT_BITS = 11
"""Latencies below 2^11 ns have a bucket each; from 2^n to 2^(n+1) there are 2^10 buckets."""
_HALF = 1 << (EXACT_BITS - 1)
_QUANTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}


@dataclass(frozen=True, slots=True)
class LogCounts:
    """The succeeded transactions of a period."""

    n: int
    sum_ns: int
    squares_ms: float
    """Sum of the squares of latencies in milliseconds."""
    least: int | None
    most: int | None
    """In ns; None if there are none."""
    buckets: NDArray[np.int64]
    """Lowest latency of each bucket, in ns, ascending."""
    shifts: NDArray[np.int64]
    """log2 of the width of each."""
    counts: NDArray[np.int64]
    """Transactions in each."""

    @classmethod
    def from_rows(cls, columns: Mapping[str, NDArray[Any]], part: slice) -> LogCounts:
        """Build counts from rows of buckets: `n`, `sum_ns`, `squares_ms`, `least`, `most`, `shift`, `bucket`."""
        n = columns["n"][part].astype(np.int64)
        some = bool(n.size)
        return cls(
            int(n.sum()),
            int(columns["sum_ns"][part].sum()),
            float(columns["squares_ms"][part].sum()),
            int(columns["least"][part].min()) if some else None,
            int(columns["most"][part].max()) if some else None,
            columns["bucket"][part].astype(np.int64),
            columns["shift"][part].astype(np.int64),
            n,
        )

    def percentiles(self, wanted: Sequence[float]) -> list[int | None]:
        """Return the highest latency of the bucket of each percentile in `wanted`; None without transactions."""
        if self.n == 0:
            return [None] * len(wanted)
        ranks = [max(1, math.ceil(round(each / 100 * self.n, 6))) for each in wanted]
        at = np.searchsorted(np.cumsum(self.counts), ranks)
        ends = (int(self.buckets[place] + (1 << self.shifts[place]) - 1) for place in at)
        # a bucket's end may exceed the largest latency, a percentile must not
        return [min(end, self.most) if self.most is not None else end for end in ends]

    def latency(self) -> Latency | None:
        if self.n == 0:
            return None
        mean_ms = self.sum_ns / 1e6 / self.n
        variance = max(self.squares_ms / self.n - mean_ms * mean_ms, 0.0)
        percentiles = dict(zip(_QUANTILES, self.percentiles(list(_QUANTILES.values())), strict=True))
        return Latency(
            mean=mean_ms * 1e6, stddev=math.sqrt(variance) * 1e6, min=self.least, max=self.most, **percentiles
        )

    def histogram(self) -> bytes:
        histogram = HdrHistogram(1, LONGEST_NS, DIGITS)
        slots = np.frombuffer(histogram.counts, dtype=np.int64)
        places = ((self.shifts + 1) << (EXACT_BITS - 1)) + (self.buckets >> self.shifts) - _HALF
        # a latency of more than an hour goes into the last slot
        places = np.minimum(places, histogram.get_counts_array_index(LONGEST_NS))
        np.add.at(slots, places, self.counts)
        used = np.flatnonzero(slots)
        histogram.set_internal_tacking_values(int(used[0]), int(used[-1]), self.n)
        return base64.b64decode(histogram.encode())


def counts_by_key(
    columns: Mapping[str, NDArray[Any]], names: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], LogCounts]]:
    """Return the counts of each value of columns `names`, by which the rows are sorted."""
    keys = np.stack([columns[name].astype(np.int64) for name in names])
    if keys.shape[1] == 0:
        return
    ends = [*(np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1), keys.shape[1]]
    begin = 0
    for end in ends:
        yield tuple(int(value) for value in keys[:, begin]), LogCounts.from_rows(columns, slice(begin, int(end)))
        begin = int(end)
