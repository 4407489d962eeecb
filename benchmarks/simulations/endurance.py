"""Simulates trials of an hour and more, for `make simulations` and, with fewer draws, for the tests."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from tests.unit.endurance_sample import minutes_of, seconds_of

from pgdyno.analyse.over_time.endurance import EnduranceVerdict, trend


def verdicts_of(
    times: int, hours: int, *, memory_s: float = 0.0, saw: float = 0.0, slope: float = 0.0
) -> Counter[EnduranceVerdict]:
    """Returns how often each verdict was given."""
    random = np.random.default_rng(24)
    told: Counter[EnduranceVerdict] = Counter()
    for _ in range(times):
        seconds = seconds_of(random, hours, memory_s=memory_s, saw=saw, slope=slope)
        found = trend(minutes_of(seconds), hours)
        assert found is not None
        told[found.verdict] += 1
    return told


def endurance(times: int = 250) -> Iterator[Sequence[object]]:
    """Yields the verdicts on trials of 1 and 4 hours, with noise of 5 % that remembers some time, with and without
    checkpoints every 5 minutes, and with a planted slope.
    """
    yield ("hours", "memory", "saw-tooth", "per hour", *(verdict.value for verdict in EnduranceVerdict))
    for hours in (1, 4):
        for memory_s in (0, 5, 20, 100, 300):
            for saw in (0.0, 0.3):
                for slope in (0.0, -0.02, -0.05, -0.1) if memory_s in (5, 100) else (0.0,):
                    told = verdicts_of(times, hours, memory_s=memory_s, saw=saw, slope=slope)
                    shares = (f"{100 * told[verdict] / times:.1f} %" for verdict in EnduranceVerdict)
                    yield (hours, f"{memory_s} s", f"{100 * saw:g} %", f"{100 * slope:g} %", *shares)
