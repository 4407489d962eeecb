"""Quantiles and intervals; how often these contain the true value and verdicts are wrong, by simulation."""

import math
from collections import Counter

import numpy as np
import pytest

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.gate import Gate, GateVerdict, gate
from pgdyno.analyse.intervals import Estimate, mean_interval, paired_interval, two_sided_quantile  # fmt: skip
from tests.present import present
from tests.unit.comparison_sample import Array, arms_of, checkpointed, pair_of_arms


def test_quantiles_are_those_of_the_tables_within_the_distribution() -> None:
    # from published tables of Student's t, two-sided
    for confidence, df, quantile in (
        (0.95, 1, 12.7062), (0.95, 2, 4.3027), (0.95, 3, 3.1824), (0.95, 4, 2.7764), (0.95, 9, 2.2622),
        (0.95, 30, 2.0423), (0.95, 120, 1.9799), (0.90, 5, 2.0150), (0.99, 1, 63.6567), (0.99, 10, 3.1693),
    ):  # fmt: skip
        assert two_sided_quantile(confidence, df) == pytest.approx(quantile, abs=6e-5)
    for confidence, df in ((0.0, 3), (1.0, 3), (0.95, 0)):
        with pytest.raises(ValueError, match="must be"):
            two_sided_quantile(confidence, df)


def test_the_interval_of_a_mean_is_t_times_the_standard_error() -> None:
    # s = 2, n = 4: 3.1824 * 2 / 2
    estimate = mean_interval([8.0, 12.0, 10.0 - math.sqrt(2), 10.0 + math.sqrt(2)])
    assert estimate.mean == pytest.approx(10)
    assert estimate.half == pytest.approx(3.1824, abs=1e-3)
    assert estimate.low == pytest.approx(10 - 3.1824, abs=1e-3)
    assert estimate.n == 4
    assert estimate.high == pytest.approx(10 + 3.1824, abs=1e-3)
    found = mean_interval([5.0])
    assert found == Estimate(5.0, None, 1)
    assert (found.low, found.high) == (5.0, 5.0)
    assert mean_interval([5.0, 5.0, 5.0]).half == 0
    with pytest.raises(ValueError, match="at least one"):
        mean_interval([])
    for one, other, overlap in (
        (Estimate(10, 1, 3), Estimate(12, 1, 3), True),
        (Estimate(10, 1, 3), Estimate(12, 0.9, 3), False),
        (Estimate(10, None, 1), Estimate(10.5, 1, 3), True),
        (Estimate(10, None, 1), Estimate(11, None, 1), False),
    ):
        assert one.overlaps(other) is overlap
        assert other.overlaps(one) is overlap


# ---- simulations ----

TRIALS = {6: 4_000, 10: 1_500, 20: 1_000}
"""Simulations by number of pairs: a bootstrap takes a thousand times as long as a t interval."""
RESAMPLES = 1_999


def normal(random: np.random.Generator, n: int) -> Array:
    return random.normal(0.0, 0.02, n)


def checkpoints(random: np.random.Generator, n: int) -> Array:
    return checkpointed(random, (n,)) - checkpointed(random, (n,))


@pytest.mark.slow
@pytest.mark.long_cases("10]", "20]", "checkpoints")
@pytest.mark.parametrize("n", TRIALS)
@pytest.mark.parametrize("noise", [normal, checkpoints])
def test_95_of_100_intervals_hold_the_truth(n: int, noise: object) -> None:
    random = np.random.default_rng(n)
    draw = checkpoints if noise is checkpoints else normal
    held = 0
    for _ in range(TRIALS[n]):
        found = present(paired_interval(list(draw(random, n)), 0.95, RESAMPLES))
        held += found.low <= 0 <= found.high
    # 95 % ± 1.5, and twice the error that so many simulations have themselves
    assert held / TRIALS[n] == pytest.approx(0.95, abs=0.015 + 2 * math.sqrt(0.95 * 0.05 / TRIALS[n]))


def verdicts(effect: float, n: int, times: int, points: int = 1, seed: int = 0) -> Counter[Verdict]:
    random = np.random.default_rng(seed)
    found: Counter[Verdict] = Counter()
    for _ in range(times):
        arms = arms_of(*(pair_of_arms(random, n, effect) for _ in range(points)))
        claims = {point.verdict for point in compare([arms])[0].points}
        for verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME):
            found[verdict] += verdict in claims
    return found


@pytest.mark.slow
@pytest.mark.long
def test_false_claims_stay_rare_over_seven_points() -> None:
    found = verdicts(0.0, 8, 200, points=7)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= 10


@pytest.mark.slow
@pytest.mark.long
def test_a_difference_at_the_edge_is_claimed_in_one_of_forty() -> None:
    """The worst case of a false claim: a true difference of exactly delta."""
    found = verdicts(0.01, 8, 2_000)
    assert found[Verdict.FASTER] / 2_000 == pytest.approx(0.025, abs=0.01)
    assert found[Verdict.SAME] / 2_000 <= 0.035
    assert found[Verdict.SLOWER] == 0


@pytest.mark.slow
def test_a_gate_finds_twice_its_limit_as_often_as_said() -> None:
    """The chance is that of an upper end of the spread, so four of five gates find more."""
    random = np.random.default_rng(3)
    limit, spread, n = 0.05, 0.05, 8

    def judged(loss: float) -> Gate:
        ratios = np.exp(random.normal(math.log(1 - loss), spread, n))
        return gate(arms_of(([1_000.0] * n, list(1_000 * ratios))), limit)

    said = [judged(0.0).power for _ in range(500)]
    lost = [judged(1 - 1 / (1 + 2 * limit)) for _ in range(1_000)]
    found = sum(each.verdict is GateVerdict.REGRESSION for each in lost) / len(lost)
    assert float(np.quantile(said, 0.8)) == pytest.approx(found, abs=0.06)


@pytest.mark.slow
def test_a_real_difference_is_found_as_often_as_said_and_never_turned_round() -> None:
    """Four of five runs name a difference that a new run finds with a chance of 80 % or more."""
    random = np.random.default_rng(9)
    said = [compare([arms_of(pair_of_arms(random, 8))])[0].points[0].detectable for _ in range(300)]
    effect = float(np.quantile([each for each in said if each is not None], 0.2))
    found = verdicts(effect, 8, 1_000, seed=4)
    assert found[Verdict.FASTER] / 1_000 == pytest.approx(0.8, abs=0.06)
    assert found[Verdict.SLOWER] == 0
    assert math.isclose(effect, 0.036, abs_tol=0.02)
