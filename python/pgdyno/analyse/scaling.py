"""Peak and knee of each curve of throughput by clients, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse import warning
from pgdyno.analyse.estimate import Estimate
from pgdyno.analyse.knee import knee
from pgdyno.analyse.series import Series
from pgdyno.analyse.summary import PointSummary
from pgdyno.messages import Message


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """A point with a known throughput, `summary.tps`."""

    summary: PointSummary
    tps: Estimate

    @property
    def clients(self) -> int:
        """Return the clients of the point."""
        return self.summary.clients


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """Throughput of one series by clients."""

    series: Series
    points: tuple[ScalingPoint, ...]
    """Clients ascending, without points that have no finished trial."""
    peak: ScalingPoint
    """Highest mean throughput; of two equal ones, the one with fewer clients."""
    knee: ScalingPoint | None
    """Fewest clients whose throughput is shown to be at least 95 % of the peak's; None: not determined."""
    warnings: tuple[Message, ...]


def scaling(points: Sequence[PointSummary]) -> list[ScalingCurve]:
    """Return a curve for each series that has a finished trial, in the order of `points`."""
    curves = []
    for series in dict.fromkeys(point.series for point in points):
        # an imported point without a number of clients has no position on a curve
        there = [
            ScalingPoint(point, point.tps)
            for point in points
            if point.series == series and point.tps is not None and point.clients > 0
        ]
        if there:
            curves.append(_curve(series, sorted(there, key=lambda point: point.clients)))
    return curves


def _curve(series: Series, points: Sequence[ScalingPoint]) -> ScalingCurve:
    peak = max(points, key=lambda point: point.tps.mean)
    place = knee([point.summary.tps_by_trial for point in points])
    warnings = []
    # in an open loop, the plan sets the throughput, whatever the clients
    is_open = any(point.summary.point.rate is not None for point in points)
    if len(points) > 1 and peak is points[-1] and not is_open:
        warnings.append(warning.peak_at_edge(peak.clients))
    if place is None and all(point.tps.half is None for point in points):
        warnings.append(warning.KNEE_WITHOUT_INTERVALS)
    elif place is None:
        warnings.append(warning.KNEE_NOT_DETERMINED)
    return ScalingCurve(series, tuple(points), peak, None if place is None else points[place], tuple(warnings))
