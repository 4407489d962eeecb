"""Aligns another host's clock from round trips, as NTP does (RFC 5905, section 8). Does no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SPAN_US = 1_000_000
"""The minimum time between two rounds for a drift: below that, uncertainty dominates."""
UNKNOWN_DRIFT_PPM = 100.0
"""The bound for an unmeasured drift, above that of computers' crystals."""


@dataclass(frozen=True, slots=True)
class Round:
    """The fastest of several round trips; the reply is assumed in its middle, with half of it as uncertainty."""

    local_us: float
    """The middle of the round trip by the local clock, since 1970."""
    t_us: int
    """The other host's monotonic clock."""
    wall_us: int
    """The other host's wall clock, since 1970."""
    round_trip_us: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """The conversion of the other host's monotonic times."""

    origin_us: float
    """Local time since 1970 at which its clock was 0."""
    rate: float
    """Local microseconds per remote microsecond."""
    uncertainty_us: float
    """The largest error of a converted time."""
    ahead_us: float
    """The lead of its wall clock over the local one, at the first round."""
    drift_ppm: float | None
    """The relative speed of its clock in parts per million; None if not measured."""
    drift_uncertainty_ppm: float | None
    round_trip_us: float
    """The fastest of all."""

    def local_us(self, t_us: float) -> float:
        """Convert an instant of its clock to local time."""
        return self.origin_us + self.rate * t_us


def align(rounds: Sequence[Round], last_t_us: int) -> Alignment | None:
    """Fits a line through the first and the last of `rounds`, which are in order; None without any.

    `last_t_us` is the last time to convert. Times after the last round, or before the second if there is only one, may
    have drifted. If the line misses a round's own bounds, the clocks drift unevenly, at least by that distance.
    """
    if not rounds:
        return None
    first, last = rounds[0], rounds[-1]
    half_us = max(first.round_trip_us, last.round_trip_us) / 2
    span_us = last.t_us - first.t_us
    rate, drift, drift_uncertainty = 1.0, None, None
    if span_us >= LEAST_SPAN_US:
        rate = (last.local_us - first.local_us) / span_us
        drift = (1 / rate - 1) * 1e6
        drift_uncertainty = (first.round_trip_us + last.round_trip_us) / 2 / span_us * 1e6
    origin_us = first.local_us - rate * first.t_us
    missed = (abs(origin_us + rate * each.t_us - each.local_us) - each.round_trip_us / 2 for each in rounds[1:-1])
    beyond_us = max(0, last_t_us - last.t_us) + (0 if drift is not None else span_us)
    allowance_us = (UNKNOWN_DRIFT_PPM if drift is None else drift_uncertainty or 0.0) * beyond_us / 1e6
    return Alignment(
        origin_us=origin_us,
        rate=rate,
        uncertainty_us=half_us + max(0.0, *missed, 0.0) + allowance_us,
        ahead_us=first.wall_us - first.local_us,
        drift_ppm=drift,
        drift_uncertainty_ppm=drift_uncertainty,
        round_trip_us=min(each.round_trip_us for each in rounds),
    )


@dataclass(frozen=True, slots=True)
class Ahead:
    us: float
    uncertainty_us: float
    """Half of the fastest round trip."""


HERE = Ahead(0.0, 0.0)
"""The offset of this host itself."""
