"""Estimates the steps of a search; the actual number depends on the results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno.plan.model import Plan, SearchSpec
from pgdyno.plan.search_words import share_of
from pgdyno.records import Point

PEAK_NARROWING = 5
"""Steps on both sides of the ladder's maximum, and one more if that moves."""
MIXED_STEPS = 2
"""Rates at which trials disagree, and so decide nothing."""


def visits(plan: Plan, points: Sequence[Point]) -> Sequence[Point]:
    """Returns the points of each target once per visit: for a search, all its steps."""
    search = plan.search
    if search is None:
        return points
    arms: dict[str, list[Point]] = {}
    for point in points:
        rest = point.model_copy(update={"clients": 0} if search.axis == "clients" else {"rate": None})
        arms.setdefault(rest.model_dump_json(), []).append(point)
    return [arm[-1] for arm in arms.values() for _ in range(_steps(search, arm))]


def _steps(search: SearchSpec, arm: Sequence[Point]) -> int:
    values = [float(value) for point in arm if (value := getattr(point, search.axis)) is not None]
    doublings = math.ceil(math.log2(max(values) / min(values))) + 1 if values else 1
    if search.find == "peak":
        return doublings + PEAK_NARROWING
    halvings = math.ceil(math.log2(math.log(2) / math.log1p(share_of(search.precision))))
    return doublings + max(halvings, 0) + MIXED_STEPS
