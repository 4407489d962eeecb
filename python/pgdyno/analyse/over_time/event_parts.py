"""Throughput and latency before, during and after each event of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.analyse.histogram import merge
from pgdyno.analyse.over_time.timeline import RunSource, bounds
from pgdyno.records import EventRecord, TrialRecord
from pgdyno.store.seconds import MEASURE
from pgdyno.store.trial_tables import IntervalRow


@dataclass(frozen=True, slots=True)
class EventPart:
    """Measured seconds of a trial around one event."""

    event: EventRecord
    part: str
    """before, during, after."""
    from_s: float
    """Seconds since the trial began, its warm-up included, as in timelines."""
    to_s: float
    tps: float
    p50_ns: int | None
    """None if nothing succeeded."""
    p99_ns: int | None


def event_parts(run: RunSource, trial: TrialRecord) -> list[EventPart]:
    """Return the parts of each event of `trial` that began and ended: from the end of the event before it, its own
    seconds, and to the start of the next one.

    A second in which an event begins or ends is one of it. A part without a second is left out. Reads the trial's
    seconds.
    """
    events = [each for each in trial.events if each.began_s is not None and each.seconds is not None]
    rows = [row for row in run.intervals(trial.number) if row.phase == MEASURE] if events else []
    blobs: dict[int, list[bytes]] = {}
    for row in run.histograms(trial.number, totals=False) if rows else ():
        blobs.setdefault(row.second, []).append(row.histogram)
    found: list[EventPart] = []
    spans = [(trial.warmup_s + (each.began_s or 0), each.seconds or 0) for each in events]
    for at, event in enumerate(events):
        began_s, ended_s = spans[at][0], sum(spans[at])
        earlier = max((sum(span) for span in spans if sum(span) <= began_s), default=0.0)
        later = min((begin for begin, _ in spans if begin >= ended_s and begin > began_s), default=float("inf"))
        for part, chosen in (
            ("before", [row for row in rows if row.from_us >= earlier * 1e6 and row.to_us <= began_s * 1e6]),
            ("during", [row for row in rows if row.to_us > began_s * 1e6 and row.from_us <= ended_s * 1e6]),
            ("after", [row for row in rows if row.from_us > ended_s * 1e6 and row.to_us <= later * 1e6]),
        ):
            found += _part(event, part, chosen, blobs)
    return found


def _part(
    event: EventRecord, part: str, rows: Sequence[IntervalRow], blobs: dict[int, list[bytes]]
) -> Iterator[EventPart]:
    if not rows:
        return
    seconds = {row.second: row.to_us - row.from_us for row in rows}
    merged = merge(blob for second in seconds for blob in blobs.get(second, ()))
    p50_ns, p99_ns = (None, None) if merged is None else merged.within(*bounds(rows)).percentiles_ns([50, 99])
    yield EventPart(
        event,
        part,
        min(row.from_us for row in rows) / 1e6,
        max(row.to_us for row in rows) / 1e6,
        sum(row.succeeded for row in rows) / sum(seconds.values()) * 1e6,
        p50_ns,
        p99_ns,
    )
