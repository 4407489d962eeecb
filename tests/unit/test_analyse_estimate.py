import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.analyse.intervals import Estimate, central_probability, mean_interval, two_sided_quantile

# from published tables of Student's t, two-sided
TABLE = [
    (0.95, 1, 12.7062), (0.95, 2, 4.3027), (0.95, 3, 3.1824), (0.95, 4, 2.7764), (0.95, 9, 2.2622),
    (0.95, 30, 2.0423), (0.95, 120, 1.9799), (0.90, 5, 2.0150), (0.99, 1, 63.6567), (0.99, 10, 3.1693),
]  # fmt: skip


@pytest.mark.parametrize(("confidence", "df", "quantile"), TABLE)
def test_quantiles_are_those_of_the_tables(confidence: float, df: int, quantile: float) -> None:
    assert two_sided_quantile(confidence, df) == pytest.approx(quantile, abs=6e-5)


@given(st.floats(0.01, 0.999), st.integers(1, 200))
def test_a_quantile_has_its_probability(confidence: float, df: int) -> None:
    assert central_probability(two_sided_quantile(confidence, df), df) == pytest.approx(confidence, abs=1e-9)


@pytest.mark.parametrize(("confidence", "df"), [(0.0, 3), (1.0, 3), (0.95, 0)])
def test_there_is_no_quantile_outside_of_the_distribution(confidence: float, df: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        two_sided_quantile(confidence, df)


def test_the_interval_is_t_times_the_standard_error() -> None:
    # s = 2, n = 4: 3.1824 * 2 / 2
    estimate = mean_interval([8.0, 12.0, 10.0 - math.sqrt(2), 10.0 + math.sqrt(2)])
    assert estimate.mean == pytest.approx(10)
    assert estimate.half == pytest.approx(3.1824, abs=1e-3)
    assert estimate.low == pytest.approx(10 - 3.1824, abs=1e-3)
    assert estimate.n == 4
    assert estimate.high == pytest.approx(10 + 3.1824, abs=1e-3)


def test_one_value_has_no_interval() -> None:
    assert mean_interval([5.0]) == Estimate(5.0, None, 1)
    assert (mean_interval([5.0]).low, mean_interval([5.0]).high) == (5.0, 5.0)


def test_alike_values_have_an_interval_of_nothing() -> None:
    assert mean_interval([5.0, 5.0, 5.0]).half == 0


def test_no_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        mean_interval([])


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (Estimate(10, 1, 3), Estimate(12, 1, 3), True),
        (Estimate(10, 1, 3), Estimate(12, 0.9, 3), False),
        (Estimate(10, None, 1), Estimate(10.5, 1, 3), True),
        (Estimate(10, None, 1), Estimate(11, None, 1), False),
    ],
)
def test_intervals_overlap_when_they_share_a_value(one: Estimate, other: Estimate, *, overlap: bool) -> None:
    assert one.overlaps(other) is overlap
    assert other.overlaps(one) is overlap
