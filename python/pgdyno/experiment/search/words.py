"""What a search found, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.analyse.capacity_interval import CapacityInterval
from pgdyno.experiment.search.capacity import Capacity, RateSpan
from pgdyno.experiment.search.peak import Peak, PeakEnd
from pgdyno.report import numbers


def peak_words(peak: Peak, most: int) -> str:
    """`peak at 12 clients: 4,320 ± 60 tps; 8 to 16 clients cannot be told from it`, and how far it can be believed."""
    if peak.clients is None or peak.tps is None:
        return "no peak: trials with the fewest clients failed"
    half = f" ± {numbers.half(peak.tps)}" if peak.tps.half is not None else ""
    parts = [f"peak at {numbers.count(peak.clients, 'client')}: {numbers.estimate(peak.tps)}{half} tps"]
    if peak.alike is not None and peak.alike[0] != peak.alike[1]:
        parts.append(f"{peak.alike[0]} to {peak.alike[1]} clients cannot be told from it")
    if peak.end is PeakEnd.LIMIT:
        parts.append(f"throughput has not fallen at {numbers.count(most, 'client')}, the most that the plan allows")
    elif peak.end is PeakEnd.FAILED:
        parts.append("trials with more clients failed")
    return "; ".join(parts)


def capacity_words(
    interval: CapacityInterval, capacity: Capacity, span: RateSpan, latency: str | Mapping[str, str]
) -> str:
    """`capacity at p99 < 10ms: from 2,050 to 2,240 transactions a second (95 % interval)`, and between which rates
    trials disagreed; or what is known instead."""
    target = latency if isinstance(latency, str) else ", ".join(f"{name} {each}" for name, each in latency.items())
    low, high = (None if end is None else numbers.rounded(end, 4) for end in (interval.low, interval.high))
    if low is not None and high is not None:
        found = f"from {low} to {high} transactions a second (95 % interval)"
    elif high is not None:
        found = f"less than {high} transactions a second (95 % interval), and it may be under the lowest rate"
    elif low is not None:
        found = f"at least {low} transactions a second (95 % interval), and it may be over the highest rate"
    else:
        ends = f"{numbers.rounded(span.lowest, 4)} to {numbers.rounded(span.highest, 4)}"
        found = f"not determined; its 95 % interval reaches beyond all rates of the plan, {ends} transactions a second"
    parts = [f"capacity at {target}: {found}"]
    if capacity.met is not None:
        parts.append(f"all trials met it up to {numbers.rounded(capacity.met, 4)}")
    if capacity.missed is not None:
        parts.append(f"none at {numbers.rounded(capacity.missed, 4)}")
    return "; ".join(parts)
