"""The records and tables of a run that analyses read, and a trial second by second, as a timeline and a heatmap."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.histogram import LatencyHistogram, merge
from pgdyno.records import Manifest, TrialRecord
from pgdyno.store.seconds import MEASURE, PHASES, WARM_UP, Array, Seconds
from pgdyno.store.trial_tables import HistogramRow, IntervalRow, StatementRow


class RunSource(Protocol):
    """A run that can be analysed; `store.read_runs.RunData` implements it."""

    @property
    def manifest(self) -> Manifest:
        """Return the run's manifest."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Return the trials in order, with failed ones."""

    @property
    def timelines(self) -> dict[tuple[int, bool], Any]:
        """Return the timelines that are known, by trial and whether with percentiles: several analyses need them."""

    def seconds(self, trial: int) -> Seconds:
        """Return the seconds of trial number `trial`, its scripts together; empty if it never ran."""

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Return the seconds of trial number `trial` by script, in order."""

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Return the histograms of trial number `trial`: of its whole measured part, or of its seconds."""

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Return the statements of trial number `trial`, in the order of its scripts."""


SHORTEST_S = 0.5
"""Shorter remainders are left out: their rate is noise."""


@dataclass(frozen=True, slots=True)
class TimelineSecond:
    """One interval of a trial, over all its scripts."""

    from_s: float
    """Seconds since the start of measuring; the warm-up is negative."""
    to_s: float
    phase: str
    tps: float
    """Succeeded transactions over the interval's own length."""
    failed: int
    p99_ns: int | None
    """None if nothing succeeded, or if there are several scripts and percentiles were not requested."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Warm-up and measured part of a trial, without the drain after its deadline: a value per second in each array."""

    trial: int
    from_s: Array
    """Seconds since the start of measuring; the warm-up is negative."""
    to_s: Array
    phase: Array
    """Index into PHASES."""
    tps: Array
    failed: Array
    p99_ns: Array
    """NaN where `TimelineSecond` has None."""

    @cached_property
    def seconds(self) -> tuple[TimelineSecond, ...]:
        columns = (self.from_s, self.to_s, self.phase, self.tps, self.failed, self.p99_ns)
        return tuple(
            TimelineSecond(from_s, to_s, PHASES[int(phase)], tps, int(failed), None if p99 != p99 else int(p99))
            for from_s, to_s, phase, tps, failed, p99 in zip(*(each.tolist() for each in columns), strict=True)
        )

    @cached_property
    def measured_part(self) -> Timeline:
        """Return the seconds that count."""
        return self._select_seconds(self.phase == PHASES.index(MEASURE))

    def _select_seconds(self, chosen: NDArray[np.bool_]) -> Timeline:
        columns = (self.from_s, self.to_s, self.phase, self.tps, self.failed, self.p99_ns)
        return Timeline(self.trial, *(each[chosen] for each in columns))

    def measured_seconds(self) -> Sequence[TimelineSecond]:
        """Return an object for each second that counts."""
        return self.measured_part.seconds

    def __len__(self) -> int:
        return len(self.from_s)

    @property
    def warmup_end_s(self) -> float:
        """Return the end of the warm-up: the first second's start without one. Phases that do not count may follow
        later, too.
        """
        others = np.flatnonzero(self.phase != PHASES.index(WARM_UP))
        leading = self.to_s[: others[0]] if len(others) else self.to_s
        return float(leading.max()) if len(leading) else float(self.from_s[0]) if len(self) else 0.0


def trial_timeline(run: RunSource, trial: int, *, percentiles: bool = False) -> Timeline:
    """Return throughput of trial number `trial` by second; its p99 too if `percentiles` is set.

    With several scripts, the p99 of a second is that of their merged histograms, which are slow to read. Each is
    computed once.
    """
    known = run.timelines
    if (trial, percentiles) not in known:
        seconds = run.seconds(trial)
        made = timeline_of(trial, seconds)
        # with one script, the p99 of a second is recorded anyway
        alone = bool((seconds.scripts[_is_shown(seconds)] == 1).all())
        if percentiles and not alone:
            made = replace(made, p99_ns=_merged_p99(run, trial, made, seconds))
        known |= {(trial, each): made for each in ((True, False) if alone else (percentiles,))}
    found: Timeline = known[trial, percentiles]
    return found


def timeline_of(trial: int, seconds: Seconds) -> Timeline:
    """Return the timeline of a trial, with the p99 only if there is one script."""
    shown = _is_shown(seconds)
    from_us, to_us = seconds.from_us[shown], seconds.to_us[shown]
    return Timeline(
        trial,
        from_us / 1e6,
        to_us / 1e6,
        seconds.phase[shown],
        seconds.succeeded[shown] / ((to_us - from_us) / 1e6),
        seconds.failed[shown],
        seconds.p99_ns[shown],
    )


def _is_shown(seconds: Seconds) -> NDArray[np.bool_]:
    is_long = seconds.to_us - seconds.from_us >= SHORTEST_S * 1e6
    return np.asarray(is_long & (seconds.phase <= PHASES.index(MEASURE)))


def _merged_p99(run: RunSource, trial: int, made: Timeline, seconds: Seconds) -> Array:
    p99_ns = _p99_by_second(run, trial)
    numbers = seconds.second[_is_shown(seconds)].tolist()
    alone = seconds.scripts[_is_shown(seconds)] == 1
    merged = np.asarray([p99_ns.get(int(at), np.nan) for at in numbers], dtype=np.float64)
    return np.where(alone, made.p99_ns, merged)


def _p99_by_second(run: RunSource, trial: int) -> dict[int, float]:
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    rows: dict[int, list[IntervalRow]] = defaultdict(list)
    for interval in run.intervals(trial):
        rows[interval.second].append(interval)
    merged = {at: merge(blobs[at]) for at in rows if at in blobs}
    return {
        at: histogram.with_bounds(*bounds(rows[at])).percentile_ns(99)
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
    """Start of each measured step, in seconds since the start of measuring."""
    end_s: float
    steps: tuple[LatencyHistogram | None, ...]
    """Each step's complete histogram; None if nothing succeeded."""
    edges_ns: tuple[float, ...]
    """Edges of the latency bins, one more than there are bins; each bin is a twentieth of a decade."""
    counts: NDArray[np.int64]
    """By step, then by bin."""


def latency_heatmap(run: RunSource, trial: int, most: int | None = None) -> Heatmap | None:
    """Return the heatmap of the measured seconds of trial number `trial`, from their histograms with scripts merged;
    None without any.

    Warm-up is left out, as in every other figure. Steps are seconds, or so many of them that there are at most `most`.
    """
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in run.histograms(trial, totals=False):
        blobs[row.second].append(row.histogram)
    rows: dict[int, list[IntervalRow]] = defaultdict(list)
    for interval in run.intervals(trial):
        if interval.phase == MEASURE:
            rows[interval.second].append(interval)
    if not blobs or not rows:
        return None
    ordered = sorted(rows)
    each = 1 if most is None else math.ceil(len(ordered) / most)
    found: dict[float, LatencyHistogram | None] = {}
    for group in (ordered[at : at + each] for at in range(0, len(ordered), each)):
        merged = merge(blob for second in group for blob in blobs.get(second, ()))
        of_group = [row for second in group for row in rows[second]]
        found[of_group[0].from_us / 1e6] = merged and merged.with_bounds(*bounds(of_group))
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
