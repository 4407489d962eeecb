"""What a search found, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

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


def capacity_words(capacity: Capacity, span: RateSpan, latency: str | Mapping[str, str]) -> str:
    """`capacity at p99 < 10ms: from 2,100 to 2,200 transactions a second`, or what is known instead."""
    target = latency if isinstance(latency, str) else ", ".join(f"{name} {each}" for name, each in latency.items())
    met, missed = capacity.met, capacity.missed
    if met is None:
        under = numbers.rounded(span.lowest if missed is None else missed, 4)
        return f"capacity at {target}: less than {under} transactions a second; the lowest rate did not meet it"
    if missed is None:
        why = "the highest rate met it" if met >= span.highest else "trials of higher rates disagree"
        return f"capacity at {target}: at least {numbers.rounded(met, 4)} transactions a second; {why}"
    return f"capacity at {target}: from {numbers.rounded(met, 4)} to {numbers.rounded(missed, 4)} transactions a second"
