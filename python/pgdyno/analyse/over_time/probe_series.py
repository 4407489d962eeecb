"""What the probe saw during a trial, on the trial's clock: waits of sessions, checkpoint cycles, load on standbys."""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pgdyno.analyse.histogram import merge
from pgdyno.records import BackgroundFigures, Latency, TrialRecord
from pgdyno.store.safe_files import whole_of
from pgdyno.store.trial_tables import EventRow, SeriesRow, WaitRow

CLIENT = "client backend"
CHECKPOINTER = "checkpointer"

Span = tuple[float, float]
"""From, to: seconds since the start of measuring; the warm-up is negative."""
Key = Callable[[WaitRow], str | None]
"""The category of a wait; None excludes it."""


_Place = TypeVar("_Place", int, float)


def join_spans(spans: Iterable[tuple[_Place, _Place]], gap: float = 0.0) -> list[tuple[_Place, _Place]]:
    """Merge spans that overlap, or are at most `gap` apart."""
    joined: list[tuple[_Place, _Place]] = []
    for begin, end in sorted(spans):
        if joined and begin - joined[-1][1] <= gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def by_type(row: WaitRow) -> str | None:
    """Return the type of a client's wait as PostgreSQL names it (IO, LWLock …), or CPU; None for other processes."""
    return row.wait_type if row.backend_type in (None, CLIENT) else None


@dataclass(frozen=True)
class Probed:
    origin_us: int
    """The start of measuring on the engine's clock."""
    series_rows: Sequence[SeriesRow]
    """In order of time."""
    sums: Mapping[Span, tuple[int, Sequence[WaitRow]]]
    """Session samples of a stretch, and sessions by wait summed over them; a missing stretch has none."""

    def sessions(self, span: Span, key: Key = by_type) -> dict[str, float]:
        """Return the mean active sessions by `key` over the samples within `span`; empty without a sample."""
        looks, rows = self.sums.get(span, (0, ()))
        found: dict[str, float] = defaultdict(float)
        for row in rows:
            name = key(row)
            if name is not None and row.sessions:
                found[name] += row.sessions / looks
        return dict(found)

    def looks(self, span: Span) -> int:
        """Return the number of session samples within `span`."""
        return self.sums.get(span, (0, ()))[0]

    def mean(self, source: str, metric: str, span: Span) -> float | None:
        """Return the mean of a gauge, average or mean over samples that end within `span`, summed over labels."""
        rows = self.samples(source, metric, span)
        return sum(row.value for row in rows) / len({row.t_us for row in rows}) if rows else None

    def amount(self, source: str, metric: str, span: Span) -> float | None:
        """Return the increase of a counter in the samples that end within `span`; None without a sample of `source`.

        A metric whose zeros are left out increased by 0.
        """
        if not self._rows_in_span(source, span):
            return None
        return sum(row.value for row in self.samples(source, metric, span))

    def samples(self, source: str, metric: str, span: Span) -> list[SeriesRow]:
        """Return the values of one metric whose samples end within `span`."""
        return [row for row in self._rows_in_span(source, span) if row.metric == metric]

    def _rows_in_span(self, source: str, span: Span) -> Sequence[SeriesRow]:
        rows, times = self._by_source.get(source, ((), ()))
        # a sample covers the time before it: one at the very end belongs to the span, one at its start does not
        begin, end = (bisect_right(times, self._to_run_us(each)) for each in span)
        return rows[begin:end]

    def _to_run_us(self, second: float) -> int:
        return self.origin_us + round(second * 1e6)

    @cached_property
    def _by_source(self) -> Mapping[str, tuple[Sequence[SeriesRow], Sequence[int]]]:
        found: dict[str, list[SeriesRow]] = defaultdict(list)
        for row in self.series_rows:
            found[row.source].append(row)
        return {source: (rows, [row.t_us for row in rows]) for source, rows in found.items()}


def origin_us(trial: TrialRecord, events: Sequence[EventRow]) -> int | None:
    """Return the origin of timelines, the start of measuring, on the clock of `events`; None if no load started."""
    said = next((row for row in events if row.kind == "connected"), None)
    began_us = None if said is None else whole_of(said.kind, said.detail, "origin_us")
    return None if began_us is None else began_us - trial.load_begins_us


Event = dict[str, Any]


def background_figures(
    name: str, clients: int, events: Sequence[Event], trial: Sequence[Event]
) -> BackgroundFigures | None:
    """Return the engine's figures in `events` of the load of group `name`, while the engine of `trial` measured.

    Both engines use the clock of the same host. Only complete intervals within the measured part count, so that up to a
    second at each of its ends is left out. None if one of the engines never started its load.
    """
    start, end = _find(events, "start"), _find(events, "end")
    if start is None or end is None or _origin_us(events) is None:
        return None
    measured = join_spans(_span(origin, each) for origin, each in _intervals(trial) if each["phase"] == "measure")
    inside = [
        event
        for span, event in ((_span(origin, each), each) for origin, each in _intervals(events))
        if any(begin <= span[0] and span[1] <= end_ for begin, end_ in measured)
    ]
    scripts = [script for event in inside for script in event["scripts"]]
    measured_s = sum(event["to_us"] - event["from_us"] for event in inside) / 1e6
    succeeded = sum(script["succeeded"] for script in scripts)
    return BackgroundFigures(
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


def _span(origin_us: int, event: Event) -> tuple[int, int]:
    """Return from and to in microseconds since 1970."""
    return origin_us + event["from_us"], origin_us + event["to_us"]


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
    stddev = math.sqrt(max(squares - mean * mean, 0.0))
    percentiles = merged.with_bounds(least, highest).named_percentiles_ns()
    return Latency(mean=mean, stddev=stddev, min=least, **percentiles, max=highest)
