"""What may explain the difference between two arms: query plans, and what the server did for each transaction.

A counter or a wait explains a difference if the slower arm has more of it per transaction: the medians are at least a
quarter apart, and nine of ten pairs of trials agree.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.analyse.comparison import Comparison, PointComparison, Verdict
from pgdyno.audit.subject import Subject
from pgdyno.effect.short_statement import short_statement
from pgdyno.messages import Message
from pgdyno.records.probe import wait_class
from pgdyno.units import format_size

MOST_CAUSES = 3
CLEAR_RATIO = 1.25
CLEAR_SHARE = 0.9
"""Share of the pairs of a trial of each arm in which the slower arm has more."""
LEAST_PART = 0.2
"""Share of the additional time of a transaction that a class of waits must make up."""
_SHOWN = 60
"""Characters of a statement."""

NO_CAUSE = Message(
    "no-cause", "cause not shown: no counter, wait or kept query plan differs enough between the slower and the faster"
)


@dataclass(frozen=True, slots=True)
class _Cost:
    name: Message
    least: float
    """A smaller difference per transaction is no evidence."""
    words: Callable[[float], str]


def _size(amount: float) -> str:
    return format_size(round(amount))


def _count(amount: float) -> str:
    return f"{amount:,.3g}" if amount < 1000 else f"{amount:,.0f}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:,.3g} ms"


_CPU = ("processes", "cpu")
_COSTS: Mapping[object, _Cost] = {
    ("database", "temp"): _Cost(Message("temporary-files", "temporary files"), 1024, _size),
    ("database", "blocks_read"): _Cost(Message("pages-read", "pages read into shared buffers"), 0.1, _count),
    **{
        name: _Cost(Message("waits", "waits ({kind})", kind=name), 5e-6, _time)
        for name in ("Lock", "LWLock", "I/O", "WAL", "other")
    },
    ("locks", "fastpath_exceeded"): _Cost(Message("shared-lock-table", "locks in the shared lock table"), 0.1, _count),
    ("wal_position", "inserted"): _Cost(Message("wal-written", "WAL"), 64, _size),
    ("database", "rows_returned"): _Cost(Message("rows-scanned", "rows scanned"), 10, _count),
    _CPU: _Cost(Message("server-cpu", "CPU time of the server"), 5e-6, _time),
}
"""The most telling first: by a counter of the probe, or by the class of a wait."""


def with_causes(of: Comparison, base: Subject, other: Subject) -> Comparison:
    """Return `of` with what may explain its difference, at the point where the arms differ most; unchanged without a
    verdict, or if no probe looked at the server.

    Raises StoreError.
    """
    point = None if of.is_of_groups else _decided_point(of)
    if point is None:
        return of
    sides = [(of.base, base, point.trials[0]), (of.other, other, point.trials[1])]
    slow, fast = (_Side.from_trials(*each) for each in (sides if point.verdict is Verdict.FASTER else sides[::-1]))
    if not (slow.costs and fast.costs):
        return of
    found = [*_changed_plans(slow, fast), *_costs(slow, fast)]
    return replace(of, causes=tuple(found[:MOST_CAUSES]) or (NO_CAUSE,))


def _decided_point(of: Comparison) -> PointComparison | None:
    chief = of.chief
    if chief is None or chief.verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return None
    alike = [each for each in of.judged if each.interval is not None and (each.change > 0) == (chief.change > 0)]
    point = max(alike, key=lambda each: abs(each.change), default=None)
    return None if point is None else replace(point, verdict=chief.verdict)


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    subject: Subject
    trials: Collection[int]
    costs: Sequence[Mapping[object, float]]
    """Of each trial: per transaction, bytes, numbers or seconds by counter and by class of waits."""

    @classmethod
    def from_trials(cls, name: str, subject: Subject, trials: Collection[int]) -> _Side:
        stretches = {number: subject.measured[number] for number in trials if number in subject.measured}
        seen = subject.run.sessions_within(stretches)
        costs = []
        for sample in subject.samples:
            done, amounts = sample.summary.succeeded, subject.amounts.get(sample.number, {})
            if sample.number not in stretches or not done or not any(source == "database" for source, _ in amounts):
                continue
            of_trial: dict[object, float] = {name: amounts[name] / done for name in amounts if name in _COSTS}
            if _CPU in of_trial:
                of_trial[_CPU] /= 1e6
            if (sample.number, 0) in seen:
                looks, rows = seen[sample.number, 0]
                begin_us, end_us = stretches[sample.number][0]
                for row in rows:
                    if row.backend_type in ("client backend", "parallel worker") and row.wait_type is not None:
                        kind = wait_class(row.wait_type, row.wait)
                        spent = row.sessions / looks * (end_us - begin_us) / 1e6 / done
                        of_trial[kind] = of_trial.get(kind, 0.0) + spent
            costs.append(of_trial)
        return cls(name, subject, frozenset(trials), costs)

    def values(self, cost: object) -> list[float]:
        return [each.get(cost, 0.0) for each in self.costs]

    def time(self) -> float:
        """Return the median seconds of a session, on CPU or waiting, per transaction."""
        return statistics.median(
            sum(value for name, value in each.items() if isinstance(name, str)) for each in self.costs
        )


def _costs(slow: _Side, fast: _Side) -> Iterator[Message]:
    more_time = slow.time() - fast.time()
    for name, cost in _COSTS.items():
        more, less = (statistics.median(side.values(name)) for side in (slow, fast))
        least = max(cost.least, LEAST_PART * more_time) if isinstance(name, str) else cost.least
        if more - less >= least and more >= CLEAR_RATIO * less and _is_clear(slow.values(name), fast.values(name)):
            yield Message(
                "more-of-a-cost",
                "{what}: {more} a transaction at {slow}, {less} at {fast}",
                what=cost.name,
                more=cost.words(more),
                less=cost.words(less) if less else "0",
                slow=slow.name,
                fast=fast.name,
            )


def _is_clear(slow: Sequence[float], fast: Sequence[float]) -> bool:
    return statistics.fmean(a > b for a, b in itertools.product(slow, fast)) >= CLEAR_SHARE


def _changed_plans(slow: _Side, fast: _Side) -> Iterator[Message]:
    found: dict[str, list[Counter[tuple[str, str]]]] = defaultdict(lambda: [Counter(), Counter()])
    for at, side in enumerate((slow, fast)):
        for kept in side.subject.run.query_plans():
            places = sum(trial in side.trials for trial, *_ in kept.places)
            if places:
                found[kept.text][at][kept.shape, kept.plan] += places
    for text, counts in found.items():
        if not all(counts):
            continue
        (shape, plan), (other_shape, other_plan) = (each.most_common(1)[0][0] for each in counts)
        if shape != other_shape:
            yield Message(
                "other-plan",
                "another plan of {statement}: {mine} at {slow}, {other} at {fast}",
                statement=short_statement(text, _SHOWN),
                mine=_first_difference(plan, other_plan),
                other=_first_difference(other_plan, plan),
                slow=slow.name,
                fast=fast.name,
            )
            return


def _first_difference(plan: str, other: str) -> str:
    nodes, others = (
        [line.partition("->")[2].strip() or line for at, line in enumerate(each.splitlines()) if not at or "->" in line]
        for each in (plan, other)
    )
    return next((node for node in nodes if node not in others), nodes[0])
