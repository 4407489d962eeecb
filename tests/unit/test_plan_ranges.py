"""Ranges of a sweep."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgdyno.plan.sweeps.spec import MOST_VALUES, expand_range


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..4", "1 2 3 4"),
        (" 2 .. 10  step  4 ", "2 6 10"),
        ("2..9 step 4", "2 6"),
        ("1..16 doubling", "1 2 4 8 16"),
        ("3..20 doubling", "3 6 12"),
        ("7..7", "7"),
        ("0..1 step 0.25", "0 0.25 0.5 0.75 1"),
        ("1GB..4GB doubling", "1GB 2GB 4GB"),
        ("1..3GB", "1GB 2GB 3GB"),
        ("64MB..256MB step 64", "64MB 128MB 192MB 256MB"),
        ("64MB..192MB step 64MB", "64MB 128MB 192MB"),
    ],
)
def test_values_of_ranges(text: str, values: str) -> None:
    assert expand_range(text) == values.split()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1..", "is not a range; write"),
        ("..8", "is not a range"),
        ("1...8", "is not a range"),
        ("1..8 step", "is not a range"),
        ("1..8 stepp 2", "is not a range"),
        ("-1..8", "is not a range"),
        ("1..8 step 0", "a step of 0"),
        ("8..1", "ends before it begins; write 1..8"),
        ("0..8 doubling", "never leaves 0"),
        ("1MB..8GB", "mixes units; write both ends in MB"),
        ("1MB..8MB step 1kB", "mixes units"),
        ("1..1000000", "1,000,000 values"),
    ],
)
def test_malformed_ranges(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        expand_range(text)


@given(low=st.integers(0, 10**6), steps=st.integers(0, 300), step=st.integers(1, 10**6), more=st.integers(0, 10**6))
def test_steps_are_even_and_the_ends_are_kept(low: int, steps: int, step: int, more: int) -> None:
    assume(more < step)
    values = [int(each) for each in expand_range(f"{low}..{low + steps * step + more} step {step}")]
    assert values == list(range(low, low + steps * step + more + 1, step))


@given(low=st.integers(1, 1000), high=st.integers(1, 10**9))
def test_doubling_stays_within_the_ends(low: int, high: int) -> None:
    assume(low <= high)
    values = [int(each) for each in expand_range(f"{low}..{high} doubling")]
    assert values[0] == low
    assert all(after == 2 * before for before, after in pairwise(values))
    assert values[-1] <= high < 2 * values[-1]


@given(low=st.decimals(0, 10, places=3), step=st.decimals("0.001", 5, places=3), count=st.integers(0, 50))
def test_decimals_do_not_drift(low: Decimal, step: Decimal, count: int) -> None:
    values = expand_range(f"{low}..{low + step * count} step {step}")
    assert [Decimal(each) for each in values] == [low + step * place for place in range(count + 1)]


def test_the_most_values_are_allowed() -> None:
    assert len(expand_range(f"1..{MOST_VALUES}")) == MOST_VALUES
