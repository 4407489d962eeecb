"""What the probe saw during a trial, on the trial's clock: waits of sessions, checkpoint cycles, load on standbys."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from pgdyno.analyse.histogram import merge
from pgdyno.analyse.over_time.timeline import RunSource, Timeline, trial_timeline
from pgdyno.records import Latency, ReplicaFigures
from pgdyno.store.safe_files import whole_of
from pgdyno.store.trial_tables import EventRow, SeriesRow, WaitRow

CLIENT = "client backend"
CHECKPOINTER = "checkpointer"

Span = tuple[float, float]
"""From, to: seconds since the trial began, its warm-up included."""
Key = Callable[[WaitRow], str | None]
"""The category of a wait; None excludes it."""


class ProbedSource(RunSource, Protocol):
    """A run with its probe's tables; `store.read_runs.RunData` implements it."""

    def events(self, trial: int) -> Sequence[EventRow]:
        """Return the engine's events other than its intervals."""

    def series(self, trial: int, sources: Sequence[str]) -> Sequence[SeriesRow]:
        """Return the samples of the probe's series from `sources`."""

    def waits(self, trial: int) -> Sequence[WaitRow]:
        """Return the samples of waits."""


def by_type(row: WaitRow) -> str | None:
    """Return the type of a client's wait as PostgreSQL names it (IO, LWLock …), or CPU; None for other processes."""
    return row.wait_type if row.backend_type in (None, CLIENT) else None


@dataclass(frozen=True)
class Probed:
    """The samples of a trial's probe."""

    origin_us: int
    """The time on the engine's clock at which the first transaction was due."""
    waits_rows: Sequence[WaitRow]
    series_rows: Sequence[SeriesRow]
    """Both in order of time."""

    def sessions(self, span: Span, key: Key = by_type) -> dict[str, float]:
        """Return the mean active sessions by `key` over the samples within `span`; empty without a sample."""
        looks, rows = self._wait_sums(span)
        found: dict[str, float] = defaultdict(float)
        for row in rows:
            name = key(row)
            if name is not None and row.sessions:
                found[name] += row.sessions / looks
        return dict(found)

    def looks(self, span: Span) -> int:
        """Return the number of session samples within `span`."""
        return self._wait_sums(span)[0]

    def mean(self, source: str, metric: str, span: Span) -> float | None:
        """Return the mean of a gauge, an average or a mean over the samples that end within `span`, summed over
        labels.
        """
        rows = self.samples(source, metric, span)
        return sum(row.value for row in rows) / len({row.t_us for row in rows}) if rows else None

    def largest(self, source: str, metric: str, span: Span) -> float | None:
        """Return the largest single value within `span`, over all labels."""
        return max((row.value for row in self.samples(source, metric, span)), default=None)

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

    def has(self, source: str) -> bool:
        """Return whether there is any sample of `source`."""
        return source in self._by_source

    def _rows_in_span(self, source: str, span: Span) -> Sequence[SeriesRow]:
        rows, times = self._by_source.get(source, ((), ()))
        # a sample covers the time before it: one at the very end belongs to the span, one at its start does not
        begin, end = (bisect_right(times, self._to_run_us(each)) for each in span)
        return rows[begin:end]

    def _wait_sums(self, span: Span) -> tuple[int, Sequence[WaitRow]]:
        """Return the number of samples within `span`, and sessions by wait summed over all of them."""
        begin, end = (bisect_left(self._looks, self._to_run_us(each)) for each in span)
        rows = self.waits_rows[begin:end]
        return len({row.t_us for row in rows}), rows

    def _to_run_us(self, second: float) -> int:
        return self.origin_us + round(second * 1e6)

    @cached_property
    def _looks(self) -> Sequence[int]:
        return [row.t_us for row in self.waits_rows]

    @cached_property
    def _by_source(self) -> Mapping[str, tuple[Sequence[SeriesRow], Sequence[int]]]:
        found: dict[str, list[SeriesRow]] = defaultdict(list)
        for row in self.series_rows:
            found[row.source].append(row)
        return {source: (rows, [row.t_us for row in rows]) for source, rows in found.items()}


@dataclass(frozen=True)
class SummedProbe(Probed):
    """A trial's probe of which session samples are only available as sums over some stretches."""

    sums: Mapping[Span, tuple[int, Sequence[WaitRow]]]
    """Number of samples, and sessions by wait summed over all of them; a missing stretch has no sample."""

    def _wait_sums(self, span: Span) -> tuple[int, Sequence[WaitRow]]:
        return self.sums.get(span, (0, ()))


def probe_of_rows(events: Sequence[EventRow], waits: Sequence[WaitRow], series: Sequence[SeriesRow]) -> Probed | None:
    """Return the probe of a trial from its tables; None without one, and if the engine never started its load."""
    origin = origin_us(events)
    if origin is None or not (waits or series):
        return None
    return Probed(origin, waits, series)


def trial_probed(run: ProbedSource, trial: int, sources: Sequence[str]) -> Probed | None:
    """Return `probe_of_rows` of trial number `trial`, with series of `sources` alone; all are a million an hour."""
    return probe_of_rows(run.events(trial), run.waits(trial), run.series(trial, sources))


def origin_us(events: Sequence[EventRow]) -> int | None:
    """Return the origin of intervals on the clock of events: `origin_us` of `connected` (docs/reference/events.md)."""
    said = next((row for row in events if row.kind == "connected"), None)
    return None if said is None else whole_of(said.kind, said.detail, "origin_us")


@dataclass(frozen=True, slots=True)
class ActiveSecond:
    """One second of a trial with its active sessions."""

    from_s: float
    to_s: float
    phase: str
    tps: float
    sessions: Mapping[str, float]
    """Mean active sessions by class of wait (CPU: they used the CPU, or were ready to); empty without a sample."""


def active_seconds(timeline: Timeline, probe: Probed, key: Key = by_type) -> list[ActiveSecond]:
    """Return every second of `timeline` with its active sessions by `key`.

    The mean over samples, sum of sessions / samples, estimates the average active sessions of the second.
    """
    return [
        ActiveSecond(each.from_s, each.to_s, each.phase, each.tps, probe.sessions((each.from_s, each.to_s), key))
        for each in timeline.seconds
    ]


def trial_activity(run: ProbedSource, trial: int, key: Key = by_type) -> list[ActiveSecond] | None:
    """Return `active_seconds` of trial number `trial`; None without a probe."""
    # one source says whether there was a probe of a trial in which no session was ever active
    probe = trial_probed(run, trial, ["probe"])
    return None if probe is None else active_seconds(trial_timeline(run, trial), probe, key)


@dataclass(frozen=True, slots=True)
class Cycle:
    """From the start of one checkpoint to that of the next, or to the ends of the trial."""

    from_s: float
    to_s: float
    """Seconds since the trial began."""
    whole: bool
    """Whether both ends are starts of checkpoints."""
    tps: float | None
    """Mean over its measured seconds; None if it has none."""
    full_page_images: float | None
    """Share of the cycle's full-page images that fall into its first tenth: near 1 if each page is written in full
    once, soon after the checkpoint. None if there are none, or the server does not report them.
    """


def checkpoint_cycles(timeline: Timeline, probe: Probed) -> list[Cycle]:
    """Return the checkpoint cycles of `timeline`; one incomplete cycle if no checkpoint began.

    The probe's counters (`timed`, `requested`) show in which second a checkpoint began, so the bounds are accurate to a
    second.
    """
    if not timeline.seconds:
        return []
    begin, end = timeline.seconds[0].from_s, timeline.seconds[-1].to_s
    begins = sorted(
        {
            (row.t_us - probe.origin_us) / 1e6
            for metric in ("timed", "requested")
            for row in probe.samples("checkpoints", metric, (begin, end))
            if row.value > 0
        }
    )
    edges = [begin, *begins, end]
    return [
        _cycle(timeline, probe, a, b, whole=0 < at < len(edges) - 2)
        for at, (a, b) in enumerate(pairwise(edges))
        if b > a
    ]


def _cycle(timeline: Timeline, probe: Probed, begin: float, end: float, *, whole: bool) -> Cycle:
    inside = [each for each in timeline.measured() if each.from_s >= begin and each.to_s <= end + 0.5]
    seconds = sum(each.to_s - each.from_s for each in inside)
    done = sum(each.tps * (each.to_s - each.from_s) for each in inside)
    images = probe.amount("wal", "full_page_images", (begin, end))
    first = probe.amount("wal", "full_page_images", (begin, begin + (end - begin) / 10))
    return Cycle(
        begin, end, whole, done / seconds if seconds else None, first / images if images and first is not None else None
    )


Event = dict[str, Any]
SpanUs = tuple[int, int]
"""From, to: microseconds since 1970."""


def figures(name: str, clients: int, events: Sequence[Event], trial: Sequence[Event]) -> ReplicaFigures | None:
    """Return the engine's figures in `events` of the load on standby `name`, while the engine of `trial` measured.

    Both engines use the clock of the same host. Only complete intervals within the measured part count, so that up to a
    second at each of its ends is left out. None if one of the engines never started its load.
    """
    start, end = _find(events, "start"), _find(events, "end")
    if start is None or end is None or _origin_us(events) is None:
        return None
    measured = _join_spans(_spans(event for event in _intervals(trial) if event[1]["phase"] == "measure"))
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


def _span(origin_us: int, event: Event) -> SpanUs:
    return origin_us + event["from_us"], origin_us + event["to_us"]


def _spans(intervals: Iterable[tuple[int, Event]]) -> list[SpanUs]:
    return [_span(origin, event) for origin, event in intervals]


def _join_spans(spans: Iterable[SpanUs]) -> list[SpanUs]:
    joined: list[SpanUs] = []
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
