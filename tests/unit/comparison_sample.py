"""Arms with random figures for tests of comparisons, without run folder and server."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.pairs import Arms, Metric, PointPairs
from pgdyno.messages import Message
from pgdyno.records import Point, StoppingRule

Array = NDArray[np.float64]


def arms_of(
    *points: tuple[Sequence[float], Sequence[float]],
    metric: Metric = Metric.TPS,
    paired: bool = True,
    names: tuple[str, str] = ("a", "b"),
    stopping: StoppingRule | None = None,
) -> Arms:
    """Returns two arms with the figures of each point; repeats count from 1."""
    pairs = tuple(
        PointPairs(
            Message("point", "{count} clients", count=2**at),
            Point(clients=2**at),
            dict(enumerate(base, start=1)),
            dict(enumerate(other, start=1)),
        )
        for at, (base, other) in enumerate(points)
    )
    return Arms(*names, metric, paired, pairs, stopping=stopping)


def checkpointed(random: np.random.Generator, shape: tuple[int, ...], share: float = 0.3) -> Array:
    """Returns noise like that of checkpoints: normal with 1 %, and a loss of 2 to 5 % in a fraction of `share` of the
    trials.
    """
    losses = random.uniform(0.02, 0.05, shape) * (random.random(shape) < share)
    noise: Array = random.normal(0.0, 0.01, shape) + np.log1p(-losses)
    return noise


def pair_of_arms(random: np.random.Generator, n: int, effect: float = 0.0) -> tuple[list[float], list[float]]:
    """Returns throughput of `n` pairs.

    The other arm is better by the relative `effect`, and both arms share the drift of a block.
    """
    drift = random.normal(0.0, 0.02, n)
    base = 10_000 * np.exp(drift + checkpointed(random, (n,)))
    other = 10_000 * (1 + effect) * np.exp(drift + checkpointed(random, (n,)))
    return list(base), list(other)
