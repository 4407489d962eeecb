"""The trials of a plan, in the order in which they run."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pgdyno.plan.model import Plan
from pgdyno.plan.scenario.loads import loads_of
from pgdyno.plan.sweeps.order import controlled_blocks, in_order
from pgdyno.plan.workload import trial_s
from pgdyno.records import Point
from pgdyno.records.base import server_name

LONGEST_SLUG = 180
"""File systems limit a folder's name to 255 bytes; a longer slug is cut, and the number stays unique."""
_NOT_IN_SLUGS = re.compile(r"[^A-Za-z0-9_.]+")


class PlannedTrial(NamedTuple):
    """One repetition of a point at a target."""

    number: int
    """Position in the order, from 1."""
    slug: str
    """The name of its folder: `0001-pg18-c4`, and further parameters that vary."""
    target: str
    point: Point
    repeat: int
    """Counted from 1."""
    block: int = 1
    """Number of its block, from 1. Trials of a block are compared with each other: one point under each arm."""
    instance: int | None = None
    """Number of the target's instance, from 1; None for a target that is one server."""
    place: int = 0
    """Trials of one place have one preparation: the pair of a duet, or the loads of groups and steps."""
    control: bool = False
    """Whether it is the second trial of the baseline in its block."""

    @property
    def server(self) -> str:
        """The name of its server: that of the target, with the number of an instance."""
        return server_name(self.target, self.instance)


def instance_of(plan: Plan, target: str, repeat: int) -> int | None:
    """Return the instance of `target` for a repeat, from 1; None if it is one server.

    Repeats take turns, so that each instance sees all times of the run and drift does not look like an instance.
    """
    count = plan.target[target].instance_count
    return None if count == 1 else (repeat - 1) % count + 1


def planned_trials(plan: Plan, seed: int | None = None) -> list[PlannedTrial]:
    """Return every trial of `plan` in order; none for a search, whose trials depend on results.

    `seed` determines random orders; by default the plan's, or 0. Raises ValueError for a sweep that `pgdyno plan check`
    would refuse.
    """
    if plan.search is not None:
        return []
    points = plan.points()
    loads = {point.model_dump_json(): loads_of(plan, point) for point in points}
    names = varying_parameters([load for of_point in loads.values() for load in of_point])
    if seed is None:
        seed = plan.trial.seed or 0
    repeats, data_at = plan.trial.most_repeats, plan.workload.data_at
    places = in_order(plan.order(), list(plan.target), points, repeats, seed, data_at, control=plan.trial.control)
    placed = [
        (at, load, at.block if plan.trial.order == "duet" else number)
        for number, at in enumerate(places, start=1)
        for load in loads[at.point.model_dump_json()]
    ]
    return [
        PlannedTrial(
            number,
            _slug(number, at.target, load, names, control=at.control),
            at.target,
            load,
            at.repeat,
            at.block,
            instance_of(plan, at.target, at.repeat),
            place,
            at.control,
        )
        for number, (at, load, place) in enumerate(placed, start=1)
    ]


def trials_in_recorded_order(trials: Sequence[PlannedTrial], slugs: Sequence[str]) -> list[PlannedTrial]:
    """Return `trials` as `slugs` order them, those of a manifest, which an earlier version may have ordered otherwise.

    Raises ValueError if they are not the slugs of these trials.
    """
    by_name: dict[str, list[PlannedTrial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.repeat):
        by_name.setdefault(_name_of(trial.slug), []).append(trial)
    ordered = []
    for number, slug in enumerate(slugs, start=1):
        if not by_name.get(_name_of(slug)):
            raise ValueError(f"{slug} is no trial of the plan")
        ordered.append(by_name[_name_of(slug)].pop(0)._replace(number=number, slug=slug))
    if len(ordered) < len(trials):
        raise ValueError(f"the order lacks {len(trials) - len(ordered)} trials of the plan")
    return ordered


def _name_of(slug: str) -> str:
    return slug.partition("-")[2]


def time_needed_s(plan: Plan) -> float | None:
    """Return the seconds of all warm-ups and measurements; None if trials end after a number of transactions or their
    number is unknown.

    Excludes server starts and loading, which depend on the machine.
    """
    each_s = trial_s(plan)
    if each_s is None or plan.search is not None:
        return None
    points = plan.points()
    trials = len(plan.target) * len(points) + (
        controlled_blocks(list(plan.target), points) if plan.trial.control else 0
    )
    return plan.trial.most_repeats * trials * each_s / plan.at_once


def varying_parameters(points: Sequence[Point]) -> list[str]:
    """Return the names of parameters other than clients that differ between `points`, in the order of slugs."""
    every = dict.fromkeys(name for point in points for name in point.parameters())
    names = dict.fromkeys(["workers", "protocol", "scale", "rate", *every])
    return [name for name in names if len({point.parameter(name) for point in points}) > 1]


def slug_of(number: int, target: str, point: Point, points: Sequence[Point]) -> str:
    """Return the name of a trial's folder, with the parameters that differ between `points`."""
    return _slug(number, target, point, varying_parameters(points))


_LETTERS = {"workers": "w", "scale": "s", "rate": "r"}


def _slug(number: int, target: str, point: Point, names: Sequence[str], *, control: bool = False) -> str:
    parts = [f"{number:04d}", target, f"c{point.clients}"]
    for name in names:
        value = point.parameter(name)
        text = "default" if value is None else _NOT_IN_SLUGS.sub("_", _number(value))
        parts.append(f"{_LETTERS.get(name, '')}{text}"[:LONGEST_SLUG])
    end = "-control" if control else ""
    return "-".join(parts)[: LONGEST_SLUG - len(end)] + end


def _number(value: float | str) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
