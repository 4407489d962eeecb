"""The search for the number of clients with the highest throughput: climb by doubling, then narrow.

The steps are a pure function from earlier results to the next trial: a search that was interrupted continues from its
trials, and tests use a simulated server.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.analyse.intervals import CONFIDENCE, Estimate, mean_interval, two_sided_quantile, welch_freedom
from pgdyno.analyse.scaling import knee
from pgdyno.experiment.search.search_arm import Arm, throughput
from pgdyno.messages import Message
from pgdyno.records import SearchRecord, TrialRecord
from pgdyno.report import numbers

Tps = Mapping[int, Sequence[float | None]]
"""Throughput of each trial by clients, in the order of the trials; None for one that failed."""

SAME_SHARE = 0.01
"""Throughputs that differ by less count as equal (the smallest δ of comparisons)."""
NARROW_RATIO = 1.25
"""The search does not divide the interval between client counts whose ratio is smaller."""


class PeakEnd(StrEnum):
    """Why the climb ended."""

    FELL = "fell"
    """Throughput fell by more than noise after the peak."""
    LIMIT = "limit"
    """Throughput had not fallen at the largest number of clients that the plan allows."""
    FAILED = "failed"
    """Trials with more clients failed."""


@dataclass(frozen=True, slots=True)
class PeakSpan:
    """The numbers of clients between which the search looks for the peak."""

    fewest: int
    most: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The result; without a peak, no trial with the fewest clients succeeded."""

    end: PeakEnd
    clients: int | None = None
    """The number of clients with the highest throughput."""
    tps: Estimate | None = None
    """The highest throughput."""
    knee: int | None = None
    """The fewest clients whose throughput is shown to be at least 95 % of `tps`; None if not determined."""
    alike: tuple[int, int] | None = None
    """The range of clients around the peak whose throughput cannot be told from it."""


def next_clients(span: PeakSpan, measured: Tps) -> int | Peak:
    end = PeakEnd.LIMIT
    climbed: dict[int, Sequence[float]] = {}
    for clients in _ladder(span):
        trials = measured.get(clients, ())
        if _is_open(trials, span):
            return clients
        if None in trials:
            end = PeakEnd.FAILED
            break
        values = _values(trials)
        if climbed and has_fallen(max(climbed.values(), key=_mean), values):
            end = PeakEnd.FELL
            climbed[clients] = values
            break
        climbed[clients] = values
    if not climbed:
        return Peak(end)
    return _narrow_span(span, measured, end)


def _narrow_span(span: PeakSpan, measured: Tps, end: PeakEnd) -> int | Peak:
    known = sorted(measured)
    whole = {c: _values(measured[c]) for c in known if not _is_open(measured[c], span) and None not in measured[c]}
    best = max(whole, key=lambda clients: _mean(whole[clients]))
    place = known.index(best)
    sides = [known[place - 1]] if place else []
    sides += known[place + 1 : place + 2]
    # the wider gap is searched first
    for side in sorted(sides, key=lambda side: -_ratio(side, best)):
        middle = round(math.sqrt(side * best))
        if _is_open(measured[side], span):
            return side
        if _ratio(side, best) > NARROW_RATIO and middle not in (side, best):
            return middle
    return _peak_of(whole, best, end)


def _peak_of(whole: Mapping[int, Sequence[float]], best: int, end: PeakEnd) -> Peak:
    estimates = {clients: mean_interval(whole[clients]) for clients in sorted(whole)}
    highest = estimates[best]
    alike = [clients for clients, estimate in estimates.items() if estimate.overlaps(highest)]
    around = _alike_range(list(estimates), alike, best)
    # the last step may have fallen compared with the new best, even if it had not compared with the ladder's best
    if end is PeakEnd.LIMIT and any(has_fallen(whole[best], whole[more]) for more in whole if more > best):
        end = PeakEnd.FELL
    place = knee([whole[clients] for clients in estimates])
    return Peak(end, best, highest, None if place is None else list(estimates)[place], around)


def _alike_range(known: Sequence[int], alike: Sequence[int], best: int) -> tuple[int, int]:
    """Return the ends of the longest sequence in `known` that contains `best` and is all in `alike`."""
    first = last = known.index(best)
    while first > 0 and known[first - 1] in alike:
        first -= 1
    while last + 1 < len(known) and known[last + 1] in alike:
        last += 1
    return known[first], known[last]


def has_fallen(best: Sequence[float], here: Sequence[float]) -> bool:
    """Return whether throughput `here` is lower than `best` by more than noise and more than `SAME_SHARE`.

    By the 95 % interval of the difference of means for unequal variances (Welch 1947), with degrees of freedom rounded
    down.
    """
    difference = _mean(best) - _mean(here)
    spreads = [_variance(values) / len(values) for values in (best, here)]
    error = math.sqrt(sum(spreads))
    freedom = max(1, math.floor(welch_freedom(spreads, [len(best), len(here)])))
    margin = two_sided_quantile(CONFIDENCE, freedom) * error
    return difference - margin > SAME_SHARE * _mean(best)


def _ladder(span: PeakSpan) -> list[int]:
    steps = []
    clients = span.fewest
    while clients < span.most:
        steps.append(clients)
        clients *= 2
    return [*steps, span.most]


def _is_open(trials: Sequence[float | None], span: PeakSpan) -> bool:
    return None not in trials and len(trials) < span.repeats


def _values(trials: Sequence[float | None]) -> list[float]:
    return [tps for tps in trials if tps is not None]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) if len(values) > 1 else 0.0


def _ratio(one: int, other: int) -> float:
    return max(one, other) / min(one, other)


@dataclass(frozen=True, slots=True)
class PeakSearch(Arm):
    """Searches along the number of clients."""

    def next(self, own: Sequence[TrialRecord]) -> int | SearchRecord:
        measured: dict[int, list[float | None]] = {}
        for record in own:
            measured.setdefault(record.point.planned_clients, []).append(throughput(record))
        span = PeakSpan(self.lowest.planned_clients, self.highest.planned_clients, self.repeats)
        peak = next_clients(span, measured)
        if not isinstance(peak, Peak):
            return peak
        return self.record(
            len(own),
            peak.clients if peak.clients is not None else self.lowest.planned_clients,
            peak_messages(peak, self.highest.planned_clients),
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
