"""The Universal Scalability Law: recovered from synthetic curves, refused where a curve does not determine it."""

import numpy as np
import pytest

from pgdyno.analyse.scaling import NotFitted, UslFit, fit_curve, fit_usl, scaling, usl
from pgdyno.analyse.summary import summarise
from tests.unit.report_sample import sweep

CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128)
Points = list[tuple[int, list[float]]]


def curve(
    seed: int, rate: float, sigma: float, kappa: float, spread: float = 0.02, repeats: int = 4, misfit: float = 0.0
) -> Points:
    """Returns trials of the law's throughput, of which each number of clients deviates by its own `misfit`."""
    random = np.random.default_rng(seed)
    truth = usl(np.array(CLIENTS, dtype=float), rate, sigma, kappa)
    truth *= np.exp(random.normal(0, misfit, len(CLIENTS))) if misfit else 1.0
    return [(n, list(x * np.exp(random.normal(0, spread, repeats)))) for n, x in zip(CLIENTS, truth, strict=True)]


def test_without_noise_the_parameters_come_back() -> None:
    found = fit_usl(curve(1, 950.0, 0.03, 2e-4, spread=0.0))
    assert isinstance(found, UslFit)
    assert found.rate.fitted == pytest.approx(950)
    assert found.contention.fitted == pytest.approx(0.03)
    assert found.coherency.fitted == pytest.approx(2e-4)
    assert found.peak_clients.fitted == pytest.approx(np.sqrt(0.97 / 2e-4))
    assert found.at(64) == pytest.approx(usl(np.array([64.0]), 950, 0.03, 2e-4)[0])
    assert found.largest_error < 1e-9


@pytest.mark.parametrize(("sigma", "kappa"), [(0.02, 5e-4), (0.1, 1e-3), (0.0, 3e-4)])
def test_with_noise_they_come_back_on_average(sigma: float, kappa: float) -> None:
    found = [fit_usl(curve(seed, 1_000.0, sigma, kappa)) for seed in range(60)]
    fits = [each for each in found if isinstance(each, UslFit)]
    assert len(fits) == 60
    assert np.mean([each.rate.fitted for each in fits]) == pytest.approx(1_000, rel=0.02)
    assert np.mean([each.contention.fitted for each in fits]) == pytest.approx(sigma, abs=0.005)
    assert np.mean([each.coherency.fitted for each in fits]) == pytest.approx(kappa, rel=0.1)


@pytest.mark.parametrize(
    ("repeats", "noise", "misfit"),
    [*((repeats, noise, 0.0) for repeats in (1, 3, 5) for noise in (0.02, 0.1)), (3, 0.02, 0.02), (5, 0.02, 0.05)],
)
def test_intervals_hold_the_truth(repeats: int, noise: float, misfit: float) -> None:
    """In 19 of 20 curves; of 300, chance allows 91.5 to 98.5 %."""
    rate, sigma, kappa = 1_000.0, 0.05, 5e-4
    peak = np.sqrt((1 - sigma) / kappa)
    truth = (rate, sigma, kappa, peak, usl(np.array([peak]), rate, sigma, kappa)[0])
    held = np.zeros(5)
    fits = 0
    for seed in range(300):
        found = fit_usl(curve(seed, rate, sigma, kappa, noise, repeats, misfit))
        if isinstance(found, UslFit):
            ranges = (found.rate, found.contention, found.coherency, found.peak_clients, found.peak_tps)
            held += [each.low <= value <= each.high for each, value in zip(ranges, truth, strict=True)]
            fits += 1
    assert fits > 280
    assert held / fits == pytest.approx(0.95, abs=0.035), held / fits


def test_five_counts_are_too_few() -> None:
    found = fit_usl(curve(1, 1_000, 0.05, 5e-3)[:5])
    assert isinstance(found, NotFitted)
    assert "needs 6" in str(found.reason)


def test_without_points_past_the_peak_there_is_no_fit() -> None:
    found = fit_usl(curve(1, 1_000, 0.05, 1e-7))
    assert isinstance(found, NotFitted)
    assert found.reason.id == "usl-peak-not-reached"


@pytest.mark.parametrize(
    "tps",
    [
        # the gradient is singular
        [(5826, 52, 385), (11, 112, 484), (27, 3409, 332), (7965, 4125, 531), (29463, 3377, 17422), (233, 1495, 61)],
        # the fitted law has no throughput at its peak
        [(27, 65, 137), (181, 179, 2027), (77048, 12550, 14606), (10891, 2443, 46856), (5735, 1003, 20), (899, 71, 34)],
    ],
)
def test_repeats_that_differ_by_powers_of_ten_have_no_fit(tps: list[tuple[float, ...]]) -> None:
    assert isinstance(fit_usl(list(zip((1, 2, 4, 8, 16, 32), tps, strict=True))), NotFitted)


def test_a_curve_of_a_run() -> None:
    (of_run,) = scaling(summarise(sweep(clients=(1, 2, 4, 8, 16, 32, 64, 128), seconds=2)))
    found = fit_curve(of_run)
    assert isinstance(found, UslFit)
    assert found.peak_tps.low <= of_run.peak.tps.mean * 1.1
