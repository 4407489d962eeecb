"""Derives the effects of plan events on the load from the engine's intervals."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pgdyno.records import EventEffect, EventRecord, Stall
from pgdyno.run.load_level import LevelBefore, Second
from pgdyno.run.process import Event

SHORTEST_STALL_US = 10_000
"""The engine's minimum length of a stall."""


def with_effects(records: Sequence[EventRecord], events: Sequence[Event]) -> list[EventRecord]:
    """Add to `records` the effects on the load after each event, from the engine's `events`."""
    start = next((event for event in events if event["event"] == "start"), None)
    if start is None or all(record.began_s is None for record in records):
        return list(records)
    warmup_us = round(start["warmup_s"] * 1e6)
    seconds, every_stall = [], []
    for event in events:
        if event["event"] == "interval":
            seconds.append(Second.from_events(event))
            every_stall += [tuple(stall) for stall in event.get("lulls_us", ())]
    stalls = _join_stalls(every_stall)
    begins = sorted(record.began_s * 1e6 + warmup_us for record in records if record.began_s is not None)
    calm = [second for second in seconds if second.is_whole and second.to_us <= begins[0]]
    before = LevelBefore.from_events([] if start.get("phases") else calm, is_open=start.get("rate_per_s") is not None)
    outages = (events[-1].get("outages") or ()) if events[-1]["event"] == "end" else ()
    last_us = max((second.to_us for second in seconds), default=0)
    done = []
    for record in records:
        if record.began_s is None:
            done.append(record)
            continue
        began_us = record.began_s * 1e6 + warmup_us
        end_us = next((begin for begin in begins if begin > began_us), last_us)
        ended_us = None if record.seconds is None else began_us + record.seconds * 1e6
        effect = _effect(seconds, stalls, (began_us, ended_us, end_us), before, outages)
        earlier_us = max((begin for begin in begins if begin < began_us), default=warmup_us)
        longest = _longest_stalls(stalls, (earlier_us, began_us, ended_us or end_us, end_us), warmup_us)
        done.append(record.model_copy(update={"effect": effect.model_copy(update={"stalls": longest})}))
    return done


def _longest_stalls(
    stalls: Sequence[tuple[int, int]], edges: tuple[float, float, float, float], warmup_us: int
) -> list[Stall]:
    """Return the longest stall of each part between `edges`; a stall belongs to the part in which its middle is."""
    found = []
    for part, (from_us, to_us) in zip(("before", "during", "after"), pairwise(edges), strict=True):
        inside = [stall for stall in stalls if from_us <= (stall[0] + stall[1]) / 2 < to_us]
        if inside:
            begin, end = max(inside, key=lambda stall: stall[1] - stall[0])
            found.append(Stall(part=part, from_s=(begin - warmup_us) / 1e6, seconds=(end - begin) / 1e6))
    return found


def _join_stalls(stalls: Iterable[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Join stalls that meet at the end of an interval, and drop those that are too short."""
    joined: list[list[int]] = []
    for begin, end in sorted((stall[0], stall[1]) for stall in stalls):
        if joined and begin <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return [(begin, end) for begin, end in joined if end - begin >= SHORTEST_STALL_US]


def _effect(
    seconds: Sequence[Second],
    stalls: Sequence[tuple[int, int]],
    span_us: tuple[float, float | None, float],
    before: LevelBefore,
    outages: Sequence[Event],
) -> EventEffect:
    began_us, ended_us, end_us = span_us
    touched = [second for second in seconds if second.to_us > began_us and second.from_us < end_us]
    whole = [second.tps for second in touched if second.is_whole]
    stall = max(
        ((begin, end) for begin, end in stalls if end > began_us and begin < end_us),
        key=lambda stall: stall[1] - stall[0],
        default=None,
    )
    stall_end_us = 0 if stall is None else stall[1]
    lasts = bool(seconds) and stall_end_us >= seconds[-1].to_us - 1 and seconds[-1].succeeded == 0
    began = [outage for outage in outages if began_us <= outage["began_us"] < end_us]
    return EventEffect(
        nobody_served_s=0.0 if stall is None else (stall[1] - stall[0]) / 1e6,
        first_success_s=None if stall is None or lasts else (stall[1] - began_us) / 1e6,
        failed=sum(second.failed for second in touched),
        lost=sum(second.lost for second in touched),
        connections_lost=sum(outage["connections_lost"] for outage in began),
        all_away_s=sum(outage["all_away_us"] for outage in began) / 1e6,
        before_tps=before.tps,
        before_latency_ns=before.latency_ns,
        lowest_tps=min(whole, default=None),
        recovered_s=_seconds_from(began_us, before.reached_us(touched, stall_end_us)),
        as_before_s=None if ended_us is None else _as_before_s(touched, stalls, ended_us, before),
    )


def _as_before_s(
    touched: Sequence[Second], stalls: Sequence[tuple[int, int]], ended_us: float, before: LevelBefore
) -> float | None:
    stalled_us = max((end for begin, end in stalls if begin < ended_us), default=0)
    return _seconds_from(ended_us, before.reached_us(touched, max(ended_us, stalled_us)))


def _seconds_from(start_us: float, reached_us: int | None) -> float | None:
    return None if reached_us is None else max(0.0, (reached_us - start_us) / 1e6)
