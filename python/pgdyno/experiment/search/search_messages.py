"""The result of a search as messages, which together form a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analyse.capacity import CapacityInterval
from pgdyno.experiment.search.capacity import Capacity, RateSpan
from pgdyno.experiment.search.peak import Peak, PeakEnd
from pgdyno.messages import Message
from pgdyno.report import numbers


def sentence_of(messages: Sequence[Message]) -> str:
    """Return the sentence in English, for the manifest and the terminal."""
    return "; ".join(map(str, messages))


def peak_messages(peak: Peak, most: int) -> list[Message]:
    """Return messages such as `peak at 12 clients: 4,320 ± 60 tps; 8 to 16 clients cannot be told from it`."""
    if peak.clients is None or peak.tps is None:
        return [Message("search-no-peak", "no peak: trials with the fewest clients failed")]
    half = f" ± {numbers.half(peak.tps)}" if peak.tps.half is not None else ""
    parts = [
        Message(
            "search-peak",
            "peak at {count:,} client: {tps} tps",
            "peak at {count:,} clients: {tps} tps",
            count=peak.clients,
            tps=f"{numbers.estimate(peak.tps)}{half}",
        )
    ]
    if peak.alike is not None and peak.alike[0] != peak.alike[1]:
        low, high = peak.alike
        parts.append(Message("search-alike", "{low} to {high} clients cannot be told from it", low=low, high=high))
    if peak.end is PeakEnd.LIMIT:
        parts.append(
            Message(
                "search-limit",
                "throughput has not fallen at {count:,} client, the most that the plan allows",
                "throughput has not fallen at {count:,} clients, the most that the plan allows",
                count=most,
            )
        )
    elif peak.end is PeakEnd.FAILED:
        parts.append(Message("search-failed", "trials with more clients failed"))
    return parts


def capacity_messages(
    interval: CapacityInterval, capacity: Capacity, span: RateSpan, latency: str | Mapping[str, str]
) -> list[Message]:
    """Return messages such as `capacity at p99 < 10ms: from 2,050 to 2,240 transactions a second (95 % interval)`.

    They include the rates between which trials disagreed, and say what is known if there is no interval.
    """
    target = latency if isinstance(latency, str) else ", ".join(f"{name} {each}" for name, each in latency.items())
    low, high = (None if end is None else numbers.rounded(end, 4) for end in (interval.low, interval.high))
    if low is not None and high is not None:
        found = Message(
            "search-capacity",
            "capacity at {target}: from {low} to {high} transactions a second (95 % interval)",
            target=target,
            low=low,
            high=high,
        )
    elif high is not None:
        found = Message(
            "search-capacity-below",
            "capacity at {target}: less than {high} transactions a second (95 % interval), and it may be under the "
            "lowest rate",
            target=target,
            high=high,
        )
    elif low is not None:
        found = Message(
            "search-capacity-above",
            "capacity at {target}: at least {low} transactions a second (95 % interval), and it may be over the "
            "highest rate",
            target=target,
            low=low,
        )
    else:
        found = Message(
            "search-capacity-unknown",
            "capacity at {target}: not determined; its 95 % interval reaches beyond all rates of the plan, {lowest} to "
            "{highest} transactions a second",
            target=target,
            lowest=numbers.rounded(span.lowest, 4),
            highest=numbers.rounded(span.highest, 4),
        )
    parts = [found]
    if capacity.met is not None:
        rate = numbers.rounded(capacity.met, 4)
        parts.append(Message("search-met", "all trials met it up to {rate}", rate=rate))
    if capacity.missed is not None:
        parts.append(Message("search-missed", "none at {rate}", rate=numbers.rounded(capacity.missed, 4)))
    return parts
