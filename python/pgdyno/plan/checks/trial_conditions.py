"""What the trials of a plan are: their length, phases, counts, pairs, control, promises, and when they stop."""

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.model import TrialSpec
from pgdyno.plan.plan_document import KeyPath
from pgdyno.plan.scenario.groups import GroupSpec
from pgdyno.plan.sweeps.order import arms, controlled_blocks
from pgdyno.plan.sweeps.points import is_computed
from pgdyno.plan.sweeps.spec import Sweep
from pgdyno.plan.targets import OwnTarget
from pgdyno.plan.trials import varying_parameters
from pgdyno.plan.workload import ends
from pgdyno.processors import own_halves
from pgdyno.records import Point
from pgdyno.records.promise import OF_FOLLOWERS, parse_promise

_ORDER = ("trial", "order")
_OTHERWISE = 'use order = "interleaved"'
_MEASURE = ("trial", "measure")
_TIMED = ("phase", "event", "group", "step", "search", "generators", "generator")
"""Sections of a load that lasts a time, or comes from elsewhere."""


def check_length(plan: Sections) -> Iterator[Problem]:
    """Yield a missing end of trials, and keys that do not go together with theirs."""
    trial = plan.trial
    if trial is None:
        return
    for parts in ("phase", "step"):
        if not plan.value_at((parts,)):
            continue
        for name in ("duration", "transactions", "warmup"):
            if getattr(trial, name):
                first = f"put a {parts} with result = false first"
                hint = f"remove it; {first if name == 'warmup' else f'the {parts}s determine the length of a trial'}"
                yield plan.problem(("trial", name), f"cannot be combined with {parts}s", hint)
        return
    table = plan.value_at(("trial",))
    names = set(table) if isinstance(table, dict) else set()
    has_wrong_end = not names.isdisjoint({"duration", "transactions"}) or not names <= TrialSpec.model_fields.keys()
    has_own_end = plan.workload is not None and plan.workload.own_end is not None
    if trial.duration is None and trial.transactions is None and not has_own_end and not has_wrong_end:
        yield plan.problem(("trial",), "give either duration or transactions")
    if trial.transactions is not None and trial.warmup > 0:
        yield plan.problem(("trial", "warmup"), "needs duration, not transactions")


# ---- phases ----


def check_phases(plan: Sections) -> Iterator[Problem]:
    """Yield problems of the phases with the sweep's points and the workload, as far as these are valid."""
    phases = plan.phases
    if not phases:
        return
    for place, phase in enumerate(phases):
        if any(phase.name == before.name for before in phases[:place]):
            message = f"{phase.name} is the name of two phases"
            yield plan.problem(("phase", place, "name"), message, "give each phase its own name")
    yield from _rates(plan)
    if plan.value_at(("probe", "profile")) is True:
        yield plan.problem(("probe", "profile"), "a profile needs a load without phases", "remove it, or the phases")
    if all(not phase.result for phase in phases):
        yield plan.problem(("phase",), "has no phase with a result", "remove result = false from one phase")
    yield from _clients(plan)
    yield from _mixes(plan)


def _rates(plan: Sections) -> Iterator[Problem]:
    if all(phase.rate is None for phase in plan.phases):
        return
    for place, phase in enumerate(plan.phases):
        if phase.rate is None:
            hint = "give a rate to every phase (0 is a pause), or to none"
            yield plan.problem(("phase", place), "has no rate, unlike other phases", hint)
    if all(phase.rate is not None and max(ends(phase.rate)) == 0 for phase in plan.phases):
        yield plan.problem(("phase",), "has no rate above 0", "give one phase a rate")


def _clients(plan: Sections) -> Iterator[Problem]:
    if not plan.points:
        return
    most = min(point.planned_clients for point in plan.points)
    workers = max(point.workers or 1 for point in plan.points)
    is_open = any(phase.rate is not None for phase in plan.phases)
    for place, phase in enumerate(plan.phases):
        if phase.clients is None:
            continue
        path, (least_here, most_here) = ("phase", place, "clients"), sorted(ends(phase.clients))
        if most_here > most:
            message = f"{most_here:g} clients are more than the {most} of sweep.clients"
            yield plan.problem(path, message, "start sweep.clients with that many")
        if is_open and least_here < workers:
            message = f"{least_here:g} clients are fewer than the {workers} workers that share the rate"
            yield plan.problem(path, message, f"use at least {workers}")


def _mixes(plan: Sections) -> Iterator[Problem]:
    if plan.workload is None:
        return
    names = plan.workload.transactions
    for place, phase in enumerate(plan.phases):
        path = ("phase", place, "mix")
        for name in phase.mix or {}:
            is_numbered = name.isascii() and name.isdigit() and 1 <= int(name) <= len(names)
            if name not in names and not is_numbered:
                hint = f"its scripts are {', '.join(names)}"
                yield plan.problem((*path, name), "is not a script of this plan", hint)
        if phase.mix is not None and not any(phase.mix.values()):
            yield plan.problem(path, "has no weight above 0", "give one script a weight")


# ---- counted instructions ----


def check_counting(plan: Sections) -> Iterator[Problem]:
    """Yield each reason why the instructions of the load cannot be counted."""
    if plan.trial is None or plan.trial.measure == "time":
        return
    if plan.trial.transactions is None:
        message = "counts the instructions of a number of transactions"
        yield plan.problem(_MEASURE, message, "set trial.transactions, such as 40, in place of a duration")
    for name, target in plan.targets.items():
        if not isinstance(target, OwnTarget) or target.is_pooled or target.replicas is not None:
            message = "counts only in single servers that pgdyno starts on this host"
            yield plan.problem(("target", name), message, 'use kind = "embedded", "local" or "build" alone')
    if any(point.clients != 1 or point.rate is not None for point in plan.points):
        yield plan.problem(("sweep",), "instructions are those of one session", "set clients = 1, and no rate")
    if plan.workload is not None and plan.workload.kind != "pgbench":
        yield plan.problem(_MEASURE, "counts the statements of SQL scripts", "name them in workload.scripts")
    for name in _TIMED:
        if plan.value_at((name,)) not in (None, "here", [], {}):
            yield plan.problem((name,), "is not possible with counted instructions", "remove it")


# ---- duets, and a control ----


def check_duet(plan: Sections) -> Iterator[Problem]:
    """Yield each reason why the trials of a duet cannot run in pairs on this host."""
    if plan.trial is None or plan.trial.order != "duet":
        return
    yield from _duet_targets(plan)
    for key in ("generator", "generators"):
        if plan.value_at((key,)) not in (None, "here", []):
            why = "each half of this host's processors has its own generator"
            message = f'cannot be combined with order = "duet": {why}'
            yield plan.problem((key,), message, f"remove it, or {_OTHERWISE}")
    if plan.value_at(("search",)) is not None:
        message = 'is not possible with order = "duet", whose throughput depends on the other target'
        yield plan.problem(("search",), message, f"remove it, or {_OTHERWISE}")
    if plan.trial.transactions is not None:
        message = "cannot limit the trials of a duet: the faster target would finish first"
        yield plan.problem(("trial", "transactions"), message, "set trial.duration")
    if plan.reset is not None and plan.reset.drop_cache == "machine":
        message = 'is not possible with order = "duet": it would drop the cache of the other target, too'
        yield plan.problem(("reset", "drop_cache"), message, 'set it to "files"')
    try:
        own_halves()
    except ValueError as error:
        message = f"duet needs an even number of processors on this host: {error}"
        yield plan.problem(_ORDER, message, _OTHERWISE)


def _duet_targets(plan: Sections) -> Iterator[Problem]:
    named = plan.value_at(("target",))
    count = len(named) if isinstance(named, dict) else len(plan.targets)
    if count != 2:
        message = f"duet compares exactly two targets, each with its own server, but the plan has {count}"
        yield plan.problem(_ORDER, message, _OTHERWISE)
    elif len(plan.targets) == 2 and len(arms(list(plan.targets), plan.points)) > 2:
        message = "duet compares exactly two targets, and the settings of the sweep make more arms of them"
        yield plan.problem(_ORDER, message, f"give each target its settings, or {_OTHERWISE}")
    for name, target in plan.targets.items():
        if not isinstance(target, OwnTarget):
            message = f"duet needs servers that pgdyno starts on this host, and does not start that of target {name}"
            yield plan.problem(_ORDER, message, _OTHERWISE)


def check_control(plan: Sections) -> Iterator[Problem]:
    """Yield why the baseline cannot be measured twice in each block."""
    path = ("trial", "control")
    if plan.trial is None or not plan.trial.control:
        return
    if plan.search is not None:
        message = "is not possible in a search, which compares no arms with a baseline"
        yield plan.problem(path, message, "remove it")
    elif plan.trial.order not in (None, "interleaved"):
        why = "which has no blocks in which the places of arms balance"
        message = f'is not possible with order = "{plan.trial.order}", {why}'
        yield plan.problem(path, message, 'use order = "interleaved", or remove trial.control')
    elif plan.points and not controlled_blocks(list(plan.targets), plan.points):
        message = "needs two arms that are targets or settings, and the plan has one"
        yield plan.problem(path, message, "add a second target or a list under sweep.settings, or remove it")


# ---- when a point is decided ----


def compared_parameters(sweep: Sweep, points: Sequence[Point]) -> list[str]:
    """Return the parameters by which `pgdyno compare` would compare arms of one target."""
    names = [name for name in varying_parameters(points) if name not in ("rate", "scale", "workers")]
    return [name for name in names if not _follows(sweep, name)]


def _follows(sweep: Sweep, name: str) -> bool:
    group, dot, key = name.partition(".")
    items = getattr(sweep, {"groups": "group"}.get(group, group)).get(key) if dot else getattr(sweep, name)
    return is_one_expression(items)


def is_one_expression(items: Sequence[object] | None) -> bool:
    """Return whether the list of a sweep is one expression on its other parameters."""
    return items is not None and len(items) == 1 and isinstance(items[0], str) and is_computed(items[0])


def check_stopping(plan: Sections) -> Iterator[Problem]:
    """Yield why a range of repeats is not possible."""
    trial = plan.trial
    if trial is None or not trial.stops_when_decided:
        return
    path = ("trial", "repeats")
    if plan.search is not None:
        yield plan.problem(path, "a search has no range of repeats", "give a number, such as repeats = 3")
    elif plan.sweep and plan.points and len(plan.targets) == 1 and not compared_parameters(plan.sweep, plan.points):
        message = f"is {trial.repeats}, but the plan has one arm, so there is nothing to compare"
        yield plan.problem(path, message, "give a number, or add a second target or a list under sweep.settings")
    for name, target in plan.targets.items():
        if target.instance_count > 1:
            message = f"is {trial.repeats}, but the interval is one of the {target.instance_count} instances of target "
            message += f"{name}, whose number does not grow with repeats"
            yield plan.problem(path, message, "give a number, or use one instance")
            break


# ---- promises ----


def check_trial_promises(plan: Sections) -> Iterator[Problem]:
    if plan.trial is not None:
        phases = [phase.rate is not None for phase in plan.phases if phase.result]
        has_rate = all(phases) if phases else not plan.points or any(point.rate is not None for point in plan.points)
        has_rate = has_rate or any(has_group_rate(group, plan) for group in plan.groups)
        yield from check_promises(("trial", "promise"), plan.trial.promise, plan, has_rate=has_rate)


def has_group_rate(group: GroupSpec, plan: Sections) -> bool:
    """Return whether the load of `group` is an open loop, at least at a point or in a step."""
    is_swept = plan.sweep is not None and f"{group.name}.rate" in plan.sweep.group
    in_steps = (each.rate for step in plan.steps for each in step.groups if each.name == group.name)
    return group.rate is not None or is_swept or any(rate is not None for rate in in_steps)


def check_promises(path: KeyPath, promises: Sequence[str], plan: Sections, *, has_rate: bool) -> Iterator[Problem]:
    """Yield problems of `promises`, which the plan has at `path`; `has_rate`: some of their load is an open loop."""
    search = plan.value_at(("search",))
    seeks_capacity = isinstance(search, Mapping) and search.get("find") == "capacity"
    for place, text in enumerate(promises):
        at: KeyPath = (*path, place) if isinstance(plan.value_at(path), list) else path
        figure = parse_promise(text).figure
        if search is not None and not (seeks_capacity and figure in OF_FOLLOWERS):
            hint = "remove it; search.latency is the promise of a search for a capacity, a cheapest target or settings"
            yield plan.problem(at, "cannot be combined with a search, which also tries points that break it", hint)
        elif figure in OF_FOLLOWERS:
            yield from _of_followers(at, text, figure, plan)
        elif plan.workload is not None and plan.workload.runs_once:
            message = f"{text!r} is on a stream of transactions, and this workload runs each query once"
            yield plan.problem(at, message, "remove it")
        elif figure == "rate" and not has_rate:
            hint = 'set sweep.rate, or promise a throughput: "tps >= 500"'
            yield plan.problem(at, f"{text!r} needs a rate, and the load is a closed loop", hint)


def _of_followers(at: KeyPath, text: str, figure: str, plan: Sections) -> Iterator[Problem]:
    key, example = ("replicas", "{ count = 1 }") if figure == "lag" else ("archive", '{ rate = "5MB" }')
    for name, target in plan.targets.items():
        if not isinstance(target, OwnTarget) or not (target.follower_count if figure == "lag" else target.archive):
            hint = f"write {key} = {example} in [target.{name}], of a server that pgdyno starts"
            yield plan.problem(at, f"{text!r} is not measured: target {name} has no {key}", hint)
