"""The records and tables of a run that analyses read, and a trial second by second, as a timeline and a heatmap."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.histogram import LatencyHistogram, merge
from pgdyno.records import Manifest, TrialRecord
from pgdyno.store.tables import HistogramRow, IntervalRow, StatementRow

MEASURE = "measure"
WARM_UP = "warm-up"


class RunSource(Protocol):
    """A run that can be analysed; `store.read_runs.RunData` implements it."""

    @property
    def manifest(self) -> Manifest:
        """Return the run's manifest."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Return the trials in order, with failed ones."""

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Return the seconds of trial number `trial`, in order; empty if it never ran."""

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Return the histograms of trial number `trial`: of its whole measured part, or of its seconds."""

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Return the statements of trial number `trial`, in the order of its scripts."""


class Remembered:
    """A run whose tables are read only once, because several analyses need the same seconds."""

    def __init__(self, run: RunSource) -> None:
        self._run = run
        self._intervals: dict[int, Sequence[IntervalRow]] = {}
        self._totals: dict[int, Sequence[HistogramRow]] = {}
        self.timelines: dict[tuple[int, bool], Any] = {}
        """Timelines (`pgdyno.analyse.timeline`) by trial and whether with percentiles."""

    @property
    def manifest(self) -> Manifest:
        """Return the run's manifest."""
        return self._run.manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Return the trials in order."""
        return self._run.trials

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Return the seconds of a trial."""
        if trial not in self._intervals:
            self._intervals[trial] = self._run.intervals(trial)
        return self._intervals[trial]

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Return the histograms of a trial; those of its seconds are not cached, because they are large."""
        if not totals:
            return self._run.histograms(trial, totals=False)
        if trial not in self._totals:
            self._totals[trial] = self._run.histograms(trial, totals=True)
        return self._totals[trial]

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Return the statements of a trial."""
        return self._run.statements(trial)


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


BINS_A_DECADE = 20


@dataclass(frozen=True)
class Heatmap:
    """Counts of transactions by step of time and latency."""

    seconds: tuple[float, ...]
    """Start of each step, since the trial began, its warm-up included."""
    end_s: float
    steps: tuple[LatencyHistogram | None, ...]
    """Each step's complete histogram; None if nothing succeeded."""
    edges_ns: tuple[float, ...]
    """Edges of the latency bins, one more than there are bins; each bin is a twentieth of a decade."""
    counts: NDArray[np.int64]
    """By step, then by bin."""


def latency_heatmap(run: RunSource, trial: int, most: int | None = None) -> Heatmap | None:
    """Return the heatmap of trial number `trial`, from the histograms of its seconds with scripts merged; None without
    any.

    Steps are seconds, or so many of them that there are at most `most`.
    """
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    rows: dict[int, list[IntervalRow]] = defaultdict(list)
    for interval in run.intervals(trial):
        if interval.phase in (MEASURE, WARM_UP):
            rows[interval.second].append(interval)
    if not blobs or not rows:
        return None
    ordered = sorted(rows)
    each = 1 if most is None else math.ceil(len(ordered) / most)
    found: dict[float, LatencyHistogram | None] = {}
    for group in (ordered[at : at + each] for at in range(0, len(ordered), each)):
        merged = merge(blob for second in group for blob in blobs.get(second, ()))
        of_group = [row for second in group for row in rows[second]]
        found[of_group[0].from_us / 1e6] = merged and merged.within(*bounds(of_group))
    return heatmap_of(found, rows[ordered[-1]][-1].to_us / 1e6) if any(found.values()) else None


def heatmap_of(steps: Mapping[float, LatencyHistogram | None], end_s: float) -> Heatmap:
    """Return the counts of `steps`, histograms by their start, in bins of a twentieth of a decade over all latencies.

    At least one of them has a transaction.
    """
    there = [each for each in steps.values() if each is not None]
    first = min(_bin(each.highest_ns[0]) for each in there)
    bins = max(_bin(each.highest_ns[-1]) for each in there) - first + 1
    counts = np.zeros((len(steps), bins), dtype=np.int64)
    for at, histogram in enumerate(steps.values()):
        if histogram is not None:
            places = np.floor(np.log10(np.maximum(histogram.highest_ns, 1)) * BINS_A_DECADE + 1e-9).astype(int) - first
            np.add.at(counts[at], places, histogram.counts)
    edges = [10 ** ((first + at) / BINS_A_DECADE) for at in range(bins + 1)]
    return Heatmap(tuple(steps), end_s, tuple(steps.values()), tuple(edges), counts)


def _bin(latency_ns: float) -> int:
    return math.floor(math.log10(max(latency_ns, 1)) * BINS_A_DECADE + 1e-9)
