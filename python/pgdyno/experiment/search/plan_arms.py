"""The arms of a search: each searches one parameter of one target, and keeps all others constant."""

from __future__ import annotations

from importlib import import_module
from itertools import product

from pgdyno.experiment.search.search_arm import Arm, without_axis
from pgdyno.plan import Plan
from pgdyno.plan.model import SearchSpec
from pgdyno.records import Point


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
        arms.append(kind(search, plan.workload.scripts, plan.trial.most_repeats, target, ordered[0], ordered[-1]))
    return arms


def _arm(search: SearchSpec) -> type[Arm]:
    module, _, name = search.kind.arm.partition(":")
    found: type[Arm] = getattr(import_module(module), name)
    return found
