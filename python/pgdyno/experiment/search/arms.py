"""The arms of a search: each searches one parameter of one target, and keeps all others constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from pgdyno.analyse.capacity import capacity_interval
from pgdyno.experiment.search.capacity import Capacity, RateSpan, next_rate
from pgdyno.experiment.search.peak import Peak, PeakSpan, next_clients
from pgdyno.experiment.search.search_messages import capacity_messages, peak_messages, sentence_of
from pgdyno.plan import Plan
from pgdyno.plan.model import SearchSpec
from pgdyno.plan.sections import parse_target, share_of
from pgdyno.plan.workload import parse_script
from pgdyno.records import KeptMessage, Latency, Outcome, Point, SearchRecord, TrialRecord

SERVED_SHARE = 0.99
"""Share of the due transactions that must succeed: otherwise the rate was not kept, whatever the latency."""


def throughput(record: TrialRecord) -> float | None:
    """Return transactions per second; None if the trial failed."""
    return record.summary.tps if record.outcome is Outcome.FINISHED and record.summary is not None else None


def meets(record: TrialRecord, latency: str | Mapping[str, str], scripts: Sequence[str]) -> bool:
    """Return whether a trial kept its rate and met the target `latency`, for all scripts together or by script.

    `scripts` are the plan's, in its order. A failed trial does not meet the target.
    """
    summary = record.summary
    if record.outcome is not Outcome.FINISHED or summary is None:
        return False
    # only imported trials have no counts
    due = (summary.scheduled or 0) - (summary.in_flight or 0) + summary.unstarted
    if (summary.succeeded or 0) < SERVED_SHARE * due:
        return False
    if isinstance(latency, str):
        return _is_under(summary.latency_ns, latency)
    numbers = {parse_script(text).name: number for number, text in enumerate(scripts)}
    of_script = {script.id: script.latency_ns for script in summary.scripts}
    return all(_is_under(of_script.get(numbers[name]), target) for name, target in latency.items())


def _is_under(measured: Latency | None, text: str) -> bool:
    target = parse_target(text)
    return measured is not None and bool(getattr(measured, target.field) < target.limit_ns)


@dataclass(frozen=True, slots=True)
class Arm:
    """One search of a plan: over the points of one target between two that differ in the searched parameter."""

    search: SearchSpec
    scripts: Sequence[str]
    repeats: int
    target: str
    lowest: Point
    highest: Point

    def has(self, record: TrialRecord) -> bool:
        return record.target == self.target and _rest(record.point, self.search) == _rest(self.lowest, self.search)

    def ask(self, records: Sequence[TrialRecord]) -> Point | SearchRecord:
        """Return the point of the next trial, or the result, given the `records` of all trials of the run."""
        own = sorted((record for record in records if self.has(record)), key=lambda record: record.number)
        asked = self._peak(own) if self.search.find == "peak" else self._capacity(own)
        if isinstance(asked, SearchRecord):
            return asked
        return self.lowest.model_copy(update={self.search.axis: asked})

    def _peak(self, own: Sequence[TrialRecord]) -> int | SearchRecord:
        measured: dict[int, list[float | None]] = {}
        for record in own:
            measured.setdefault(record.point.clients, []).append(throughput(record))
        span = PeakSpan(self.lowest.clients, self.highest.clients, self.repeats)
        asked = next_clients(span, measured)
        return self._found_peak(asked, len(own)) if isinstance(asked, Peak) else asked

    def _found_peak(self, peak: Peak, trials: int) -> SearchRecord:
        clients = peak.clients if peak.clients is not None else self.lowest.clients
        found = peak_messages(peak, self.highest.clients)
        return SearchRecord(
            find="peak",
            target=self.target,
            point=self.lowest.model_copy(update={"clients": clients}),
            trials=trials,
            words=sentence_of(found),
            messages=[KeptMessage.of(each) for each in found],
            end=peak.end.value,
            tps=peak.tps.mean if peak.tps else None,
            tps_half=peak.tps.half if peak.tps else None,
            knee=peak.knee,
            alike=peak.alike,
        )

    def _capacity(self, own: Sequence[TrialRecord]) -> float | SearchRecord:
        latency = self.search.latency
        assert latency is not None
        assert self.lowest.rate is not None
        assert self.highest.rate is not None
        verdicts: dict[float, list[bool]] = {}
        for record in own:
            if record.point.rate is not None:
                verdicts.setdefault(record.point.rate, []).append(meets(record, latency, self.scripts))
        span = RateSpan(self.lowest.rate, self.highest.rate, self.repeats, share_of(self.search.precision))
        asked = next_rate(span, verdicts)
        return self._found_capacity(asked, span, verdicts) if isinstance(asked, Capacity) else asked

    def _found_capacity(
        self, capacity: Capacity, span: RateSpan, verdicts: Mapping[float, Sequence[bool]]
    ) -> SearchRecord:
        rate = capacity.met if capacity.met is not None else span.lowest
        assert self.search.latency is not None
        interval = capacity_interval(verdicts, span.lowest, span.highest)
        found = capacity_messages(interval, capacity, span, self.search.latency)
        return SearchRecord(
            find="capacity",
            target=self.target,
            point=self.lowest.model_copy(update={"rate": rate}),
            trials=sum(map(len, verdicts.values())),
            words=sentence_of(found),
            messages=[KeptMessage.of(each) for each in found],
            latency=self.search.latency,
            met=capacity.met,
            missed=capacity.missed,
            rate=interval.rate,
            rate_low=interval.low,
            rate_high=interval.high,
        )


def arms_of(plan: Plan) -> list[Arm]:
    """Return the searches of `plan`, which must have one, in the order of its sweep."""
    search = plan.search
    assert search is not None
    spans: dict[tuple[str, str], list[Point]] = {}
    for target, point in product(plan.target, plan.points()):
        spans.setdefault((target, _rest(point, search).model_dump_json()), []).append(point)
    arms = []
    for (target, _), points in spans.items():
        ordered = sorted(points, key=lambda point: getattr(point, search.axis))
        arms.append(Arm(search, plan.workload.scripts, plan.trial.repeats, target, ordered[0], ordered[-1]))
    return arms


def _rest(point: Point, search: SearchSpec) -> Point:
    """Return `point` without the searched parameter: points that differ in nothing else become equal."""
    return point.model_copy(update={"clients": 0} if search.axis == "clients" else {"rate": None})
