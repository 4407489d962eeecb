"""Figures that come late: asked for again until the last one is there, or nobody waits any more."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.targets.aws.patience import Patience
from pgdyno.targets.observed import Observed


def whole(ask: Callable[[], Observed], within_s: float, waits: Callable[[], None]) -> Observed:
    """What `ask` tells once its end is there, or as it is when `within_s` are over: what has not come is a gap.

    `waits` is called once, if there is something to wait for. With 0 seconds it is asked for once. Raises AwsError.
    """
    patience, waited = Patience(within_s), False
    while not (found := ask()).complete and not patience.over():
        if not waited:
            waits()
        waited = True
        patience.pause()
    return found
