"""Another host's clock against ours, from round trips as NTP has them (RFC 5905, 8): pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SPAN_US = 1_000_000
"""Between two rounds that tell a drift: over less, the uncertainty of each is most of it."""
UNKNOWN_DRIFT_PPM = 100.0
"""What is allowed for where no drift was measured: more than crystals of computers have."""


@dataclass(frozen=True, slots=True)
class Round:
    """The quickest of several round trips: the reply was made in the middle, give or take half of it."""

    local_us: float
    """Middle of the round trip by our clock, since 1970."""
    t_us: int
    """The other host's monotonic clock."""
    wall_us: int
    """Its wall clock."""
    round_trip_us: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the other host's monotonic times become ours."""

    origin_us: float
    """Our time, since 1970, at which its clock was at 0."""
    rate: float
    """Our microseconds for one of its."""
    uncertainty_us: float
    """Most by which a time may be placed wrongly."""
    ahead_us: float
    """By how much its wall clock was ahead of ours, at the first round."""
    drift_ppm: float | None
    """How much faster its clock goes than ours, parts in a million; None: not measured."""
    drift_uncertainty_ppm: float | None
    round_trip_us: float
    """The quickest of all."""

    def local_us(self, t_us: float) -> float:
        """Our time of an instant of its clock."""
        return self.origin_us + self.rate * t_us


def align(rounds: Sequence[Round], last_t_us: int) -> Alignment | None:
    """A straight line through the first and the last of `rounds`, in their order; None without any.

    `last_t_us` is the last time that is to be placed. What lies behind the last round, or before the second when
    there is but one, may have drifted. A round between whose own bounds the line misses shows that clocks do not
    go evenly, and by how much at least.
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
