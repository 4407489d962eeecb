"""A trial second by second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pgdyno.analyse.histogram import merge
from pgdyno.analyse.source import MEASURE, WARM_UP, RunSource
from pgdyno.store.tables import IntervalRow

SHORTEST_S = 0.5
"""A rest shorter than this is left out: its rate is noise, not a second."""


@dataclass(frozen=True, slots=True)
class TimelineSecond:
    """One interval of a trial, over all its scripts."""

    from_s: float
    """Seconds since the trial began, its warm-up included."""
    to_s: float
    phase: str
    tps: float
    """Succeeded transactions over the interval's own length."""
    failed: int
    p99_ns: int | None
    """None when nothing succeeded."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Warm-up and measured part of a trial; what drained after its deadline is left out."""

    trial: int
    seconds: tuple[TimelineSecond, ...]

    def measured(self) -> list[TimelineSecond]:
        """The seconds that count."""
        return [second for second in self.seconds if second.phase == MEASURE]

    @property
    def warmup_end_s(self) -> float:
        """Where the warm-up ends: 0 without one. Phases that do not count may come later, too."""
        leading = takewhile(lambda second: second.phase == WARM_UP, self.seconds)
        return max((second.to_s for second in leading), default=0.0)


def trial_timeline(run: RunSource, trial: int, *, percentiles: bool = False) -> Timeline:
    """Throughput of trial number `trial` by second; its p99 too when `percentiles` is asked for.

    With several scripts the p99 of a second is that of their merged histograms, which costs reading them.
    """
    rows = run.intervals(trial)
    return timeline_of(trial, rows, _p99_by_second(run, trial, _by_second(rows)) if percentiles else {})


def timeline_of(trial: int, rows: Sequence[IntervalRow], p99_ns: Mapping[int, int] | None = None) -> Timeline:
    """The same from the rows of its intervals; `p99_ns` by number of the second."""
    by_second = sorted(_by_second(rows).items())
    return Timeline(trial, tuple(_second(of_it, (p99_ns or {}).get(at)) for at, of_it in by_second))


def _by_second(rows: Sequence[IntervalRow]) -> dict[int, list[IntervalRow]]:
    found: dict[int, list[IntervalRow]] = defaultdict(list)
    for row in rows:
        if row.phase in (WARM_UP, MEASURE) and row.to_us - row.from_us >= SHORTEST_S * 1e6:
            found[row.second].append(row)
    return found


def _second(rows: list[IntervalRow], p99_ns: int | None) -> TimelineSecond:
    first = rows[0]
    return TimelineSecond(
        from_s=first.from_us / 1e6,
        to_s=first.to_us / 1e6,
        phase=first.phase,
        tps=sum(row.succeeded for row in rows) / ((first.to_us - first.from_us) / 1e6),
        failed=sum(row.failed for row in rows),
        p99_ns=p99_ns,
    )


def _p99_by_second(run: RunSource, trial: int, by_second: dict[int, list[IntervalRow]]) -> dict[int, int]:
    if all(len(rows) == 1 for rows in by_second.values()):
        return {at: rows[0].p99_ns for at, rows in by_second.items() if rows[0].p99_ns is not None}
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    merged = {at: merge(blobs[at]) for at in by_second if at in blobs}
    return {at: histogram.percentile_ns(99) for at, histogram in merged.items() if histogram is not None}
