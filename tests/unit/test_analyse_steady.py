"""Steady state, change points, dips and periods, on series with known answers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pgdyno.analyse.intervals import statistical_inefficiency
from pgdyno.analyse.over_time.dips import dips, trial_dips
from pgdyno.analyse.over_time.periodicity import period_of
from pgdyno.analyse.over_time.steady_state import (
    SteadyClass,
    segments_of,
    steady_start,
    steady_state,
    trial_steady_state,
    visible_drift,
)
from pgdyno.store.seconds import MEASURE
from tests.present import present
from tests.unit.comparison_sample import Array
from tests.unit.report_sample import SampleRun, add_trial, interval_row, manifest


def noise(seed: int, count: int, correlation: float = 0.0, spread: float = 20.0) -> Array:
    """First-order autoregressive noise of a standard deviation of `spread`."""
    random = np.random.default_rng(seed)
    values = np.zeros(count)
    values[0] = random.normal(0, spread)
    for at in range(1, count):
        values[at] = correlation * values[at - 1] + random.normal(0, spread * np.sqrt(1 - correlation**2))
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_the_inefficiency_of_an_autoregressive_series_is_known(correlation: float) -> None:
    """g = (1 + r) / (1 - r)."""
    found = np.mean([statistical_inefficiency(noise(seed, 4_000, correlation)) for seed in range(20)])
    assert found == pytest.approx((1 + correlation) / (1 - correlation), rel=0.12)
    assert statistical_inefficiency(np.full(50, 3.0)) == 1.0, "of a series that never changes"


def test_a_warm_up_ends_where_it_was_put_in_the_first_half() -> None:
    for seed in range(5):
        values = 1_000 + noise(seed, 120)
        values[:30] -= np.linspace(600, 20, 30)
        start, effective = steady_start(values)
        assert 22 <= start <= 34
        assert effective > 45
    start, _ = steady_start(np.linspace(0, 1_000, 100))
    assert start <= 50


@pytest.mark.parametrize("seed", range(5))
def test_steps_are_found_where_they_are(seed: int) -> None:
    values = noise(seed, 180) + np.repeat([800.0, 1_000.0, 900.0], 60)
    ends = [segment.end for segment in segments_of(values)]
    assert len(ends) == 3
    assert ends[0] == pytest.approx(60, abs=2)
    assert ends[1] == pytest.approx(120, abs=2)


@pytest.mark.long_cases("[300]")
@pytest.mark.slow
@pytest.mark.parametrize("seconds", [30, 60, 120, 300])
def test_noise_that_remembers_is_steady(seconds: int) -> None:
    """At most one of ten, at a correlation of 0.8 from second to second."""
    found = [steady_state(list(1_000 + noise(seed, seconds, 0.8))) for seed in range(100)]
    assert sum(each is not None and each.kind is not SteadyClass.FLAT for each in found) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_large_changes_are_found_in_noise(correlation: float) -> None:
    """A step of a tenth, a drift of a fifth and a slow start, in two minutes of noise of 2 %."""
    for shape in (
        np.repeat([-100.0, 0.0], [40, 80]),
        np.linspace(-100, 100, 120),
        np.concatenate([np.linspace(-400, 0, 30), np.zeros(90)]),
    ):
        found = [steady_state(list(1_000 + shape + noise(seed, 120, correlation))) for seed in range(40)]
        assert sum(each is not None and each.kind is not SteadyClass.FLAT for each in found) >= 35


def test_classes() -> None:
    for levels, kind in (
        ([1_000, 1_000, 1_000, 1_000], SteadyClass.FLAT),
        ([600, 1_000, 1_000, 1_000], SteadyClass.WARM_UP),
        ([1_200, 1_000, 1_000, 1_000], SteadyClass.SLOWDOWN),
        ([1_000, 1_000, 1_000, 600], SteadyClass.NONE),
    ):
        lengths = [40, 40, 60, 20]
        for seed in range(5):
            assert present(steady_state(list(np.repeat(levels, lengths) + noise(seed, 160)))).kind is kind
        assert steady_state([1_000.0] * 19) is None, "too short"
    run = a_trial(list(np.concatenate([np.full(30, 500.0), np.full(60, 1_000.0)]) + noise(1, 90)))
    found = present(trial_steady_state(run, 1))
    assert found.kind is SteadyClass.WARM_UP
    assert found.start == pytest.approx(30, abs=2)


@pytest.mark.long_cases("2400-300-0.5", "300-80-0.0")
@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize(("seconds", "period"), [(60, 12), (120, 30), (300, 80), (2_400, 300)])
def test_a_saw_tooth_is_periodic(seconds: int, period: int, correlation: float) -> None:
    teeth = 300 * (np.arange(seconds) / period % 1)
    found = present(steady_state(list(1_000 + teeth + noise(1, seconds, correlation))))
    assert found.kind is SteadyClass.PERIODIC
    assert found.period_s == pytest.approx(period, rel=0.1)


def a_trial(seconds: list[float]) -> SampleRun:
    """A run of one trial with these succeeded transactions by second, after two of warm-up."""
    run = SampleRun(manifest(trials_planned=1))
    add_trial(run, "pg18", 4, 1_000, 900, seconds=len(seconds))
    warm = run.rows[1][:2]
    run.rows[1] = warm + [interval_row(1, at + 2, MEASURE, round(each)) for at, each in enumerate(seconds)]
    return run


def test_planted_dips_are_found_with_their_loss_and_shallow_or_short_ones_are_none() -> None:
    values = 1_000 + noise(3, 180, spread=10)
    values[40:44] -= 400
    values[120:127] = 0
    found = dips(list(values))
    assert [(dip.from_s, dip.to_s) for dip in found] == [(40, 44), (120, 127)]
    assert found[0].loss == pytest.approx(1_600, rel=0.05)
    assert found[1].loss == pytest.approx(7_000, rel=0.02)
    assert found[1].depth == 1.0
    # a dip is no other level
    values = 1_000 + noise(3, 120, spread=10)
    values[60:66] = 300
    steady = present(steady_state(list(values)))
    assert (steady.kind, len(steady.segments)) == (SteadyClass.FLAT, 1)
    values = np.full(120, 1_000.0)
    values[30] = 0  # one second
    values[60:70] = 960  # four per cent
    assert dips(list(values)) == []
    values[90:92] = 949
    assert len(dips(list(values))) == 1


@pytest.mark.slow
def test_noise_alone_has_hardly_any_dips() -> None:
    assert sum(len(dips(list(1_000 + noise(seed, 300, spread=50)))) for seed in range(50)) <= 10


def test_a_dip_at_an_end_is_found_whole_unless_it_lasts_half_a_minute() -> None:
    for length in (10, 20, 25, 29):
        values = np.full(120, 1_000.0)
        values[:length] = 500
        for series, span in ((values, (0, length)), (values[::-1], (120 - length, 120))):
            (found,) = dips(series)
            assert (found.from_s, found.to_s, found.loss) == (*span, 500 * length)
    for length in (31, 40, 60):
        values = np.full(120, 1_000.0)
        values[:length] = 500
        assert dips(values) == dips(values[::-1]) == []


def test_dips_after_a_phase_without_a_result_keep_their_times() -> None:
    """And those of a trial count from its start."""
    values = np.full(60, 1_000.0)
    values[20:25] = 100
    (dip,) = trial_dips(a_trial(list(values)), 1)
    assert (dip.from_s, dip.to_s, dip.loss) == (22, 27, 4_500)
    values = np.full(100, 1_000.0)
    values[28:30] = values[50:52] = values[80:85] = 100
    run = a_trial(list(values))
    run.rows[1] = [replace(row, phase="warm-up") if 32 <= row.second < 52 else row for row in run.rows[1]]
    found = trial_dips(run, 1)
    assert [(dip.from_s, dip.to_s, dip.loss) for dip in found] == [(30, 32, 1_800), (52, 54, 1_800), (82, 87, 4_500)]


@pytest.mark.parametrize("seconds", [30, 60, 120])
@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_four_of_five_trials_show_the_drift_that_is_said_to_be_visible(seconds: int, correlation: float) -> None:
    noises = [noise(seed, seconds, correlation) for seed in range(1_000, 1_040)]
    drift = 1_000 * float(np.median([visible_drift(1_000 + each) for each in noises]))
    found = [steady_state(list(1_000 + each + np.linspace(-drift / 2, drift / 2, seconds))) for each in noises]
    seen = sum(each is not None and each.kind is not SteadyClass.FLAT for each in found)
    # 80 % in the worst case, within what chance does to 40 trials
    assert seen >= 28


# ---- periods over trials ----

TIMES = 200


def found_share(series_of: Callable[[int], Array]) -> float:
    return sum(period_of(list(series_of(seed))) is not None for seed in range(TIMES)) / TIMES


@pytest.mark.long_cases("24-", "80-0.5")
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("trials", [12, 24, 80])
def test_noise_has_no_period(trials: int, correlation: float) -> None:
    assert found_share(lambda seed: noise(seed, trials, correlation) / 1_000) <= 0.04


def test_drift_and_few_or_equal_values_have_no_period() -> None:
    assert found_share(lambda seed: noise(seed, 40, 0.0) / 1_000 + np.linspace(0, 0.3, 40)) <= 0.04
    for values in ([], [1.0] * 11, [0.0] * 40):
        assert period_of(values) is None


@pytest.mark.parametrize("period", [3, 4, 6])
def test_a_disturbance_is_found_with_its_period(period: int) -> None:
    """A third of the trials is 10 % slower; a trial's noise is 2 %."""

    def disturbance(seed: int) -> Array:
        hit = (np.arange(40) + seed) % period < period / 3
        return noise(seed, 40, 0.0) / 1_000 - 0.1 * hit

    found = [period_of(list(disturbance(seed))) for seed in range(TIMES)]
    # a pulse has waves of parts of its period, too
    waves = [period / each.trials for each in found if each is not None]
    assert sum(each == pytest.approx(round(each), abs=0.1) for each in waves) >= 0.95 * TIMES
