"""Whether a load is steady, and whether it is as it was before an event, from the engine's seconds as they come."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdyno.run.process import Event

WHOLE_SECOND_US = 990_000
RECOVERED_SHARE = 0.95
RECOVERED_LATENCY = 1.25
"""Of the highest mean before: a few seconds do not show how high a mean may be by chance."""
RECOVERED_SECONDS = 3
FEWEST_SECONDS_BEFORE = 3
STEADY_SECONDS = 5
"""Two stretches of so many seconds are compared."""
STEADY_TPS, STEADY_LATENCY = 0.1, 0.25
"""The largest change from one to the other."""


@dataclass(frozen=True, slots=True)
class Second:
    """An interval over all scripts; times are relative to the start of the load."""

    from_us: int
    to_us: int
    measured: bool
    succeeded: int
    failed: int
    lost: int
    latency_sum_ns: int

    @classmethod
    def from_events(cls, event: Event) -> Second:
        scripts = event["scripts"]
        return cls(
            from_us=event["from_us"],
            to_us=event["to_us"],
            measured=event["phase"] == "measure",
            succeeded=sum(script["succeeded"] for script in scripts),
            failed=sum(script["failed"] for script in scripts),
            lost=sum(script.get("lost", 0) for script in scripts),
            latency_sum_ns=sum((script.get("latency_ns") or {}).get("sum", 0) for script in scripts),
        )

    @property
    def tps(self) -> float:
        return self.succeeded / (self.to_us - self.from_us) * 1e6

    @property
    def is_whole(self) -> bool:
        return self.measured and self.to_us - self.from_us >= WHOLE_SECOND_US


@dataclass(frozen=True, slots=True)
class LevelBefore:
    """The load before the first event; None if there are too few seconds, or phases, whose load varies."""

    tps: float | None = None
    latency_ns: float | None = None
    """In an open loop, whose throughput is the plan's: a limit above the highest mean of several seconds in a row."""

    @classmethod
    def from_events(cls, seconds: Sequence[Second], *, is_open: bool) -> LevelBefore:
        if len(seconds) < FEWEST_SECONDS_BEFORE:
            return cls()
        means = [mean for window in _windows(seconds) if (mean := mean_latency_ns(window)) is not None]
        tps = statistics.median(second.tps for second in seconds)
        return cls(tps, RECOVERED_LATENCY * max(means) if means and is_open else None)

    def is_reached(self, window: Sequence[Second]) -> bool:
        if self.latency_ns is not None:
            mean = mean_latency_ns(window)
            return mean is not None and mean <= self.latency_ns
        return self.tps is not None and statistics.fmean(each.tps for each in window) >= RECOVERED_SHARE * self.tps

    def reached_us(self, seconds: Sequence[Second], from_us: float) -> int | None:
        """Return when the first seconds in a row began that are together as good as before, from `from_us` on."""
        whole = [second for second in seconds if second.is_whole and second.from_us >= from_us]
        return next((window[0].from_us for window in _windows(whole) if self.is_reached(window)), None)


def is_steady(seconds: Sequence[Second]) -> bool:
    """Return whether the last two stretches of measured seconds are alike."""
    whole = [second for second in seconds if second.is_whole][-2 * STEADY_SECONDS :]
    if len(whole) < 2 * STEADY_SECONDS:
        return False
    first, last = whole[:STEADY_SECONDS], whole[STEADY_SECONDS:]
    latencies = mean_latency_ns(first), mean_latency_ns(last)
    tps = [statistics.fmean(each.tps for each in part) for part in (first, last)]
    return (
        latencies[0] is not None
        and latencies[1] is not None
        and abs(tps[1] - tps[0]) <= STEADY_TPS * tps[0]
        and abs(latencies[1] - latencies[0]) <= STEADY_LATENCY * latencies[0]
    )


def mean_latency_ns(seconds: Sequence[Second]) -> float | None:
    count = sum(second.succeeded for second in seconds)
    return sum(second.latency_sum_ns for second in seconds) / count if count else None


def _windows(seconds: Sequence[Second]) -> Iterator[Sequence[Second]]:
    for place in range(len(seconds) - RECOVERED_SECONDS + 1):
        window = seconds[place : place + RECOVERED_SECONDS]
        if all(one.to_us == other.from_us for one, other in pairwise(window)):
            yield window
