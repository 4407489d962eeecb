"""The knee of a curve: the fewest clients whose throughput is shown to be nearly the peak's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno.analyse.estimate import CONFIDENCE
from pgdyno.analyse.student_t import two_sided_quantile

NEAR_PEAK = 0.95
"""Least share of the peak's throughput at the knee."""


def knee(samples: Sequence[Sequence[float]]) -> int | None:
    """Return the index of the first of `samples` whose mean is shown to be at least 95 % of every other's; None if none
    is.

    `samples` are throughputs by trial, one list for each number of clients, fewest first. Non-inferiority by multiple
    comparisons with the best (Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with
    the best"): a point's log ratio to each other one has a lower 95 % bound, Student's t with the variance pooled over
    all points. As each point is compared with all others, and the bounds hold simultaneously (Bonferroni), choosing the
    peak as the highest of several means causes no bias.
    """
    logs = [[math.log(each) for each in sample] if min(sample, default=0) > 0 else [] for sample in samples]
    known = [at for at, sample in enumerate(logs) if sample]
    if len(known) == 1:
        return known[0]
    freedom = sum(len(logs[at]) - 1 for at in known)
    if not known or freedom < 1:
        return None
    means = {at: math.fsum(logs[at]) / len(logs[at]) for at in known}
    variance = math.fsum((each - means[at]) ** 2 for at in known for each in logs[at]) / freedom
    t = two_sided_quantile(1 - 2 * (1 - CONFIDENCE) / (len(known) - 1), freedom)

    def is_shown(at: int, other: int) -> bool:
        error = math.sqrt(variance * (1 / len(logs[at]) + 1 / len(logs[other])))
        return means[at] - means[other] - t * error >= math.log(NEAR_PEAK)

    return next((at for at in known if all(is_shown(at, other) for other in known if other != at)), None)
