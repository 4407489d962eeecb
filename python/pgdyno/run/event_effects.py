"""Derives the effects of plan events on the load from the engine's intervals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdyno.records import EventEffect, EventRecord
from pgdyno.run.process import Event

SHORTEST_STALL_US = 10_000
"""The engine's minimum length of a stall."""
WHOLE_SECOND_US = 990_000
RECOVERED_SHARE = 0.95
RECOVERED_LATENCY = 1.25
"""Of the highest mean before: a few seconds do not show how high a mean may be by chance."""
RECOVERED_SECONDS = 3
FEWEST_SECONDS_BEFORE = 3


@dataclass(frozen=True, slots=True)
class _Second:
    """An interval over all scripts; times are relative to the start of the load."""

    from_us: int
    to_us: int
    measured: bool
    succeeded: int
    failed: int
    lost: int
    latency_sum_ns: int

    @property
    def tps(self) -> float:
        return self.succeeded / (self.to_us - self.from_us) * 1e6

    @property
    def is_whole(self) -> bool:
        return self.measured and self.to_us - self.from_us >= WHOLE_SECOND_US


def with_effects(records: Sequence[EventRecord], events: Sequence[Event]) -> list[EventRecord]:
    """Add to `records` the effects on the load after each event, from the engine's `events`."""
    start = next((event for event in events if event["event"] == "start"), None)
    if start is None or all(record.began_s is None for record in records):
        return list(records)
    warmup_us = round(start["warmup_s"] * 1e6)
    seconds, every_stall = [], []
    for event in events:
        if event["event"] == "interval":
            seconds.append(_second(event))
            every_stall += [tuple(stall) for stall in event.get("lulls_us", ())]
    stalls = _join_stalls(every_stall)
    begins = sorted(record.began_s * 1e6 + warmup_us for record in records if record.began_s is not None)
    calm = [second for second in seconds if second.is_whole and second.to_us <= begins[0]]
    before = _Before.of([] if start.get("phases") else calm, is_open=start.get("rate_per_s") is not None)
    outages = (events[-1].get("outages") or ()) if events[-1]["event"] == "end" else ()
    last_us = max((second.to_us for second in seconds), default=0)
    done = []
    for record in records:
        if record.began_s is None:
            done.append(record)
            continue
        began_us = record.began_s * 1e6 + warmup_us
        end_us = next((begin for begin in begins if begin > began_us), last_us)
        effect = _effect(seconds, stalls, began_us, end_us, before, outages)
        done.append(record.model_copy(update={"effect": effect}))
    return done


def _second(event: Event) -> _Second:
    scripts = event["scripts"]
    return _Second(
        from_us=event["from_us"],
        to_us=event["to_us"],
        measured=event["phase"] == "measure",
        succeeded=sum(script["succeeded"] for script in scripts),
        failed=sum(script["failed"] for script in scripts),
        lost=sum(script.get("lost", 0) for script in scripts),
        latency_sum_ns=sum((script.get("latency_ns") or {}).get("sum", 0) for script in scripts),
    )


def _join_stalls(stalls: Iterable[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Join stalls that meet at the end of an interval, and drop those that are too short."""
    joined: list[list[int]] = []
    for begin, end in sorted((stall[0], stall[1]) for stall in stalls):
        if joined and begin <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return [(begin, end) for begin, end in joined if end - begin >= SHORTEST_STALL_US]


@dataclass(frozen=True, slots=True)
class _Before:
    """The load before the first event; None if there are too few seconds, or phases, whose load varies."""

    tps: float | None = None
    latency_ns: float | None = None
    """In an open loop, whose throughput is the plan's: a limit above the highest mean of several seconds in a row."""

    @classmethod
    def of(cls, seconds: Sequence[_Second], *, is_open: bool) -> _Before:
        if len(seconds) < FEWEST_SECONDS_BEFORE:
            return cls()
        means = [mean for window in _windows(seconds) if (mean := _mean_latency_ns(window)) is not None]
        tps = statistics.median(second.tps for second in seconds)
        return cls(tps, RECOVERED_LATENCY * max(means) if means and is_open else None)

    def is_reached(self, window: Sequence[_Second]) -> bool:
        if self.latency_ns is not None:
            mean = _mean_latency_ns(window)
            return mean is not None and mean <= self.latency_ns
        return self.tps is not None and statistics.fmean(each.tps for each in window) >= RECOVERED_SHARE * self.tps


def _windows(seconds: Sequence[_Second]) -> Iterator[Sequence[_Second]]:
    for place in range(len(seconds) - RECOVERED_SECONDS + 1):
        window = seconds[place : place + RECOVERED_SECONDS]
        if all(one.to_us == other.from_us for one, other in pairwise(window)):
            yield window


def _mean_latency_ns(seconds: Sequence[_Second]) -> float | None:
    count = sum(second.succeeded for second in seconds)
    return sum(second.latency_sum_ns for second in seconds) / count if count else None


def _effect(
    seconds: Sequence[_Second],
    stalls: Sequence[tuple[int, int]],
    began_us: float,
    end_us: float,
    before: _Before,
    outages: Sequence[Event],
) -> EventEffect:
    touched = [second for second in seconds if second.to_us > began_us and second.from_us < end_us]
    whole = [second.tps for second in touched if second.is_whole]
    stall = max(
        ((begin, end) for begin, end in stalls if end > began_us and begin < end_us),
        key=lambda stall: stall[1] - stall[0],
        default=None,
    )
    began = [outage for outage in outages if began_us <= outage["began_us"] < end_us]
    return EventEffect(
        nobody_served_s=0.0 if stall is None else (stall[1] - stall[0]) / 1e6,
        first_success_s=None if stall is None or _is_last(stall, seconds) else (stall[1] - began_us) / 1e6,
        failed=sum(second.failed for second in touched),
        lost=sum(second.lost for second in touched),
        connections_lost=sum(outage["connections_lost"] for outage in began),
        all_away_s=sum(outage["all_away_us"] for outage in began) / 1e6,
        before_tps=before.tps,
        before_latency_ns=before.latency_ns,
        lowest_tps=min(whole, default=None),
        recovered_s=_recovered_s(touched, began_us, stall, before),
    )


def _is_last(stall: tuple[int, int], seconds: Sequence[_Second]) -> bool:
    return stall[1] >= seconds[-1].to_us - 1 and seconds[-1].succeeded == 0


def _recovered_s(
    touched: Sequence[_Second], began_us: float, stall: tuple[int, int] | None, before: _Before
) -> float | None:
    """Return the seconds from the event to the first of several in a row that are together as good as before it."""
    behind_us = 0 if stall is None else stall[1]
    whole = [second for second in touched if second.is_whole and second.from_us >= behind_us]
    back = next((window[0] for window in _windows(whole) if before.is_reached(window)), None)
    return None if back is None else max(0.0, (back.from_us - began_us) / 1e6)
