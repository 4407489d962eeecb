"""Checks that a sweep's schema cannot express: points that cannot be measured, on these targets or at all."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.checks.targets import check_session, check_spelling, check_values, not_of_database, per_session
from pgdyno.plan.known_settings import network_refusal, refusal
from pgdyno.plan.plan_document import KeyPath
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.sweeps.ranges import expand_range, is_range
from pgdyno.plan.sweeps.spec import GROUPS, SESSION, Place, PointSpec, Sweep
from pgdyno.plan.targets import NetworkTarget, TargetSpec
from pgdyno.records import Point
from pgdyno.units import quantity, setting_value

DEFAULT_CONNECTIONS = 100
"""initdb's default of max_connections."""
MOST_DIGITS = 20
"""The server refuses a longer number."""
MOST_CONNECTIONS = 262_143 - 100
"""The largest max_connections of any version, without the sessions and processes that share its limit."""

# pgbench's rule
_VARIABLE = re.compile(r"(?:[A-Za-z0-9_]|[^\x00-\x7f])+")


def check_sweep(plan: Sections) -> Iterator[Problem]:
    sweep, space, targets = plan.sweep, plan.space, plan.targets
    if sweep is None:
        return
    of_server = {*sweep.settings, *(name for point in sweep.points for name in point.settings)}
    places: list[tuple[KeyPath, Sweep | PointSpec]] = [(("sweep",), sweep)]
    places += [(("sweep", "points", number), point) for number, point in enumerate(sweep.points)]
    # by their lower case, from the targets on, because the sweep overrides these
    spelled = {name.lower(): name for target in targets.values() for name in target.settings}
    of_session = {name.lower(): name for target in targets.values() for name in target.session_settings}
    for path, of in places:
        yield from check_spelling((*path, "settings"), of.settings, spelled, plan)
        yield from check_spelling((*path, SESSION), of.session_settings, of_session, plan)
        yield from _names((*path, "settings"), of.settings, plan)
        yield from check_variables((*path, "variables"), of.variables, plan)
        yield from check_session((*path, SESSION), of.session_settings, of_server, plan)
    duplicates = list(_duplicates(sweep, plan))
    yield from duplicates
    yield from _rate(sweep, plan)
    if space is None:
        return
    if not duplicates:
        for each in space.problems:
            yield plan.problem(_in_file(each.place, plan), each.message, each.hint)
    of_postgresql = all(target.kind == "embedded" for target in targets.values())
    for name in dict.fromkeys(name for point in space.points for name in point.settings):
        group = SESSION if name in sweep.session_names else "settings"
        values = [point.settings[name] for point in space.points if name in point.settings]
        yield from check_values(("sweep", group, name), values, plan, of_postgresql=of_postgresql)
    yield from _workers(space, plan)
    for name, target in targets.items():
        yield from _connections(name, target, space, plan)


def check_variables(path: KeyPath, variables: Mapping[str, object], plan: Sections) -> Iterator[Problem]:
    """Yield invalid names of scripts' variables, and empty values."""
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name) is None:
            yield plan.problem((*path, name), "is not a valid name of a variable", "use letters, digits and _")
        if value == "" or (isinstance(value, list) and "" in value):
            yield plan.problem((*path, name), "a variable cannot be empty")


def _names(path: KeyPath, settings: Iterable[str], plan: Sections) -> Iterator[Problem]:
    far = {name: target for name, target in plan.targets.items() if isinstance(target, NetworkTarget)}
    for name in settings:
        reason, remedy = refusal(name), "remove it"
        existing = next((other for other, target in far.items() if target.allow_existing), None)
        if reason is None and far and (over_network := network_refusal(name)) is not None:
            reason = f"target {next(iter(far))}: {over_network}"
        elif reason is None and existing is not None:
            reason, remedy = not_of_database(existing, far[existing]), per_session("sweep", name)
        if reason is not None:
            yield plan.problem((*path, name), f"cannot be set: {reason}", remedy)


def _duplicates(sweep: Sweep, plan: Sections) -> Iterator[Problem]:
    lists: dict[Place, Sequence[object]] = {(name,): getattr(sweep, name) or () for name in _LISTED}
    lists |= {(group, name): items for group in GROUPS for name, items in getattr(sweep, group).items()}
    for place, items in lists.items():
        seen: dict[object, object] = {}
        for number, item in enumerate(items):
            value = setting_value(item) if isinstance(item, str) and place[0] in ("settings", SESSION) else item
            if value in seen:
                shown, before = (f"{each:g}" if isinstance(each, float) else str(each) for each in (item, seen[value]))
                message = f"{shown} is {'listed twice' if seen[value] == item else f'the same value as {before}'}"
                hint = "trial.repeats measures every point several times"
                yield plan.problem(_in_file((*place, number), plan), message, hint)
            seen.setdefault(value, item)


_LISTED = ("clients", "workers", "protocol", "scale", "rate", "connect", "exclude")


def _rate(sweep: Sweep, plan: Sections) -> Iterator[Problem]:
    if not plan.value_at(("phase",)):
        return
    hint = "move it to the phases, or remove the phases"
    if sweep.rate is not None:
        yield plan.problem(("sweep", "rate"), "cannot be combined with phases, which have their own rates", hint)
    for number, point in enumerate(sweep.points):
        if point.rate is not None:
            yield plan.problem(("sweep", "points", number, "rate"), "cannot be combined with phases", hint)


def _workers(space: Space, plan: Sections) -> Iterator[Problem]:
    said: set[Place] = set()
    for point, places in zip(space.points, space.places, strict=True):
        place = places.get("workers")
        if point.workers is None or point.workers <= point.planned_clients or place is None or place in said:
            continue
        said.add(place)
        clients = quantity(point.planned_clients, "client")
        message = f"{point.workers} workers are more than {clients}: some would be idle"
        hint = 'leave workers out, begin clients with as many, or write workers = "min(clients, …)"'
        yield plan.problem(_in_file(place, plan), message, hint)


def _connections(name: str, target: TargetSpec, space: Space, plan: Sections) -> Iterator[Problem]:
    short: list[tuple[int, int, Place]] = []
    for point, places in zip(space.points, space.places, strict=True):
        most = _max_connections(target, point)
        clients = point.planned_clients + space.beside
        # what a server refuses may be the question of a load that connects for each transaction
        is_kept = (point.connect or plan.value_at(("workload", "connect"))) != "each"
        if is_kept and most is not None and clients >= most:
            short.append((clients, most, places["clients"]))
    most_of_all = max(space.points, key=lambda point: point.planned_clients, default=None)
    if most_of_all is not None and most_of_all.planned_clients > MOST_CONNECTIONS:
        message = (
            f"{most_of_all.clients:,} clients are more than PostgreSQL accepts; the maximum is {MOST_CONNECTIONS:,}"
        )
        place = space.places[space.points.index(most_of_all)]["clients"]
        yield plan.problem(_of_clients(place, plan), message, "use fewer clients")
    elif short:
        clients, most, place = max(short, key=lambda each: each[0])
        message = f"{clients} clients are too many for target {name}: its max_connections is {most}"
        hint = f"set max_connections = {clients + 20} in [target.{name}.settings]"
        yield plan.problem(_of_clients(place, plan), message, hint)


def _of_clients(place: Place, plan: Sections) -> KeyPath:
    return ("group",) if plan.value_at(("group",)) else _in_file(place, plan)


def _max_connections(target: TargetSpec, point: Point) -> int | None:
    """Return the effective max_connections, or None if only the server knows it."""
    if isinstance(target, NetworkTarget) or target.is_pooled:
        return None
    given = {key.lower(): value for key, value in (target.settings | point.settings).items()}
    asked = given.get("max_connections", str(DEFAULT_CONNECTIONS))
    return int(asked) if asked.isascii() and asked.isdigit() and len(asked) < MOST_DIGITS else None


def _in_file(place: Place, plan: Sections) -> KeyPath:
    path = ("sweep", *place)
    if not place or not isinstance(place[-1], int) or place[0] == "points":
        return path
    written = plan.value_at(path[:-1])
    if not isinstance(written, list):
        return path[:-1]
    left = place[-1]
    for number, element in enumerate(written):
        left -= _items_in(element)
        if left < 0:
            return (*path[:-1], number)
    return path[:-1]


def _items_in(element: object) -> int:
    if not isinstance(element, str) or not is_range(element):
        return 1
    try:
        return len(expand_range(element))
    except ValueError:
        # a text that contains two dots
        return 1
