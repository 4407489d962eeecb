"""The search for the number of clients with the highest throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.experiment.search.peak_steps import Peak, PeakEnd, PeakSpan, next_clients
from pgdyno.experiment.search.search_arm import Arm, throughput
from pgdyno.messages import Message
from pgdyno.records import SearchRecord, TrialRecord
from pgdyno.report import numbers


@dataclass(frozen=True, slots=True)
class PeakSearch(Arm):
    """Searches along the number of clients."""

    def next(self, own: Sequence[TrialRecord]) -> int | SearchRecord:
        measured: dict[int, list[float | None]] = {}
        for record in own:
            measured.setdefault(record.point.clients, []).append(throughput(record))
        span = PeakSpan(self.lowest.clients, self.highest.clients, self.repeats)
        peak = next_clients(span, measured)
        if not isinstance(peak, Peak):
            return peak
        return self.record(
            len(own),
            peak.clients if peak.clients is not None else self.lowest.clients,
            peak_messages(peak, self.highest.clients),
            end=peak.end.value,
            tps=peak.tps.mean if peak.tps else None,
            tps_half=peak.tps.half if peak.tps else None,
            knee=peak.knee,
            alike=peak.alike,
        )


def peak_messages(peak: Peak, most: int) -> list[Message]:
    """Return messages such as `peak at 12 clients: 4,320 ± 60 tps; no difference shown from 8 to 16 clients`."""
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
        parts.append(Message("search-alike", "no difference shown from {low} to {high} clients", low=low, high=high))
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
