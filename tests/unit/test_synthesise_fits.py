"""Planted distributions are recovered from samples, and bad samples are fitted by something."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pgdyno.synthesise.distributions import (
    Constant,
    Distribution,
    Histogram,
    Integers,
    ScatteredZipf,
    Uniform,
    Weighted,
    Zipf,
)
from pgdyno.synthesise.fit_values import MOST_LISTED, fit, tolerance

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)
COUNT = 4_000


def sample(of: Distribution, seed: int, count: int = COUNT) -> Integers:
    return of.draw(np.random.default_rng(seed), count)


def fitted(of: Distribution, seed: int) -> Distribution:
    found = fit(sample(of, seed))
    assert found.distance <= tolerance(COUNT)
    return found.distribution


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**12), SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_uniform_range_is_recovered(low: int, width: int, seed: int) -> None:
    found = fitted(Uniform(low, low + width), seed)
    assert isinstance(found, Uniform)
    assert abs(found.low - low) <= width * 8 / COUNT + 1
    assert abs(found.high - (low + width)) <= width * 8 / COUNT + 1


@given(st.floats(0.4, 2.0), st.sampled_from([1_000, 100_000, 50_000_000]), st.booleans(), SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_exponent_of_zipf_is_recovered(exponent: float, size: int, falling: bool, seed: int) -> None:
    found = fitted(Zipf(1, size, exponent, falling), seed)
    assert isinstance(found, Zipf)
    assert found.falling is falling
    assert abs(found.exponent - exponent) < 0.05


@pytest.mark.long
@given(st.floats(0.8, 2.0), st.sampled_from([1_000, 100_000]), SEEDS)
@settings(max_examples=25, deadline=None)
@example(exponent=0.84375, size=100_000, seed=0)
def test_hot_keys_anywhere_in_the_range_are_recovered(exponent: float, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = sample(ScatteredZipf(1, size, size, exponent), seed)
    places = rng.permutation(size) + 1
    # a hot first key would be Zipf by value
    assume(100 < places[0] < size - 100)
    found = fit(places[keys - 1])
    assert isinstance(found.distribution, ScatteredZipf)
    assert found.distance <= tolerance(COUNT)
    assert abs(found.distribution.exponent - exponent) < 0.1


# of a few hundred values, one sample in forty misses the tolerance by chance
@pytest.mark.long
@given(st.floats(2.5, 6.0), st.integers(10**4, 10**9), SEEDS)
@settings(max_examples=30, deadline=None)
def test_values_around_a_middle_are_a_histogram(deviations: float, size: int, seed: int) -> None:
    drawn = np.random.default_rng(seed).normal(size / 2, size / 2 / deviations, COUNT)
    found = fit(np.clip(np.rint(drawn), 0, size).astype(np.int64))
    assert isinstance(found.distribution, Histogram)
    assert found.distance <= tolerance(COUNT)


@given(st.dictionaries(st.integers(-(10**6), 10**6), st.integers(1, 9), min_size=2, max_size=MOST_LISTED), SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_list_is_recovered(counts: dict[int, int], seed: int) -> None:
    found = fit(sample(Weighted(tuple(counts), tuple(counts.values())), seed)).distribution
    if isinstance(found, Uniform):
        # neighbours with nearly the same weight
        assert found.high - found.low < 3 * len(counts)
    else:
        assert isinstance(found, Weighted)
        assert set(found.values) <= set(counts)


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=300), SEEDS)
@settings(max_examples=50, deadline=None)
def test_any_sample_is_fitted_by_something_within_its_range(values: list[int], seed: int) -> None:
    found = fit(np.array(values, dtype=np.int64)).distribution
    drawn = sample(found, seed, 200)
    width = max(values) - min(values) + 1
    assert min(values) - 8 * width <= drawn.min() <= drawn.max() <= max(values) + 8 * width
    assert found.lines("v")[-1].startswith("\\set v ")
    assert found.describe()


def test_two_separate_ranges_are_a_histogram_and_a_constant_is_one() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.integers(1, 1_000, COUNT), rng.integers(500_000, 510_000, COUNT)])
    found = fit(values)
    assert isinstance(found.distribution, Histogram)
    assert found.distance <= tolerance(len(values))
    assert fit(np.array([7, 7, 7])).distribution == Constant(7)


def test_the_script_draws_as_pgbench_does() -> None:
    for drawn, divisor, lines in (
        (Uniform(1, 10), 1, ["\\set v random(1, 10)"]),
        (Zipf(1, 10, 1.5), 1, ["\\set v random_zipfian(1, 10, 1.5000)"]),
        (Zipf(1, 10, 1.5, falling=False), 1, ["\\set v 11 - random_zipfian(1, 10, 1.5000)"]),
        (ScatteredZipf(1, 10, 5, 1.5), 1, ["\\set v 1 + permute(random_zipfian(1, 5, 1.5000) - 1, 10, 42)"]),
        (Weighted((5, 7), (3, 1)), 1, ["\\set v_of random(1, 4)", "\\set v case when :v_of <= 3 then 5 else 7 end"]),
        (Uniform(100, 999), 100, ["\\set v (random(100, 999)) / 100.0"]),
        (Weighted((150, 275), (1, 1)), 100, ["\\set v_of random(1, 2)",
                                             "\\set v case when :v_of <= 1 then 1.5 else 2.75 end"]),
    ):  # fmt: skip
        assert drawn.lines("v", divisor) == lines
