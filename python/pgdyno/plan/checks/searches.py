"""Whether a search can find something."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, product

from pgdyno.errors import Problem
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.checks.targets import check_spelling
from pgdyno.plan.known_settings import NEEDS_RELOAD, network_refusal, refusal
from pgdyno.plan.model import CAPACITY_REPEATS, SearchSpec
from pgdyno.plan.plan_document import suggestion
from pgdyno.plan.sweeps.expressions import Value, parse_expression
from pgdyno.plan.sweeps.settings_space import Choice, Span, read_choice
from pgdyno.plan.targets import NetworkTarget, TargetSpec
from pgdyno.plan.values import FEWEST_LOOK
from pgdyno.registry import KINDS, SEARCHES


def check_search(plan: Sections) -> Iterator[Problem]:
    search, trial = plan.search, plan.trial
    if search is None:
        return
    path = ("search",)
    meets_latency = search.kind.meets_latency
    if meets_latency and search.latency is None and plan.value_at((*path, "latency")) is None:
        yield plan.problem(path, "lacks the latency target", 'such as latency = "p99 < 10ms"')
    if search.find == "settings":
        yield from _scripts(search, plan)
        return
    if not meets_latency and search.latency is not None:
        names = " or ".join(f'"{name}"' for name, each in SEARCHES.items() if each.meets_latency)
        yield plan.problem((*path, "latency"), f"is valid only with find = {names}", "remove it")
    if plan.value_at(("phase",)):
        yield plan.problem(path, "cannot be combined with phases", "remove one of them")
    repeats, find = ("trial", "repeats"), f'find = "{search.find}"'
    if trial is not None and not meets_latency and trial.most_repeats < 2:
        message = "is 1: one trial does not show the noise"
        yield plan.problem(repeats, message, f"use at least 2, better 3, for {find}")
    are_given = trial is not None and "repeats" in trial.model_fields_set
    if trial is not None and meets_latency and are_given and trial.most_repeats < CAPACITY_REPEATS:
        why = "too few trials of a rate to determine its scatter, which leaves the capacity open"
        hint = f"use at least {CAPACITY_REPEATS}, the default with {find}"
        yield plan.problem(repeats, f"is {trial.repeats}: {why}", hint)
    if plan.points and search.kind.axis is not None:
        yield from _axis(search, plan)
    yield from _scripts(search, plan)


def _axis(search: SearchSpec, plan: Sections) -> Iterator[Problem]:
    name = search.axis
    values = {getattr(point, name) for point in plan.points}
    if search.axis == "clients" and any(point.rate is not None for point in plan.points):
        message = f'cannot be combined with find = "{search.find}", which measures a closed loop'
        yield plan.problem(("sweep", "rate"), message, "remove it")
    elif None in values or len(values) < 2:
        message = f"lacks the range of the search: the lowest and highest {name}"
        example = "clients = [1, 128]" if name == "clients" else "rate = [100, 20000]"
        yield plan.problem(("sweep", name), message, f"such as {example}")


def _scripts(search: SearchSpec, plan: Sections) -> Iterator[Problem]:
    if plan.workload is None or not isinstance(search.latency, dict):
        return
    known = plan.workload.transactions
    for name in search.latency:
        if name not in known:
            path = ("search", "latency", name)
            yield plan.problem(path, "is not a script of this plan", f"its scripts are {', '.join(known)}")


def check_cheapest(plan: Sections) -> Iterator[Problem]:
    search, points = plan.search, plan.points
    if search is None:
        return
    if search.find != "cheapest":
        if search.families:
            yield plan.problem(("search", "families"), 'is valid only with find = "cheapest"', "remove it")
        return
    if any(point.rate is None for point in points):
        message = "lacks the promised load, in transactions per second"
        yield plan.problem(("sweep", "rate"), message, "such as rate = 2000")
    elif len(points) > 1:
        message = f"has {len(points)} points, but a promise is one point: a rate and a number of clients"
        hint = "give one value of each parameter, or write a plan for each promise"
        yield plan.problem(("sweep",), message, hint)
    for name, target in plan.targets.items():
        if getattr(target, "instead", None):
            message = "may rent a type other than the one whose price decides"
            yield plan.problem(("target", name, "instead"), message, "remove it, or add a target of each type")
    yield from _find_unpriced_targets('find = "cheapest" compares prices', plan)
    yield from _families(search, plan)


def _find_unpriced_targets(why: str, plan: Sections) -> Iterator[Problem]:
    """Yield the targets without a price; `why` says what needs it."""
    priced = plan.value_at(("price", "target"))
    have_list_prices = all(KINDS[target.kind].where == "rented" for target in plan.targets.values())
    for name in plan.targets:
        if not (name in priced if isinstance(priced, dict) else have_list_prices):
            hint = f"add [price.target.{name}], such as hourly = [{{ amount = 0.50 }}]"
            yield plan.problem(("target", name), f"has no price, and {why}", hint)


def _families(search: SearchSpec, plan: Sections) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, family in enumerate(search.families):
        for rank, name in enumerate(family):
            path = ("search", "families", place, rank)
            if name not in plan.targets:
                hint = suggestion(name, plan.targets, f"available: {', '.join(plan.targets)}")
                yield plan.problem(path, f"target {name} does not exist", hint)
            elif name in seen:
                yield plan.problem(path, f"target {name} is in a family already", "remove one of them")
            seen.add(name)


_OWN = ("over", "when", "goal", "trials", "budget")
MOST_CHECKED = 1_000
"""Combinations of values for which a condition is computed before the run."""


def check_settings_search(plan: Sections) -> Iterator[Problem]:
    """Yield problems of a search for settings.

    The server itself decides about names, units and ranges, before the first trial.
    """
    search, targets, points = plan.search, plan.targets, plan.points
    if search is None or search.find != "settings":
        for key in (each for each in _OWN if getattr(search, each, None)):
            yield plan.problem(("search", key), 'is valid only with find = "settings"', "remove it")
        return
    if plan.value_at(("phase",)):
        yield plan.problem(("search",), "cannot be combined with phases", "remove one of them")
    if not search.over and plan.value_at(("search", "over")) is None:
        yield plan.problem(("search",), "lacks the settings", 'such as over.random_page_cost = "1..4"')
    if len(targets) > 1:
        message = f"searches on one server, but the plan has {len(targets)} targets"
        yield plan.problem(("search",), message, "write a plan for each target")
    if len(points) > 1:
        message = f"has {len(points)} points, but a search compares settings at one"
        yield plan.problem(("sweep",), message, "give one value of each parameter")
    yield from _pairs(plan)
    yield from _conditions(search, plan)
    if search.goal == "price":
        yield from _find_unpriced_targets('goal = "price" needs it', plan)
        if any(point.rate is not None for point in points):
            message = "is decided by the rate, which settings do not change"
            yield plan.problem(("search", "goal"), message, 'remove sweep.rate, or write goal = "p99"')
    yield from _check_searched_settings(search, plan)


def _check_searched_settings(search: SearchSpec, plan: Sections) -> Iterator[Problem]:
    targets = plan.targets.values()
    fixed = {name.lower(): name for target in targets for name in (*target.settings, *target.session_settings)}
    yield from check_spelling(("search", "over"), search.over, fixed, plan)
    for name in search.over:
        refused = [found for target in targets if (found := _refusal(name, target)) is not None]
        if refused:
            reason, remedy = refused[0]
            yield plan.problem(("search", "over", name), f"cannot be searched: {reason}", remedy)


def _refusal(name: str, target: TargetSpec) -> tuple[str, str] | None:
    """Return why a search cannot change the setting `name` of `target`, with the remedy; None if it can."""
    if (reserved := refusal(name)) is not None:
        return reserved, "remove it"
    reason = network_refusal(name) if isinstance(target, NetworkTarget) else None
    if reason is None or target.restart_command or (target.restart_command == "" and name.lower() in NEEDS_RELOAD):
        return None
    if target.restart_command is not None:
        return "it takes effect when the server starts, and restart is empty", "give the command that restarts it"
    if "restart" in type(target).model_fields:
        return reason, "remove it, or set restart in the target, and use --allow-restart"
    return reason, "remove it"


def _conditions(search: SearchSpec, plan: Sections) -> Iterator[Problem]:
    for name, text in search.when.items():
        path, used = ("search", "when", name), sorted(parse_expression(text).names)
        unknown = [each for each in (name, *used) if each not in search.over]
        if unknown:
            hint = f"use one of {', '.join(search.over)}" if search.over else "add it to search.over"
            yield plan.problem(path, f"{unknown[0]} is not in search.over", hint)
        elif chained := [each for each in used if each in search.when]:
            message = f"depends on {chained[0]}, which has a condition itself"
            yield plan.problem(path, message, "write both conditions here, with and")
        elif (reason := _mistake(search, text, used)) is not None:
            yield plan.problem(path, reason, """such as 'jit == "on"' or "commit_delay > 0\"""")


def _mistake(search: SearchSpec, text: str, used: list[str]) -> str | None:
    values_of = [_values(read_choice(search.over[name])) for name in used]
    for values in islice(product(*values_of), MOST_CHECKED):
        try:
            parse_expression(text).holds(dict(zip(used, values, strict=True)))
        except ValueError as error:
            return str(error)
    return None


def _values(choice: Choice) -> list[Value]:
    return [Fraction(choice.low), Fraction(choice.high)] if isinstance(choice, Span) else list(choice)


def _pairs(plan: Sections) -> Iterator[Problem]:
    trial = plan.trial
    # by default there are enough
    if trial is None or "repeats" not in trial.model_fields_set or trial.stops_when_decided:
        return
    if trial.most_repeats < FEWEST_LOOK:
        message = f"is {trial.repeats}: a verdict needs at least {FEWEST_LOOK} pairs"
        yield plan.problem(("trial", "repeats"), message, f"set it to {FEWEST_LOOK} or more, or leave it out")
