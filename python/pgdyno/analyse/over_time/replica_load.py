"""The load on a standby in the seconds in which the trial's own load was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pgdyno.analyse.histogram import merge
from pgdyno.records import Latency, ReplicaFigures

Event = dict[str, Any]
Span = tuple[int, int]
"""From, to: microseconds since 1970."""


def figures(name: str, clients: int, events: Sequence[Event], trial: Sequence[Event]) -> ReplicaFigures | None:
    """Return the engine's figures in `events` of the load on standby `name`, while the engine of `trial` measured.

    Both engines use the clock of the same host. Only complete intervals within the measured part count, so that up to a
    second at each of its ends is left out. None if one of the engines never started its load.
    """
    start, end = _find(events, "start"), _find(events, "end")
    if start is None or end is None or _origin_us(events) is None:
        return None
    measured = _joined(_spans(event for event in _intervals(trial) if event[1]["phase"] == "measure"))
    inside = [
        event
        for span, event in ((_span(origin, each), each) for origin, each in _intervals(events))
        if any(begin <= span[0] and span[1] <= end_ for begin, end_ in measured)
    ]
    scripts = [script for event in inside for script in event["scripts"]]
    measured_s = sum(event["to_us"] - event["from_us"] for event in inside) / 1e6
    succeeded = sum(script["succeeded"] for script in scripts)
    return ReplicaFigures(
        name=name,
        clients=clients,
        measured_s=measured_s,
        succeeded=succeeded,
        failed=sum(script["failed"] for script in scripts),
        skipped=sum(script["skipped"] for script in scripts),
        tps=succeeded / measured_s if measured_s > 0 else None,
        latency_ns=_latency(scripts),
        seed=start["seed"],
        workers=len(end.get("workers") or ()) or start["workers"],
    )


def _find(events: Iterable[Event], kind: str) -> Event | None:
    return next((event for event in events if event["event"] == kind), None)


def _origin_us(events: Sequence[Event]) -> int | None:
    """Return the start of the load, in microseconds since 1970; None if it did not start."""
    start, connected = _find(events, "start"), _find(events, "connected")
    return None if start is None or connected is None else start["epoch_us"] + connected["origin_us"]


def _intervals(events: Sequence[Event]) -> Iterable[tuple[int, Event]]:
    origin = _origin_us(events)
    if origin is None:
        return []
    return ((origin, event) for event in events if event["event"] == "interval")


def _span(origin_us: int, event: Event) -> Span:
    return origin_us + event["from_us"], origin_us + event["to_us"]


def _spans(intervals: Iterable[tuple[int, Event]]) -> list[Span]:
    return [_span(origin, event) for origin, event in intervals]


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def _latency(scripts: Sequence[Event]) -> Latency | None:
    """Merge latencies: sums are added, percentiles are those of the merged histograms."""
    measured = [script for script in scripts if script.get("latency_ns")]
    merged = merge(script["histogram"] for script in measured)
    if merged is None:
        return None
    count = sum(script["succeeded"] for script in measured)
    mean = sum(script["latency_ns"]["sum"] for script in measured) / count
    squares = sum(script["latency_ns"]["sum_of_squares"] for script in measured) / count
    least = min(script["latency_ns"]["min"] for script in measured)
    highest = max(script["latency_ns"]["max"] for script in measured)
    at = merged.within(least, highest).percentiles_ns([50, 75, 90, 95, 99, 99.9, 99.99])
    return Latency(
        mean=mean,
        stddev=math.sqrt(max(squares - mean * mean, 0.0)),
        min=least,
        **dict(zip(("p50", "p75", "p90", "p95", "p99", "p999", "p9999"), at, strict=True)),
        max=highest,
    )
