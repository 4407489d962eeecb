"""A trial second by second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pgdyno.analyse.histogram import merge
from pgdyno.analyse.source import MEASURE, WARM_UP, Remembered, RunSource
from pgdyno.store.tables import IntervalRow

SHORTEST_S = 0.5
"""Shorter remainders are left out: their rate is noise."""


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
    """None if nothing succeeded, or if there are several scripts and percentiles were not requested."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Warm-up and measured part of a trial, without the drain after its deadline."""

    trial: int
    seconds: tuple[TimelineSecond, ...]

    def measured(self) -> list[TimelineSecond]:
        """Return the seconds that count."""
        return [second for second in self.seconds if second.phase == MEASURE]

    @property
    def warmup_end_s(self) -> float:
        """Return the end of the warm-up: 0 without one. Phases that do not count may follow later, too."""
        leading = takewhile(lambda second: second.phase == WARM_UP, self.seconds)
        return max((second.to_s for second in leading), default=0.0)


def trial_timeline(run: RunSource, trial: int, *, percentiles: bool = False) -> Timeline:
    """Return throughput of trial number `trial` by second; its p99 too if `percentiles` is set.

    With several scripts, the p99 of a second is that of their merged histograms, which are slow to read. A `Remembered`
    run computes each timeline once.
    """
    known = run.timelines if isinstance(run, Remembered) else {}
    if (trial, percentiles) not in known:
        by_second = _by_second(run.intervals(trial))
        # with one script, the p99 of a second is recorded anyway
        alone = all(len(rows) == 1 for rows in by_second.values())
        made = _timeline(trial, by_second, _p99_by_second(run, trial, by_second) if percentiles and not alone else {})
        known |= {(trial, each): made for each in ((True, False) if alone else (percentiles,))}
    found: Timeline = known[trial, percentiles]
    return found


def timeline_of(trial: int, rows: Sequence[IntervalRow]) -> Timeline:
    """Return the timeline from the rows of its intervals, with the p99 only if there is one script."""
    return _timeline(trial, _by_second(rows), {})


def _timeline(trial: int, by_second: Mapping[int, list[IntervalRow]], p99_ns: Mapping[int, int]) -> Timeline:
    seconds = sorted(by_second.items())
    return Timeline(
        trial, tuple(_second(rows, rows[0].p99_ns if len(rows) == 1 else p99_ns.get(at)) for at, rows in seconds)
    )


def _by_second(rows: Sequence[IntervalRow]) -> dict[int, list[IntervalRow]]:
    found: dict[int, list[IntervalRow]] = defaultdict(list)
    for row in rows:
        if row.phase in (WARM_UP, MEASURE) and row.to_us - row.from_us >= SHORTEST_S * 1e6:
            found[row.second].append(row)
    return found


def _second(rows: list[IntervalRow], p99_ns: int | None) -> TimelineSecond:
    first = rows[0]
    succeeded, failed = first.succeeded, first.failed
    for row in rows[1:]:
        succeeded += row.succeeded
        failed += row.failed
    return TimelineSecond(
        from_s=first.from_us / 1e6,
        to_s=first.to_us / 1e6,
        phase=first.phase,
        tps=succeeded / ((first.to_us - first.from_us) / 1e6),
        failed=failed,
        p99_ns=p99_ns,
    )


def _p99_by_second(run: RunSource, trial: int, by_second: dict[int, list[IntervalRow]]) -> dict[int, int]:
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    merged = {at: merge(blobs[at]) for at in by_second if at in blobs}
    return {
        at: histogram.within(*bounds(by_second[at])).percentile_ns(99)
        for at, histogram in merged.items()
        if histogram is not None
    }


def bounds(rows: Iterable[IntervalRow]) -> tuple[int | None, int | None]:
    """Return the smallest and the largest latency in `rows`; None if one that has transactions lacks it."""
    found = [(row.latency_min_ns, row.latency_max_ns) for row in rows if row.succeeded]
    least = [each for each, _ in found if each is not None]
    most = [each for _, each in found if each is not None]
    return (
        min(least) if least and len(least) == len(found) else None,
        max(most) if most and len(most) == len(found) else None,
    )
