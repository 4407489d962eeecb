"""The search for the highest rate of an open loop that meets a latency target, by bracketing.

`Capacity` is a pure function like the peak's. A rate meets the target if all of its repeats do, and misses it if none
does; rates in between are undecided. `analyse.capacity_interval` computes the 95 % confidence interval from all trials.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.analyse.capacity import SERVED_SHARE, CapacityInterval, capacity_interval
from pgdyno.analyse.summary import promise_figure
from pgdyno.experiment.search.search_arm import Arm
from pgdyno.messages import Message
from pgdyno.plan.optional_sections import latency_words, share_of
from pgdyno.plan.workload import parse_script
from pgdyno.records import Latency, Outcome, SearchRecord, Summary, TrialRecord
from pgdyno.records.promise import Promise, parse_latency, parse_promise
from pgdyno.report import numbers

Verdicts = Mapping[float, Sequence[bool]]
"""Whether each trial met the target, in their order, by rate."""

_DIGITS = 4
"""Significant digits of a rate."""


class Step(StrEnum):
    """The verdict of all trials at one rate together."""

    OPEN = "open"
    MET = "met"
    MIXED = "mixed"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class RateSpan:
    """The rates between which the search looks for the capacity, in transactions per second."""

    lowest: float
    highest: float
    repeats: int
    precision: float
    """The width of the final interval, as a share of its lower end; it is wider if trials of a rate disagree."""


@dataclass(frozen=True, slots=True)
class Capacity:
    met: float | None
    """The highest rate at which all repeats, also of all lower rates, met the target; None if the lowest did not."""
    missed: float | None
    """The lowest rate above at which all repeats missed it; None if the plan's highest rate did not."""


def next_rate(span: RateSpan, verdicts: Verdicts) -> float | Capacity:
    steps = {rate: step(trials, span.repeats) for rate, trials in sorted(verdicts.items())}
    for rate, each in steps.items():
        if each is Step.OPEN:
            return rate
    if span.lowest not in steps:
        return span.lowest
    met = _highest_met(steps)
    above = [rate for rate in steps if met is None or rate > met]
    if met is not None:
        if not above:
            return Capacity(met, None) if met >= span.highest else _double_rate(met, span)
        middle = _middle(met, above[0], span)
        if middle is not None:
            return middle
    return _upper_end(span, {rate: steps[rate] for rate in above}, met)


def step(trials: Sequence[bool], repeats: int) -> Step:
    """Return the verdict at a rate after all `repeats`: a search needs them most where they disagree."""
    if len(trials) < repeats:
        return Step.OPEN
    if any(trials) and not all(trials):
        return Step.MIXED
    return Step.MET if all(trials) else Step.MISSED


def _highest_met(steps: Mapping[float, Step]) -> float | None:
    met = None
    for rate, each in steps.items():
        if each is not Step.MET:
            break
        met = rate
    return met


def _upper_end(span: RateSpan, above: Mapping[float, Step], met: float | None) -> float | Capacity:
    undecided = max((rate for rate, each in above.items() if each is not Step.MISSED), default=None)
    if undecided is None:
        return Capacity(met, min(above))
    missed = min((rate for rate in above if rate > undecided), default=None)
    if missed is None:
        return Capacity(met, None) if undecided >= span.highest else _double_rate(undecided, span)
    middle = _middle(undecided, missed, span)
    return Capacity(met, missed) if middle is None else middle


def _double_rate(rate: float, span: RateSpan) -> float:
    return min(_round_rate(rate * 2), span.highest)


def _middle(low: float, high: float, span: RateSpan) -> float | None:
    """Return the geometric mean of two rates; None if they are close enough."""
    middle = _round_rate(math.sqrt(low * high))
    return middle if high > low * (1 + span.precision) and low < middle < high else None


def _round_rate(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")


@dataclass(frozen=True, slots=True)
class CapacitySearch(Arm):
    """Searches along the rate."""

    def next(self, own: Sequence[TrialRecord]) -> float | SearchRecord:
        latency = self.search.latency
        assert latency is not None
        assert self.lowest.rate is not None
        assert self.highest.rate is not None
        verdicts: dict[float, list[bool]] = {}
        for record in own:
            if record.point.rate is not None:
                met = meets(record, latency, self.scripts) and not self._broken(record)
                verdicts.setdefault(record.point.rate, []).append(met)
        span = RateSpan(self.lowest.rate, self.highest.rate, self.repeats, share_of(self.search.precision))
        capacity = next_rate(span, verdicts)
        if not isinstance(capacity, Capacity):
            return capacity
        interval = capacity_interval(verdicts, span.lowest, span.highest)
        connects = any(record.summary is not None and record.summary.connect is not None for record in own)
        unit = Message("unit-connections", "connections") if connects else Message("unit-transactions", "transactions")
        return self.record(
            sum(map(len, verdicts.values())),
            capacity.met if capacity.met is not None else span.lowest,
            [*capacity_messages(interval, capacity, span, latency, unit), *self._limits(own, capacity.missed)],
            latency=latency,
            met=capacity.met,
            missed=capacity.missed,
            rate=interval.rate,
            rate_low=interval.low,
            rate_high=interval.high,
        )

    def _broken(self, record: TrialRecord) -> list[Promise]:
        promises = [parse_promise(text) for text in self.promises]
        figures = [(each, promise_figure(each, record)) for each in promises]
        return [each for each, figure in figures if figure is None or not each.allows(figure)]

    def _limits(self, own: Sequence[TrialRecord], missed: float | None) -> list[Message]:
        """Return what follows the server and could not at `missed`, in any trial."""
        records = [record for record in own if record.point.rate == missed and record.outcome is Outcome.FINISHED]
        return [
            _limit(each, records[0])
            for each in (self._broken(records[0]) if records else [])
            if all(each in self._broken(record) for record in records)
        ]


def _limit(broken: Promise, record: TrialRecord) -> Message:
    if broken.figure == "archive":
        return Message("search-limit-archive", "limited by the archive, which did not keep up in any trial there")
    words = broken.words
    if any(lag.is_logical for lag in record.replication):
        return Message(
            "search-limit-subscriber", "limited by the subscriber: no trial there kept {promise}", promise=words
        )
    return Message("search-limit-lag", "limited by a standby: no trial there kept {promise}", promise=words)


def meets(record: TrialRecord, latency: str | Mapping[str, str], scripts: Sequence[str]) -> bool:
    """Return whether a trial kept its rate and met the target `latency`, for all scripts together or by script.

    `scripts` are the plan's, in its order. A failed trial does not meet the target.
    """
    summary = record.summary
    if record.outcome is not Outcome.FINISHED or summary is None:
        return False
    if (summary.succeeded or 0) < SERVED_SHARE * summary.due:
        return False
    return all(limited.allows(measured_ns) for limited, measured_ns in limited_latencies(summary, latency, scripts))


def limited_latencies(
    summary: Summary, latency: str | Mapping[str, str], scripts: Sequence[str]
) -> list[tuple[Promise, float]]:
    """Return each limit of the target `latency` and the trial's figure in nanoseconds, or infinity."""
    if isinstance(latency, str):
        return [_parse_limit(latency, summary.latency_ns)]
    ids = {parse_script(text).name: number for number, text in enumerate(scripts)}
    of_script = {script.id: script.latency_ns for script in summary.scripts}
    return [_parse_limit(target, of_script.get(ids[name])) for name, target in latency.items()]


def _parse_limit(text: str, measured: Latency | None) -> tuple[Promise, float]:
    target = parse_latency(text)
    figure = getattr(measured, str(target.field)) if measured is not None else None
    return target, math.inf if figure is None else float(figure)


def capacity_messages(
    interval: CapacityInterval, capacity: Capacity, span: RateSpan, latency: str | Mapping[str, str], unit: Message
) -> list[Message]:
    """Return messages such as `capacity at p99 < 10ms: from 2,050 to 2,240 transactions a second (95 % interval)`.

    They include the rates between which trials disagreed, and say what is known if there is no interval.
    """
    target = latency_words(latency)
    low, high = (None if end is None else numbers.round_text(end, 4) for end in (interval.low, interval.high))
    if low is not None and high is not None:
        found = Message(
            "search-capacity",
            "capacity at {target}: from {low} to {high} {unit} a second (95 % interval)",
            unit=unit,
            target=target,
            low=low,
            high=high,
        )
    elif high is not None:
        found = Message(
            "search-capacity-below",
            "capacity at {target}: less than {high} {unit} a second (95 % interval), possibly below the lowest rate",
            unit=unit,
            target=target,
            high=high,
        )
    elif low is not None:
        found = Message(
            "search-capacity-above",
            "capacity at {target}: at least {low} {unit} a second (95 % interval), possibly above the highest rate",
            unit=unit,
            target=target,
            low=low,
        )
    else:
        found = Message(
            "search-capacity-unknown",
            "capacity at {target}: not determined; its 95 % interval reaches beyond all rates of the plan, {lowest} to "
            "{highest} {unit} a second",
            unit=unit,
            target=target,
            lowest=numbers.round_text(span.lowest, 4),
            highest=numbers.round_text(span.highest, 4),
        )
    parts = [found]
    if capacity.met is not None:
        rate = numbers.round_text(capacity.met, 4)
        parts.append(Message("search-met", "every trial up to {rate} met the target", rate=rate))
    if capacity.missed is not None:
        rate = numbers.round_text(capacity.missed, 4)
        parts.append(Message("search-missed", "no trial at {rate} met the target", rate=rate))
    return parts
