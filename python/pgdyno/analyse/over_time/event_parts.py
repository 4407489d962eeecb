"""Throughput and latency before, during and after each event of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pgdyno.analyse.histogram import merge
from pgdyno.analyse.over_time.probe_series import Span, by_type, origin_us
from pgdyno.analyse.over_time.timeline import RunSource, bounds
from pgdyno.records import EventRecord, Stall, TrialRecord
from pgdyno.store.probe_tables import Metric, Stretches
from pgdyno.store.seconds import MEASURE
from pgdyno.store.trial_tables import EventRow, IntervalRow, WaitRow

WAL: Metric = ("wal_position", "inserted")
PAGING: tuple[Metric, Metric] = (("paging", "read"), ("paging", "written"))
METRICS = (WAL, *PAGING)
OF_SESSIONS = ("sql", "vacuum", "checkpoint")
"""Events that pgdyno executes in a session of its own."""
SAMPLED_S = 0.3
"""A stretch that has samples of sessions on this machine."""


@runtime_checkable
class ProbedSource(RunSource, Protocol):
    """A run with its probe's tables; `store.read_runs.RunData` implements it."""

    def events(self) -> Sequence[EventRow]:
        """Return the engine's events other than its intervals."""

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        """Return the increase of counters, by trial and number of the stretch."""

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        """Return the number of samples, and sessions by wait, by trial and number of the stretch."""


@dataclass(frozen=True, slots=True)
class EventPart:
    """Measured seconds of a trial around one event."""

    event: EventRecord
    part: str
    """before, during, recovering, after."""
    from_s: float
    """Seconds since the start of measuring."""
    to_s: float
    tps: float
    p50_ns: int | None
    """None if nothing succeeded."""
    p99_ns: int | None
    failed: int
    stall_s: float
    """The longest stall: the time without a successful transaction of any client; 0 if none lasted 10 ms."""
    stall_wait: str | None
    """What clients waited for during the stall, as `Lock:relation`; None without a sample of a wait."""
    wal_bytes: float | None
    """WAL that was made; None without a probe of the server."""
    paging_bytes: float | None
    """Read from and written to devices; None without a probe of the host."""


def event_parts(run: RunSource, trial: TrialRecord) -> list[EventPart]:
    """Return the parts of each event of `trial` that began and ended: from the end of the event before it, its own
    seconds, those until all is as before, and those to the start of the next one.

    A second in which an event begins or ends is one of it. A part without a second is left out. Reads the trial's
    seconds and the probe's samples.
    """
    events = [each for each in trial.events if each.began_s is not None and each.seconds is not None]
    rows = [row for row in run.intervals(trial.number) if row.phase == MEASURE] if events else []
    if not rows:
        return []
    blobs: dict[int, list[bytes]] = {}
    for row in run.histograms(trial.number, totals=False):
        blobs.setdefault(row.second, []).append(row.histogram)
    found = list(_split(events, rows))
    probe = _Samples.read(run, trial, found)
    return [_part(each, at, blobs, probe) for at, each in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _Seconds:
    event: EventRecord
    part: str
    rows: Sequence[IntervalRow]
    span: Span
    stall: Stall | None
    stall_span: Span


def _split(events: Sequence[EventRecord], rows: Sequence[IntervalRow]) -> Iterator[_Seconds]:
    spans = [(each.began_s or 0, each.seconds or 0) for each in events]
    for at, event in enumerate(events):
        began_s, ended_s = spans[at][0], sum(spans[at])
        earlier = max((sum(span) for span in spans if sum(span) <= began_s), default=0.0)
        later = min((begin for begin, _ in spans if begin >= ended_s and begin > began_s), default=float("inf"))
        as_before_s = event.effect.as_before_s if event.effect is not None else None
        recovered_us = min(ended_s + (as_before_s or 0.0), later) * 1e6
        for part, chosen in (
            ("before", [row for row in rows if row.from_us >= earlier * 1e6 and row.to_us <= began_s * 1e6]),
            ("during", [row for row in rows if row.to_us > began_s * 1e6 and row.from_us <= ended_s * 1e6]),
            ("recovering", [row for row in rows if row.from_us > ended_s * 1e6 and row.to_us <= recovered_us + 1]),
            (
                "after",
                [
                    row
                    for row in rows
                    if row.from_us > ended_s * 1e6 and row.from_us >= recovered_us - 1 and row.to_us <= later * 1e6
                ],
            ),
        ):
            if chosen:
                span = min(row.from_us for row in chosen) / 1e6, max(row.to_us for row in chosen) / 1e6
                yield _Seconds(event, part, chosen, span, *_stall(event, part, span))


def _stall(event: EventRecord, part: str, span: Span) -> tuple[Stall | None, Span]:
    known = event.effect.stalls if event.effect is not None else []
    for stall in known:
        is_inside = span[0] <= stall.from_s + stall.seconds / 2 <= span[1]
        if is_inside and stall.part == ("after" if part == "recovering" else part):
            # a short stall may have no sample of its own
            margin_s = max(0.0, SAMPLED_S - stall.seconds) / 2
            return stall, (stall.from_s - margin_s, stall.from_s + stall.seconds + margin_s)
    return None, span


@dataclass(frozen=True, slots=True)
class _Samples:
    """The probe's samples by number of the part; empty without a probe."""

    amounts: Mapping[tuple[int, int], Mapping[Metric, float]]
    sessions: Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]
    trial: int

    @classmethod
    def read(cls, run: RunSource, trial: TrialRecord, parts: Sequence[_Seconds]) -> _Samples:
        if trial.probe is None or not isinstance(run, ProbedSource):
            return cls({}, {}, trial.number)
        origin = origin_us(trial, [row for row in run.events() if row.trial == trial.number])
        if origin is None:
            return cls({}, {}, trial.number)
        spans = [_on_clock(origin, part.span) for part in parts]
        stalls = [_on_clock(origin, part.stall_span) for part in parts]
        return cls(
            run.amounts_within({trial.number: spans}, METRICS),
            run.sessions_within({trial.number: stalls}),
            trial.number,
        )

    def amount(self, at: int, *metrics: Metric) -> float | None:
        """Return the sum of the increases of `metrics`; None without a sample of them."""
        known = self.amounts.get((self.trial, at), {})
        values = [known[each] for each in metrics if each in known]
        return sum(values) if values else None

    def top_wait(self, at: int, own: float) -> str | None:
        """Return what more than `own` sessions waited for."""
        looks, rows = self.sessions.get((self.trial, at), (0, ()))
        waits: dict[str, float] = {}
        for row in rows:
            if row.wait and by_type(row) is not None:
                name = f"{row.wait_type}:{row.wait}"
                waits[name] = waits.get(name, 0.0) + row.sessions / looks
        return max((wait for wait in waits if waits[wait] > own), key=waits.__getitem__, default=None)


def _on_clock(origin: int, span: Span) -> tuple[int, int]:
    return origin + round(span[0] * 1e6), origin + round(span[1] * 1e6)


def _part(of: _Seconds, at: int, blobs: dict[int, list[bytes]], probe: _Samples) -> EventPart:
    seconds = {row.second: row.to_us - row.from_us for row in of.rows}
    merged = merge(blob for second in seconds for blob in blobs.get(second, ()))
    p50_ns, p99_ns = (None, None) if merged is None else merged.with_bounds(*bounds(of.rows)).percentiles_ns([50, 99])
    # while it runs, one of the sessions is its own
    own = 1.0 if of.part == "during" and of.event.do in OF_SESSIONS and not of.event.is_control else 0.0
    return EventPart(
        of.event,
        of.part,
        *of.span,
        sum(row.succeeded for row in of.rows) / sum(seconds.values()) * 1e6,
        p50_ns,
        p99_ns,
        sum(row.failed for row in of.rows),
        0.0 if of.stall is None else of.stall.seconds,
        None if of.stall is None else probe.top_wait(at, own),
        probe.amount(at, WAL),
        probe.amount(at, *PAGING),
    )
