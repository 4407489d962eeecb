"""What an operation costs the clients: trials with it compared with those that only wait in its place."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.intervals import Interval, paired_interval
from pgdyno.analyse.over_time.event_parts import EventPart
from pgdyno.records import EventOutcome, EventRecord, Outcome, TrialRecord

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before an operation and during it: medians over the trials with it."""

    name: str
    """tps, p50, p99."""
    before: float
    during: float
    interval: Interval | None
    """Of ln(during / before) with the operation less the same without it, over pairs; None for fewer than two."""

    @property
    def is_shown(self) -> bool:
        """Return whether the interval excludes no change."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True, slots=True)
class Impact:
    """The cost of the first operation of a plan with a control."""

    event: EventRecord
    """That of the first trial with it."""
    pairs: int
    """Pairs of finished trials with and without it."""
    seconds: float
    """Median, as all below; under load."""
    alone_s: float | None
    """Without load; None if no control has it."""
    chief: Change | None
    """p99 at a rate, throughput in a closed loop; None if nothing succeeded before or during it."""
    others: tuple[Change, ...]
    stall_s: float
    stall_wait: str | None
    """Of the longest stall."""
    stall_is_shown: bool
    """Whether it was longer with the operation than without it, in every pair."""
    as_before_s: float | None
    """After its end; None if a trial did not recover."""
    failed: int
    """Most failed transactions during it in one trial."""
    wal_bytes: float | None
    paging_bytes: float | None
    is_rated: bool
    """Whether the load had a rate."""


def impact_of(trials: Sequence[TrialRecord], parts: Mapping[int, Sequence[EventPart]]) -> Impact | None:
    """Return the cost of the operation in `trials`, whose `parts` are by number; None without a control, or without a
    pair of finished trials.
    """
    finished = [each for each in trials if each.outcome is Outcome.FINISHED and each.events]
    controls = {each.repeat: each for each in finished if each.events[0].is_control}
    pairs = [
        (each, controls[each.repeat])
        for each in finished
        if not each.events[0].is_control and each.repeat in controls and each.events[0].outcome is EventOutcome.DONE
    ]
    if not pairs:
        return None
    with_it = [_of_first(parts[trial.number]) for trial, _ in pairs]
    without = [_of_first(parts[trial.number]) for _, trial in pairs]
    changes = {name: _change(name, with_it, without) for name in ("tps", "p50", "p99")}
    is_rated = pairs[0][0].point.rate is not None
    chief = changes["p99" if is_rated else "tps"]
    during = [each["during"] for each in with_it if "during" in each]
    stalls = [(_stall_s(one), _stall_s(other)) for one, other in zip(with_it, without, strict=True)]
    longest = max(during, key=lambda part: part.stall_s, default=None)
    recovered = [trial.events[0].effect.as_before_s if trial.events[0].effect else None for trial, _ in pairs]
    return Impact(
        pairs[0][0].events[0],
        len(pairs),
        statistics.median(trial.events[0].seconds or 0.0 for trial, _ in pairs),
        median_of_known([trial.events[0].alone_s for _, trial in pairs]),
        chief,
        tuple(each for each in changes.values() if each is not None and each is not chief),
        statistics.median(one for one, _ in stalls),
        longest.stall_wait if longest is not None else None,
        all(one > other for one, other in stalls),
        None if None in recovered else median_of_known(recovered),
        max((part.failed for part in during), default=0),
        median_of_known([part.wal_bytes for part in during]),
        median_of_known([part.paging_bytes for part in during]),
        is_rated,
    )


def _of_first(parts: Sequence[EventPart]) -> dict[str, EventPart]:
    return {each.part: each for each in parts if each.event.number == 1}


def _stall_s(parts: Mapping[str, EventPart]) -> float:
    return parts["during"].stall_s if "during" in parts else 0.0


def median_of_known(values: Sequence[float | None]) -> float | None:
    """Return the median of what is known; None if nothing is."""
    known = [each for each in values if each is not None]
    return statistics.median(known) if known else None


def _change(
    name: str, with_it: Sequence[Mapping[str, EventPart]], without: Sequence[Mapping[str, EventPart]]
) -> Change | None:
    values = [(_value(one, "before", name), _value(one, "during", name)) for one in with_it]
    known = [(before, during) for before, during in values if before and during]
    if not known:
        return None
    ratios = [(_log_ratio(one, name), _log_ratio(other, name)) for one, other in zip(with_it, without, strict=True)]
    differences = [one - other for one, other in ratios if one is not None and other is not None]
    before, during = (statistics.median(each) for each in zip(*known, strict=True))
    return Change(name, before, during, paired_interval(differences, LEVEL))


def _value(parts: Mapping[str, EventPart], part: str, name: str) -> float | None:
    if part not in parts:
        return None
    each = parts[part]
    return {"tps": each.tps, "p50": each.p50_ns, "p99": each.p99_ns}[name]


def _log_ratio(parts: Mapping[str, EventPart], name: str) -> float | None:
    before, during = (_value(parts, part, name) for part in ("before", "during"))
    return math.log(during / before) if before and during else None
