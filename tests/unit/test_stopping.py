"""Runs that stop when they are decided: the level of each look, Holm's procedure, and the remaining trials."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from simulations.stopping import EDGE, SPREADS, equal_design, stopped

from pgdyno.analyse.alpha_spending import look_level, look_levels
from pgdyno.analyse.comparison import Comparison, Verdict, compare
from pgdyno.analyse.gate import GateVerdict, gate
from pgdyno.analyse.noise_floor import noise_floor
from pgdyno.analyse.pairs import Arms
from pgdyno.records import StoppingRule
from pgdyno.report.answers.comparison import comparison_sentence
from pgdyno.report.answers.comparison_export import comparison_json
from tests.present import present
from tests.unit.comparison_sample import arms_of, pair_of_arms


def rule(fewest: int = 6, comparisons: int = 1, margin: float = 0.01, ended: str | None = None) -> StoppingRule:
    values = {"fewest": fewest, "most": 40, "by": "target", "metric": "tps", "comparisons": comparisons}
    return StoppingRule.model_validate({**values, "margin": margin, "ended": ended})


quantile_of = NormalDist().inv_cdf


def figures(pairs: int, effect: float, spread: float = 0.02) -> tuple[list[float], list[float]]:
    """Returns arms whose log ratios have exactly this mean and standard deviation."""
    scores = np.array([quantile_of((at + 0.5) / pairs) for at in range(pairs)])
    logs = effect + spread * (scores - scores.mean()) / scores.std(ddof=1)
    return [1_000.0] * pairs, list(1_000.0 * np.exp(logs))


def compared(arms: Arms) -> Comparison:
    (found,) = compare([arms])
    return found


@pytest.mark.long
def test_levels_are_those_of_lan_and_demets_like_pocock_and_spend_the_whole_error() -> None:
    # Jennison and Turnbull 2000, table 7.2, for equal steps; 200 numbers per look are as good as normal
    bound = -quantile_of((1 - look_levels(0.05, 200, 1_000)[0]) / 2)
    assert bound == pytest.approx(2.438, abs=0.001)
    assert look_levels(0.05, 10, 10) == pytest.approx((0.95,))
    random = np.random.default_rng(1)
    levels = np.array(look_levels(0.05, 6, 40))
    sums = np.cumsum(random.normal(size=(100_000, 40)), axis=1)[:, 5:]
    bounds = -np.array([quantile_of((1 - level) / 2) for level in levels]) * np.sqrt(np.arange(6, 41))
    crossed = float((np.abs(sums) > bounds).any(axis=1).mean())
    assert crossed == pytest.approx(0.05, abs=0.002)


def test_a_level_depends_on_the_pairs_and_the_plan_alone() -> None:
    assert look_level(0.95, 3, 6, 40) == look_level(0.95, 6, 6, 40)
    assert look_level(0.95, 50, 6, 40) == look_level(0.95, 40, 6, 40)
    assert 0.95 < look_level(0.95, 20, 6, 40) < look_level(0.99, 20, 6, 40) < 1
    with pytest.raises(ValueError, match="looks from 7 to 6"):
        look_levels(0.05, 7, 6)


@pytest.mark.parametrize("spread", SPREADS)
def test_wrong_claims_stay_below_five_percent_over_all_looks(spread: float) -> None:
    for effect in (0.0, EDGE):
        assert stopped("Pocock's spending", effect, spread, 40, 10_000).wrong(effect) <= 0.05
    # the same looks without a price are wrong more than twice as often
    assert stopped("5 % at every look", EDGE, 0.05, 40, 10_000).wrong(EDGE) > 0.1


def test_a_difference_of_five_percent_needs_less_than_a_fixed_design_of_equal_power() -> None:
    effect = math.log1p(0.05)
    for spread in (0.02, 0.03, 0.04, 0.05):
        found = stopped("Pocock's spending", effect, spread, 40, 10_000)
        assert found.pairs <= 0.6 * equal_design(min(found.faster, 1 - 1 / 10_000), effect, spread)
        # it decides sooner than the others
        for other in ("O'Brien and Fleming's", "confidence sequence"):
            assert found.pairs < stopped(other, effect, spread, 40, 10_000).pairs


def test_the_interval_of_a_run_that_could_stop_is_wider_and_says_when_it_stopped() -> None:
    arms = figures(9, 0.05)
    fixed, sequential = (compared(arms_of(arms, stopping=each)) for each in (None, rule()))
    narrow, wide = present(fixed.points[0].interval), present(sequential.points[0].interval)
    assert (narrow.level, wide.level, narrow.look_level) == (0.95, 0.95, None)
    assert wide.look_level == look_level(0.95, 9, 6, 40)
    assert wide.high - wide.low > 1.4 * (narrow.high - narrow.low)
    assert [message.id for message in sequential.warnings] == ["interval-of-looks", "decided-early"]
    assert present(sequential.points[0].detectable) > present(fixed.points[0].detectable)
    # as is the noise floor
    floors = [noise_floor(arms_of(figures(12, 0.0), stopping=each)).floor for each in (None, rule())]
    assert floors[1] > 1.3 * floors[0]
    # the sentence says when the run stopped
    found = compared(arms_of(figures(9, 0.08), stopping=rule(ended="decided")))
    assert comparison_sentence(found).endswith("9 pairs; stopped after 9 of at most 40 repeats: decided")
    shown = comparison_json(found)
    assert shown["stopping"]["most"] == 40
    assert shown["points"][0]["interval"]["look_level"] == look_level(0.95, 9, 6, 40)
    unended = comparison_sentence(compared(arms_of(figures(9, 0.0), stopping=rule())))
    assert unended.endswith("; 9 of at most 40 repeats, the run did not end")
    judged = gate(arms_of(figures(12, -0.04, 0.005), stopping=rule(margin=0.2, ended="decided")), 0.02)
    assert judged.verdict is GateVerdict.REGRESSION
    assert present(judged.points[0].compared.interval).look_level is not None


def test_no_claim_before_the_first_look_and_shares_by_holm() -> None:
    for pairs, verdict in ((9, Verdict.INCONCLUSIVE), (10, Verdict.FASTER)):
        assert compared(arms_of(figures(pairs, 0.3), stopping=rule(fewest=10))).points[0].verdict is verdict
    for margin, verdict in ((0.01, Verdict.INCONCLUSIVE), (0.03, Verdict.SAME)):
        assert compared(arms_of(figures(20, 0.0, 0.02), stopping=rule(margin=margin))).points[0].verdict is verdict
    # Holm counts points without pairs, and a decided one frees its share
    found = compared(arms_of(figures(8, 0.05), stopping=rule(comparisons=4)))
    assert present(found.points[0].interval).level == 1 - 0.05 / 4
    found = compared(arms_of(figures(8, 0.3), figures(12, 0.0), stopping=rule(comparisons=2)))
    assert [present(point.interval).level for point in found.points] == [0.975, 0.95]


def test_runs_of_checkpoint_like_noise_are_seldom_wrong() -> None:
    random = np.random.default_rng(4)
    wrong = 0
    for _ in range(60):
        base, other = pair_of_arms(random, 9, 0.0)
        looks = [compared(arms_of((base[:n], other[:n]), stopping=rule())) for n in range(6, 10)]
        wrong += any(each.points[0].verdict in (Verdict.FASTER, Verdict.SLOWER) for each in looks)
    assert wrong <= 6
