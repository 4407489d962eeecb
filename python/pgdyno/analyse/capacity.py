"""Capacity at a latency target, as measured: the highest throughput at which the target was met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.estimate import Estimate
from pgdyno.analyse.summary import PointSummary
from pgdyno.records.price import LatencyLimit

_FIELDS = {
    "p50": "p50_ns", "p90": "p90_ns", "p95": "p95_ns", "p99": "p99_ns", "p99.9": "p999_ns", "mean": "mean_ns",
    "max": "max_ns",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of one curve."""

    limit: LatencyLimit
    point: PointSummary
    """The point with the highest throughput of those that met the target."""
    tps: Estimate
    latency_ns: float
    """The latency figure to which the target applies."""
    closed_loop: bool
    """Whether clients waited for answers before their next request: a stalled server then hides its queue, and users
    would see more than `latency_ns`.
    """


def capacity_at(points: Sequence[PointSummary], limit: LatencyLimit) -> Capacity | None:
    """Return the highest throughput of `points` whose latency is under `limit`; None if there is none, or none is
    known.

    A point's percentile is that of its trials' merged histograms. The result is a measured point, without
    interpolation; a search (`find = "capacity"`) comes closer.
    """
    met = [
        Capacity(limit, point, point.tps, figure, point.point.rate is None)
        for point in points
        if point.tps is not None and (figure := latency_of(point, limit)) is not None and figure < limit.limit_ns
    ]
    return max(met, key=lambda each: each.tps.mean, default=None)


def latency_of(point: PointSummary, limit: LatencyLimit) -> float | None:
    """Return the figure of `point` to which `limit` applies; None if unknown."""
    if point.latency is None:
        return None
    figure: float | None = getattr(point.latency, _FIELDS[limit.figure])
    return figure
