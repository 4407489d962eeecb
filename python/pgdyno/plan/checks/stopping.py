"""Whether a run can stop when it is decided, and what its arms are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.model import TrialSpec
from pgdyno.plan.reading.plan_document import Document
from pgdyno.plan.sweeps.points import is_computed
from pgdyno.plan.sweeps.spec import Sweep
from pgdyno.plan.targets import TargetSpec
from pgdyno.plan.trials import varying
from pgdyno.records import Point


def compared_parameters(sweep: Sweep, points: Sequence[Point]) -> list[str]:
    """Returns the parameters by which `pgdyno compare` would compare arms of one target."""
    names = [name for name in varying(points) if name not in ("rate", "scale", "workers")]
    return [name for name in names if not _follows(sweep, name)]


def _follows(sweep: Sweep, name: str) -> bool:
    """Tells whether the sweep computes parameter `name` from others, in which case it defines no arm."""
    group, dot, key = name.partition(".")
    items = getattr(sweep, group).get(key) if dot else getattr(sweep, name)
    return items is not None and len(items) == 1 and isinstance(items[0], str) and is_computed(items[0])


def check_stopping(
    trial: TrialSpec,
    targets: Mapping[str, TargetSpec],
    sweep: Sweep | None,
    points: Sequence[Point],
    document: Document,
    *,
    searches: bool,
) -> Iterator[Problem]:
    """Yields why a range of repeats is not possible; `points` are empty if the sweep is invalid."""
    if not trial.stops_when_decided:
        return
    path = ("trial", "repeats")
    if searches:
        yield document.problem(path, "a search has no range of repeats", "give a number, such as repeats = 3")
    elif sweep is not None and points and len(targets) == 1 and not compared_parameters(sweep, points):
        message = f"is {trial.repeats}, but the plan has one arm, so there is nothing to compare"
        yield document.problem(path, message, "give a number, or add a second target or a list under sweep.settings")
    for name, target in targets.items():
        if target.instance_count > 1:
            message = f"is {trial.repeats}, but the interval is one of the {target.instance_count} instances of target "
            message += f"{name}, whose number does not grow with repeats"
            yield document.problem(path, message, "give a number, or use one instance")
            break
