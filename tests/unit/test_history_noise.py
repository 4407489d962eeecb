"""Change points of histories with realistic noise: outliers, and runs that resemble the run before."""

import numpy as np
import pytest

from pgdyno.analyse.history import change_points
from tests.unit.test_analyse_steady import noise


def test_two_bad_runs_are_no_change() -> None:
    figures = 1_000 + noise(1, 100, spread=20)
    figures[[40, 41]] *= 0.7
    assert change_points(list(figures)) == ()


def test_three_bad_runs_are_a_level() -> None:
    figures = 1_000 + noise(1, 100, spread=10)
    figures[40:43] *= 0.7
    assert [each.at for each in change_points(list(figures)) or ()] == [40, 43]


@pytest.mark.parametrize("correlation", [0.3, 0.5])
def test_noise_that_remembers_the_run_before_is_no_change(correlation: float) -> None:
    alarmed = sum(bool(change_points(list(1_000 + noise(seed, 100, correlation, 20)))) for seed in range(60))
    assert alarmed <= 4


def test_a_step_is_found_after_an_outlier() -> None:
    random = np.random.default_rng(1)
    found = 0
    for _ in range(40):
        figures = 1_000 * np.exp(random.normal(0, 0.02, 60))
        figures[30:] *= 0.92
        figures[24] *= 0.8
        found += [abs(each.at - 30) <= 1 for each in change_points(list(figures)) or ()] == [True]
    assert found >= 37
