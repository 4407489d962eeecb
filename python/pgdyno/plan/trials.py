"""The trials that a plan comes to, in the order in which they are run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from pgdyno.plan.model import Plan
from pgdyno.plan.phases import trial_s
from pgdyno.records import Point


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One repetition of a point at a target."""

    number: int
    """Place in the order, from 1."""
    slug: str
    """Name of its folder: `0001-pg18-c4`, with those further parameters that vary."""
    target: str
    point: Point
    repeat: int
    """From 1."""
    block: int = 1
    """Trials of a block are compared with each other: the arms of one point, one after the other. From 1."""


def planned_trials(plan: Plan) -> list[PlannedTrial]:
    """Every trial of `plan` in its order.

    All points once, then all again: so that what drifts over time meets every point alike. Within a
    repetition, what is dear to change varies slowest: target (another server), scale (another dataset),
    protocol, workers, clients.
    """
    points = _points(plan)
    varying = _varying(points)
    places = product(range(1, plan.trial.repeats + 1), plan.target, points)
    return [
        PlannedTrial(number, _slug(number, target, point, varying), target, point, repeat)
        for number, (repeat, target, point) in enumerate(places, start=1)
    ]


def time_needed_s(plan: Plan) -> float | None:
    """Seconds that warm-ups and measuring take together; None when trials end after a count of transactions.

    Starting servers and loading data comes on top, and depends on the machine.
    """
    each_s = trial_s(plan)
    if each_s is None:
        return None
    trials = plan.trial.repeats * len(plan.target) * len(_points(plan))
    return trials * each_s


def _points(plan: Plan) -> list[Point]:
    sweep = plan.sweep
    scales = sweep.scale or [plan.workload.scale]
    workers: list[int | None] = [*sweep.workers] if sweep.workers else [None]
    return [
        Point(clients=clients, workers=threads, protocol=protocol, scale=scale)
        for scale, protocol, threads, clients in product(scales, sweep.protocol, workers, sweep.clients)
    ]


def _varying(points: list[Point]) -> frozenset[str]:
    names = ("workers", "protocol", "scale")
    return frozenset(name for name in names if len({getattr(point, name) for point in points}) > 1)


def _slug(number: int, target: str, point: Point, varying: frozenset[str]) -> str:
    parts = [f"{number:04d}", target, f"c{point.clients}"]
    if "workers" in varying:
        parts.append(f"w{point.workers}")
    if "protocol" in varying:
        parts.append(point.protocol)
    if "scale" in varying:
        parts.append(f"s{point.scale}")
    return "-".join(parts)
