"""Periods are found where they are, and not in noise, drift or noise with a memory."""

from collections.abc import Callable

import numpy as np
import pytest

from pgdyno.analyse.over_time.periodicity import period_of
from tests.unit.test_analyse_steady import noise

TIMES = 200


def found_share(series_of: Callable[[int], np.ndarray[tuple[int], np.dtype[np.float64]]]) -> float:
    return sum(period_of(list(series_of(seed))) is not None for seed in range(TIMES)) / TIMES


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("trials", [12, 24, 80])
def test_noise_has_no_period(trials: int, correlation: float) -> None:
    assert found_share(lambda seed: noise(seed, trials, correlation) / 1_000) <= 0.04


def test_drift_is_no_period() -> None:
    assert found_share(lambda seed: noise(seed, 40, 0.0) / 1_000 + np.linspace(0, 0.3, 40)) <= 0.04


@pytest.mark.parametrize("period", [3, 4, 6])
def test_a_disturbance_is_found_with_its_period(period: int) -> None:
    """A third of the trials is 10 % slower; a trial's noise is 2 %."""

    def disturbance(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        hit = (np.arange(40) + seed) % period < period / 3
        return noise(seed, 40, 0.0) / 1_000 - 0.1 * hit

    found = [period_of(list(disturbance(seed))) for seed in range(TIMES)]
    # a pulse has waves of parts of its period, too
    whole = [
        each
        for each in found
        if each is not None and period / each.trials == pytest.approx(round(period / each.trials), abs=0.1)
    ]
    assert len(whole) >= 0.95 * TIMES


@pytest.mark.parametrize("values", [[], [1.0] * 11, [0.0] * 40])
def test_few_or_equal_values_have_no_period(values: list[float]) -> None:
    assert period_of(values) is None
