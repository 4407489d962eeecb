"""Whether two arms can be measured at once, whether a run can stop when decided, and whether it can have a control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.model import Reset, TrialSpec
from pgdyno.plan.plan_document import Document
from pgdyno.plan.sweeps.order import arms, controlled
from pgdyno.plan.sweeps.points import Space, is_computed
from pgdyno.plan.sweeps.spec import Sweep
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.plan.trials import varying
from pgdyno.processors import own_halves
from pgdyno.records import Point

_ORDER = ("trial", "order")
_OTHERWISE = 'use order = "interleaved"'


def check_duet(
    targets: Mapping[str, TargetSpec], space: Space | None, trial: TrialSpec, reset: Reset | None, document: Document
) -> Iterator[Problem]:
    """Yield each reason why the trials of a duet cannot run in pairs on this host."""
    if trial.order != "duet":
        return
    yield from _targets(targets, space, document)
    for key in ("generator", "generators"):
        if document.data.get(key) not in (None, "here", []):
            message = (
                'cannot be combined with order = "duet": each half of this host\'s processors has its own generator'
            )
            yield document.problem((key,), message, f"remove it, or {_OTHERWISE}")
    if document.data.get("search") is not None:
        message = 'is not possible with order = "duet", whose throughput depends on the other target'
        yield document.problem(("search",), message, f"remove it, or {_OTHERWISE}")
    if trial.transactions is not None:
        message = "cannot limit the trials of a duet: the faster target would finish first"
        yield document.problem(("trial", "transactions"), message, "set trial.duration")
    if reset is not None and reset.drop_cache == "machine":
        message = 'is not possible with order = "duet": it would drop the cache of the other target, too'
        yield document.problem(("reset", "drop_cache"), message, 'set it to "files"')
    try:
        own_halves()
    except ValueError as error:
        message = f"duet needs an even number of processors on this host: {error}"
        yield document.problem(_ORDER, message, _OTHERWISE)


def _targets(targets: Mapping[str, TargetSpec], space: Space | None, document: Document) -> Iterator[Problem]:
    named = document.data.get("target")
    count = len(named) if isinstance(named, dict) else len(targets)
    if count != 2:
        message = f"duet compares exactly two targets, each with its own server, but the plan has {count}"
        yield document.problem(_ORDER, message, _OTHERWISE)
    elif space is not None and len(targets) == 2 and len(arms(list(targets), space.points)) > 2:
        message = "duet compares exactly two targets, and the settings of the sweep make more arms of them"
        yield document.problem(_ORDER, message, "give each target its settings, or " + _OTHERWISE)
    for name, target in targets.items():
        if not isinstance(target, OwnTarget):
            message = f"duet needs servers that pgdyno starts on this host, and does not start that of target {name}"
            yield document.problem(_ORDER, message, _OTHERWISE)


def check_control(
    trial: TrialSpec, targets: Mapping[str, TargetSpec], points: Sequence[Point], document: Document, *, searches: bool
) -> Iterator[Problem]:
    """Yield why the baseline cannot be measured twice in each block; `points` are empty if the sweep is invalid."""
    path = ("trial", "control")
    if not trial.control:
        return
    if searches:
        message = "is not possible in a search, which compares no arms with a baseline"
        yield document.problem(path, message, "remove it")
    elif trial.order not in (None, "interleaved"):
        message = (
            f'is not possible with order = "{trial.order}", which has no blocks in which the places of arms balance'
        )
        yield document.problem(path, message, 'use order = "interleaved", or remove trial.control')
    elif points and not controlled(list(targets), points):
        message = "needs two arms that are targets or settings, and the plan has one"
        yield document.problem(path, message, "add a second target or a list under sweep.settings, or remove it")


def compared_parameters(sweep: Sweep, points: Sequence[Point]) -> list[str]:
    """Return the parameters by which `pgdyno compare` would compare arms of one target."""
    names = [name for name in varying(points) if name not in ("rate", "scale", "workers")]
    return [name for name in names if not _follows(sweep, name)]


def _follows(sweep: Sweep, name: str) -> bool:
    group, dot, key = name.partition(".")
    items = getattr(sweep, {"groups": "group"}.get(group, group)).get(key) if dot else getattr(sweep, name)
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
    """Yield why a range of repeats is not possible; `points` are empty if the sweep is invalid."""
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
