import base64
import math
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.analyse.histogram import HistogramError, LatencyHistogram, axis_of, merge, spectrum

HIGHEST_NS = 3_600_000_000_000
LATENCIES = st.lists(st.integers(1, 10_000_000_000), min_size=1, max_size=60)


def hdr(values: list[int], highest: int = HIGHEST_NS) -> Any:  # noqa: ANN401 - the package has no types
    histogram = HdrHistogram(1, highest, 3)
    for value in values:
        histogram.record_value(value)
    return histogram


def merged(*blobs: bytes | str) -> LatencyHistogram:
    histogram = merge(blobs)
    assert histogram is not None
    return histogram


@given(LATENCIES, LATENCIES)
def test_a_percentile_of_a_merge_is_that_of_all_values_together(one: list[int], other: list[int]) -> None:
    reference = hdr([*one, *other])
    histogram = merged(hdr(one).encode(), hdr(other).encode())
    ordered = sorted([*one, *other])
    assert histogram.count == len(ordered)
    for percentile in (0, 10, 50, 90, 99, 100):
        rank = max(1, math.ceil(percentile * len(ordered) / 100))
        assert histogram.percentile_ns(percentile) == reference.get_highest_equivalent_value(ordered[rank - 1])


@given(LATENCIES, LATENCIES)
def test_no_percentile_is_beyond_the_least_and_the_greatest(one: list[int], other: list[int]) -> None:
    least, most = min(*one, *other), max(*one, *other)
    histogram = merged(hdr(one).encode(), hdr(other).encode())
    within = histogram.with_bounds(least, most)
    assert (within.count, within.max_ns, within.percentile_ns(100)) == (histogram.count, most, most)
    found = within.percentiles_ns([0, 1, 50, 90, 99, 99.99, 100])
    assert found == sorted(found)
    assert least <= found[0] <= found[-1] <= most
    assert [point.latency_ns for point in spectrum(within)][-1] == most


def test_merges_are_no_averages_read_each_form_and_keep_ranks_and_long_latencies() -> None:
    fast, slow = hdr([1_000] * 990 + [2_000] * 10), hdr([100_000] * 100)
    assert merged(fast.encode(), slow.encode()).percentile_ns(99) == pytest.approx(100_000, rel=1e-3)
    # of other bounds
    histogram = merged(hdr([1_500]).encode(), hdr([2_000_000], highest=10_000_000).encode())
    assert histogram.percentiles_ns([50, 100]) == [pytest.approx(1_500, rel=1e-3), pytest.approx(2_000_000, rel=1e-3)]
    # as bytes and as base64
    text = hdr([1_000, 2_000]).encode()
    assert merged(text, text.decode(), base64.b64decode(text)).count == 6
    assert merge([]) is merge([hdr([]).encode()]) is None
    # the engine's histogram ends at an hour; what is exact are the least and the greatest
    within = merged(hdr([HIGHEST_NS] * 3).encode()).with_bounds(2 * HIGHEST_NS, 3 * HIGHEST_NS)
    assert within.percentiles_ns([50, 100]) == [2 * HIGHEST_NS] * 2
    # 99.9 / 100 * 1000 is a little over 999 in binary
    assert merged(hdr([1_000] * 999 + [5_000_000]).encode()).percentile_ns(99.9) == pytest.approx(1_000, rel=1e-3)


def test_a_blob_that_is_no_histogram_is_an_error() -> None:
    for blob in (b"", b"HIST", b"HISTFAAA", b"x" * 60, "%%%", base64.b64decode(hdr([5]).encode())[:-3]):
        with pytest.raises(HistogramError, match="cannot read a latency histogram"):
            merge([blob])


def test_the_spectrum_halves_its_steps_and_its_axis_has_one_for_each_nine() -> None:
    points = spectrum(merged(hdr(list(range(1_000, 1_001_000, 1_000))).encode()))
    percentiles = [point.percentile for point in points]
    assert (percentiles[:6], percentiles[10:12]) == ([0, 10, 20, 30, 40, 50], [75, 77.5])
    assert percentiles[-1] == 100
    assert max(percentiles[:-1]) <= 99.9
    assert [point.latency_ns for point in points] == sorted(point.latency_ns for point in points)
    assert [axis_of(percentile) for percentile in (0, 90, 99, 99.9)] == pytest.approx([0, 1, 2, 3])
    assert axis_of(100) == math.inf
