"""Simulates `pgdyno gate` with and without --confirm, for `make simulations` and, with fewer draws, for the tests."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgdyno.analyse.intervals import t_quantile

PAIRS = 6
LIMIT = 0.03
TRIAL_NOISE = 0.02
"""Standard deviation of a trial."""


def alarms(times: int, spread: float, lasting: float, change: float, seed: int = 1) -> tuple[float, float]:
    """Returns how often a gate fails: with one run, and if a second run must confirm it.

    Each run has an instance of both arms, whose throughput scatters by `spread`. The share `lasting` of that variance
    is not the instance's own: it comes from the host, the build or the hour, and is the same in the second run.
    `change` is the true relative change of the candidate.
    """
    random = np.random.default_rng(seed)
    both = random.normal(0, math.sqrt(2 * lasting) * spread, times)
    failed = [
        _regresses(random, both + random.normal(0, math.sqrt(2 * (1 - lasting)) * spread, times), change)
        for _ in range(2)
    ]
    return float(failed[0].mean()), float((failed[0] & failed[1]).mean())


def _regresses(random: np.random.Generator, bias: np.ndarray, change: float) -> np.ndarray:
    noise = random.normal(0, math.sqrt(2) * TRIAL_NOISE, (len(bias), PAIRS))
    pairs = math.log1p(change) + bias[:, None] + noise
    half = t_quantile(0.95, PAIRS - 1) * pairs.std(axis=1, ddof=1) / math.sqrt(PAIRS)
    return np.asarray(pairs.mean(axis=1) + half < -math.log1p(LIMIT))


def confirmations(times: int = 100_000) -> Iterator[Sequence[object]]:
    """Yields the share of gates that fail, by the scatter of instances and the share of it that lasts."""
    yield ("instances scatter by", "of which lasts", *(
        f"{what}: {how}" for what in ("no change", "6 % slower", "10 % slower") for how in ("one run", "confirmed")
    ))  # fmt: skip
    for spread in (0.0, 0.01, 0.02, 0.04):
        for lasting in (0.0, 0.5, 1.0) if spread else (0.0,):
            cells = [
                f"{100 * share:.1f} %"
                for change in (0.0, -0.06, -0.1)
                for share in alarms(times, spread, lasting, change)
            ]
            yield (f"{100 * spread:g} %", f"{100 * lasting:g} %" if spread else "", *cells)
