"""Arms of figures that were drawn, for tests of comparisons: no run folder, no server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.pairs import Arms, Metric, PointPairs
from pgdyno.messages import Message
from pgdyno.records import Point

Array = NDArray[np.float64]


def arms_of(
    *points: tuple[Sequence[float], Sequence[float]],
    metric: Metric = Metric.TPS,
    paired: bool = True,
    names: tuple[str, str] = ("a", "b"),
) -> Arms:
    """Two arms with the figures of each point, repeats from 1."""
    pairs = tuple(
        PointPairs(
            Message("point", "{count} clients", count=2**at),
            Point(clients=2**at),
            dict(enumerate(base, start=1)),
            dict(enumerate(other, start=1)),
        )
        for at, (base, other) in enumerate(points)
    )
    return Arms(*names, metric, paired, pairs)


def checkpointed(random: np.random.Generator, shape: tuple[int, ...], share: float = 0.3) -> Array:
    """Noise of trials as checkpoints make it: normal with 1 %, and a loss of 2 to 5 % in `share` of the trials."""
    losses = random.uniform(0.02, 0.05, shape) * (random.random(shape) < share)
    noise: Array = random.normal(0.0, 0.01, shape) + np.log1p(-losses)
    return noise


def pair_of_arms(random: np.random.Generator, n: int, effect: float = 0.0) -> tuple[list[float], list[float]]:
    """Throughput of `n` pairs; the other arm is better by `effect` (relative), a block's drift is in both."""
    drift = random.normal(0.0, 0.02, n)
    base = 10_000 * np.exp(drift + checkpointed(random, (n,)))
    other = 10_000 * (1 + effect) * np.exp(drift + checkpointed(random, (n,)))
    return list(base), list(other)
