"""Latency histograms: decoded, merged, as percentiles and as a spectrum.

Histograms are HDR V2 blobs (https://hdrhistogram.github.io/HdrHistogram/), nanoseconds, three significant digits.
Merging adds counts bucket by bucket, so a percentile of a merge is the percentile of all its transactions. Percentiles
of parts are never averaged: the mean of two p99 is not a p99.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from pgdyno.errors import StoreError


class HistogramError(StoreError):
    """A histogram cannot be decoded: the file that contains it was changed or damaged."""


NAMED_PERCENTILES = {"p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9, "p9999": 99.99}
DIGITS = 3
MOST_NS = 1 << 62
MOST_BYTES = 512 << 10
"""Size of a decompressed histogram: at most 54,272 counts of 9 bytes."""
_COMPRESSED = struct.Struct(">ii")
"""Cookie and length before the compressed data."""
_HEADER = struct.Struct(">iiiiqqd")
"""Cookie, length, offset, digits, least and largest value, and a factor."""
_DECODING_ERRORS = (
    ValueError,
    TypeError,
    IndexError,
    zlib.error,
    HdrCookieException,
    HdrHistogramSettingsException,
    HdrLengthException,
)


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """Counts of transactions by latency: `highest_ns` (ascending) is the largest latency of each used bucket."""

    highest_ns: NDArray[np.int64]
    counts: NDArray[np.int64]

    def with_bounds(self, least_ns: int | None, most_ns: int | None) -> LatencyHistogram:
        """Return the same histogram with the bounds `least_ns` and `most_ns` (None: unknown) of its transactions.

        A bucket's upper end may exceed the slowest transaction in it, and latencies above an hour are below the fastest
        in theirs: a percentile of the result is neither above the largest latency nor below the smallest.
        """
        return LatencyHistogram(np.clip(self.highest_ns, least_ns, most_ns), self.counts)

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def max_ns(self) -> int:
        """Return the largest latency, with the accuracy of a bucket (0.1 %)."""
        return int(self.highest_ns[-1])

    def percentile_ns(self, percentile: float) -> int:
        """Return the least latency that `percentile` percent (0 to 100) of the transactions do not exceed.

        As in HDR Histogram: the highest value equivalent to the bucket in which the running count reaches
        ceil(percentile / 100 · count), at least one.
        """
        return self.percentiles_ns([percentile])[0]

    def percentiles_ns(self, percentiles: Iterable[float]) -> list[int]:
        reached = np.cumsum(self.counts)
        # a rank such as 99.9 / 100 * 1000 may be computed as 999.0000000000001
        ranks = [max(1, int(np.ceil(round(each / 100 * self.count, 6)))) for each in percentiles]
        at = np.minimum(np.searchsorted(reached, ranks), len(reached) - 1)
        return [int(value) for value in self.highest_ns[at]]

    def named_percentiles_ns(self) -> dict[str, int]:
        """Return the percentiles that records have, by their names: `p50` to `p9999`."""
        return dict(zip(NAMED_PERCENTILES, self.percentiles_ns(NAMED_PERCENTILES.values()), strict=True))


def merge(blobs: Iterable[bytes | str]) -> LatencyHistogram | None:
    """Merge all `blobs` (HDR V2 compressed, as bytes or base64) into one histogram; None if they count nothing.

    Raises HistogramError for a blob that is no such histogram.
    """
    values, counts = [], []
    for blob in blobs:
        of_blob = _decode(blob)
        values.append(of_blob[0])
        counts.append(of_blob[1])
    if not any(len(each) for each in values):
        return None
    highest, place = np.unique(np.concatenate(values), return_inverse=True)
    total = np.zeros(len(highest), dtype=np.int64)
    np.add.at(total, place, np.concatenate(counts))
    return LatencyHistogram(highest, total)


def _check_size(content: bytes) -> None:
    """Raise ValueError for a histogram larger than one of three digits: 54,272 counts."""
    inflated = zlib.decompressobj().decompress(content[_COMPRESSED.size :], MOST_BYTES + 1)
    if len(inflated) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    if len(inflated) < _HEADER.size:
        raise ValueError("it is truncated")
    _, _, _, digits, least, most, _ = _HEADER.unpack_from(inflated)
    if not (1 <= digits <= DIGITS and least >= 1 and 2 * least <= most <= MOST_NS):
        raise ValueError(f"it has {digits} digits, from {least} to {most}")


def _decode(blob: bytes | str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the used buckets of one blob: the highest latency equivalent to each, and its count."""
    wrapped = blob if isinstance(blob, str) or blob[:4] == b"HIST" else base64.b64encode(blob)
    try:
        _check_size(base64.b64decode(wrapped))
        histogram = HdrHistogram.decode(wrapped)
    except _DECODING_ERRORS as error:
        raise HistogramError(f"cannot read a latency histogram: {str(error) or 'it is not HDR V2'}") from error
    if histogram is None:
        raise HistogramError("cannot read a latency histogram: it is not HDR V2")
    counts = np.frombuffer(histogram.encoder.payload.counts, dtype=f"i{histogram.word_size}").astype(np.int64)
    # the two reference each other: half a megabyte would wait for the garbage collector
    histogram.encoder = None
    used = np.flatnonzero(counts)
    # the bucket's index gives its bounds: half of the sub-buckets of each power of two are the next one's lower half
    half = 1 << histogram.sub_bucket_half_count_magnitude
    power = np.maximum((used >> histogram.sub_bucket_half_count_magnitude) - 1, 0)
    sub = np.where(used < half, used, (used & (half - 1)) + half)
    width = power + histogram.unit_magnitude
    return ((sub + 1) << width) - 1, counts[used]


STEPS_A_HALVING = 5
"""Steps while the distance to 100 % halves; the default of HDR Histogram's percentile iterator."""


@dataclass(frozen=True, slots=True)
class SpectrumPoint:
    """Latency that `percentile` percent of the transactions do not exceed."""

    percentile: float
    latency_ns: int

    @property
    def axis(self) -> float:
        """Return the position on the HDR axis: log10(1 / (1 - percentile / 100)); 0 at 0, 2 at 99, infinite at 100."""
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
