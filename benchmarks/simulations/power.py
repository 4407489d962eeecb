"""Chances of a new run at the difference that an earlier one has named as the smallest it can detect."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from pgdyno.analyse.comparison import POWER
from pgdyno.analyse.intervals import upper_spread
from simulations.stopping import ALPHA

PAIRS = (6, 10, 20, 40)


def planned_power(times: int = 100_000) -> Iterator[Sequence[object]]:
    """Yields the mean power in percent, the share of earlier runs that promise no more than they hold, and the power
    where the spread was measured among its smallest tenth.
    """
    yield ("spread that is assumed", "pairs", "power (mean)", "80 % or more", "power at the smallest tenth")
    for name in ("as measured", "its upper end"):
        for pairs in PAIRS:
            freedom = pairs - 1
            measured = np.sqrt(np.random.default_rng(pairs).chisquare(freedom, times) / freedom)
            assumed = measured * (1 if name == "as measured" else upper_spread(1.0, freedom))
            limit = special.stdtrit(freedom, 1 - ALPHA / 2)
            # in true standard errors beyond delta
            named = (limit + special.stdtrit(freedom, POWER)) * assumed
            power = 1 - special.nctdtr(freedom, named, limit)
            smallest = power[measured <= np.quantile(measured, 0.1)]
            shares = (power.mean(), np.mean(power >= POWER), smallest.mean())
            yield (name, pairs, *(f"{100 * float(share):.0f} %" for share in shares))
