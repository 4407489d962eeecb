"""The arms of a search: each searches one parameter of one target, and keeps all others constant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product

from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.model import SearchSpec
from pgdyno.records import KeptMessage, Outcome, Point, SearchRecord, TrialRecord


def arms_of(plan: Plan) -> list[Arm]:
    """Return the searches of `plan`, which must have one, in the order of its sweep."""
    search = plan.search
    assert search is not None
    spans: dict[tuple[str, str], list[Point]] = {}
    for target, point in product(plan.target, plan.points()):
        spans.setdefault((target, without_axis(point, search).model_dump_json()), []).append(point)
    kind = _arm(search)
    arms = []
    for (target, _), points in spans.items():
        ordered = sorted(points, key=lambda point: getattr(point, search.axis))
        scripts, repeats, promises = plan.workload.scripts, plan.trial.most_repeats, plan.trial.promise
        arms.append(kind(search, scripts, repeats, target, ordered[0], ordered[-1], promises))
    return arms


def _arm(search: SearchSpec) -> type[Arm]:
    module, _, name = search.kind.arm.partition(":")
    found: type[Arm] = getattr(import_module(module), name)
    return found


def throughput(record: TrialRecord) -> float | None:
    """Return transactions per second; None if the trial failed."""
    return record.summary.tps if record.outcome is Outcome.FINISHED and record.summary is not None else None


def sentence_of(messages: Sequence[Message]) -> str:
    """Return the sentence in English, for the manifest and the terminal."""
    return "; ".join(map(str, messages))


def without_axis(point: Point, search: SearchSpec) -> Point:
    """Return `point` without the searched parameter: points that differ in nothing else become equal."""
    return point.model_copy(update={"clients": 0} if search.axis == "clients" else {"rate": None})


@dataclass(frozen=True, slots=True)
class Arm(ABC):
    """One search of a plan: over the points of one target between two that differ in the searched parameter."""

    search: SearchSpec
    scripts: Sequence[str]
    repeats: int
    target: str
    lowest: Point
    highest: Point
    promises: Sequence[str] = ()
    """The plan's promises on what follows the server."""

    def has(self, record: TrialRecord) -> bool:
        own = without_axis(self.lowest, self.search)
        return record.target == self.target and without_axis(record.point, self.search) == own

    def ask(self, records: Sequence[TrialRecord]) -> Point | SearchRecord:
        """Return the point of the next trial, or the result, given the `records` of all trials of the run."""
        own = sorted((record for record in records if self.has(record)), key=lambda record: record.number)
        asked = self.next(own)
        if isinstance(asked, SearchRecord):
            return asked
        return self.lowest.model_copy(update={self.search.axis: asked})

    @abstractmethod
    def next(self, own: Sequence[TrialRecord]) -> float | SearchRecord:
        """Return the next value of the searched parameter, or the result, given the search's `own` trials in order."""

    def record(self, trials: int, value: float, found: Sequence[Message], **figures: object) -> SearchRecord:
        """Return the result at `value` of the searched parameter, as messages and `figures` of its kind."""
        return SearchRecord.model_validate(
            {
                "find": self.search.find,
                "target": self.target,
                "point": self.lowest.model_copy(update={self.search.axis: value}),
                "trials": trials,
                "words": sentence_of(found),
                "messages": [KeptMessage.from_message(each) for each in found],
                **figures,
            }
        )
