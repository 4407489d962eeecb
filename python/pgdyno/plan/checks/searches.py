"""Whether a search for the cheapest target, or for settings, can find something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice, product

from pgdyno.errors import Problem
from pgdyno.plan.checks.targets import check_spelling
from pgdyno.plan.known_settings import NEEDS_RELOAD, network_refusal, refusal
from pgdyno.plan.model import SearchSpec, TrialSpec
from pgdyno.plan.plan_document import Document, near
from pgdyno.plan.sweeps.expressions import Value, parse_expression
from pgdyno.plan.sweeps.settings_space import Choice, Span, read_choice
from pgdyno.plan.targets import NetworkTarget, TargetSpec
from pgdyno.plan.values import FEWEST_LOOK
from pgdyno.records import Point
from pgdyno.registry import KINDS


def check_cheapest(
    search: SearchSpec, targets: Mapping[str, TargetSpec], points: Sequence[Point], document: Document
) -> Iterator[Problem]:
    """Yield problems of a search for the cheapest of `targets`; `points` are empty if the sweep is invalid."""
    if search.find != "cheapest":
        if search.families:
            yield document.problem(("search", "families"), 'is valid only with find = "cheapest"', "remove it")
        return
    if any(point.rate is None for point in points):
        message = "lacks the promised load, in transactions per second"
        yield document.problem(("sweep", "rate"), message, "such as rate = 2000")
    elif len(points) > 1:
        message = f"has {len(points)} points, but a promise is one point: a rate and a number of clients"
        yield document.problem(
            ("sweep",), message, "give one value of each parameter, or write a plan for each promise"
        )
    yield from _prices(targets, document)
    yield from _families(search.families, targets, document)


def _prices(targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    for name, target in targets.items():
        if getattr(target, "instead", None):
            message = "may rent a type other than the one whose price decides"
            yield document.problem(("target", name, "instead"), message, "remove it, or add a target of each type")
    yield from check_priced(targets, 'find = "cheapest" compares prices', document)


def check_priced(targets: Mapping[str, TargetSpec], why: str, document: Document) -> Iterator[Problem]:
    """Yield problems of `targets` without a price; `why` says what needs it."""
    priced = document.at(("price", "target"))
    for name in targets:
        is_priced = name in priced if isinstance(priced, dict) else _have_list_prices(targets)
        if not is_priced:
            hint = f"add [price.target.{name}], such as hourly = [{{ amount = 0.50 }}]"
            yield document.problem(("target", name), f"has no price, and {why}", hint)


def _have_list_prices(targets: Mapping[str, TargetSpec]) -> bool:
    return all(KINDS[target.kind].where == "rented" for target in targets.values())


def _families(
    families: Sequence[Sequence[str]], targets: Mapping[str, TargetSpec], document: Document
) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, family in enumerate(families):
        for rank, name in enumerate(family):
            path = ("search", "families", place, rank)
            if name not in targets:
                meant = near(name, list(targets))
                hint = f"did you mean {meant}?" if meant else f"available: {', '.join(targets)}"
                yield document.problem(path, f"target {name} does not exist", hint)
            elif name in seen:
                yield document.problem(path, f"target {name} is in a family already", "remove one of them")
            seen.add(name)


_OWN = ("over", "when", "goal", "trials", "budget")
MOST_CHECKED = 1_000
"""Combinations of values for which a condition is computed before the run."""


def check_settings_search(
    search: SearchSpec,
    targets: Mapping[str, TargetSpec],
    trial: TrialSpec | None,
    points: Sequence[Point],
    document: Document,
) -> Iterator[Problem]:
    """Yield problems of a search for settings of `targets`; `points` are empty if the sweep is invalid.

    The server itself decides about names, units and ranges, before the first trial.
    """
    if search.find != "settings":
        for key in _OWN:
            if getattr(search, key):
                yield document.problem(("search", key), 'is valid only with find = "settings"', "remove it")
        return
    if document.data.get("phase"):
        yield document.problem(("search",), "cannot be combined with phases", "remove one of them")
    if not search.over and document.at(("search", "over")) is None:
        yield document.problem(("search",), "lacks the settings", 'such as over.random_page_cost = "1..4"')
    if len(targets) > 1:
        message = f"searches on one server, but the plan has {len(targets)} targets"
        yield document.problem(("search",), message, "write a plan for each target")
    if len(points) > 1:
        message = f"has {len(points)} points, but a search compares settings at one"
        yield document.problem(("sweep",), message, "give one value of each parameter")
    yield from _pairs(trial, document)
    yield from _conditions(search, document)
    yield from _price(search, targets, points, document)
    fixed = {name.lower(): name for target in targets.values() for name in (*target.settings, *target.session_settings)}
    yield from check_spelling(("search", "over"), search.over, fixed, document)
    for name in search.over:
        refused = [found for target in targets.values() if (found := _refusal(name, target)) is not None]
        if refused:
            reason, remedy = refused[0]
            yield document.problem(("search", "over", name), f"cannot be searched: {reason}", remedy)


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


def _price(
    search: SearchSpec, targets: Mapping[str, TargetSpec], points: Sequence[Point], document: Document
) -> Iterator[Problem]:
    if search.goal != "price":
        return
    yield from check_priced(targets, 'goal = "price" needs it', document)
    if any(point.rate is not None for point in points):
        message = "is decided by the rate, which settings do not change"
        yield document.problem(("search", "goal"), message, 'remove sweep.rate, or write goal = "p99"')


def _conditions(search: SearchSpec, document: Document) -> Iterator[Problem]:
    for name, text in search.when.items():
        path, used = ("search", "when", name), sorted(parse_expression(text).names)
        unknown = [each for each in (name, *used) if each not in search.over]
        if unknown:
            hint = f"use one of {', '.join(search.over)}" if search.over else "add it to search.over"
            yield document.problem(path, f"{unknown[0]} is not in search.over", hint)
        elif chained := [each for each in used if each in search.when]:
            message = f"depends on {chained[0]}, which has a condition itself"
            yield document.problem(path, message, "write both conditions here, with and")
        elif (reason := _mistake(search, text, used)) is not None:
            yield document.problem(path, reason, """such as 'jit == "on"' or "commit_delay > 0\"""")


def _mistake(search: SearchSpec, text: str, used: Sequence[str]) -> str | None:
    values_of = [_values(read_choice(search.over[name])) for name in used]
    for values in islice(product(*values_of), MOST_CHECKED):
        try:
            parse_expression(text).holds(dict(zip(used, values, strict=True)))
        except ValueError as error:
            return str(error)
    return None


def _values(choice: Choice) -> list[Value]:
    return [Fraction(choice.low), Fraction(choice.high)] if isinstance(choice, Span) else list(choice)


def _pairs(trial: TrialSpec | None, document: Document) -> Iterator[Problem]:
    # by default there are enough
    given = trial is not None and "repeats" in trial.model_fields_set
    if trial is not None and given and not trial.stops_when_decided and trial.most_repeats < FEWEST_LOOK:
        message = f"is {trial.repeats}: a verdict needs at least {FEWEST_LOOK} pairs"
        yield document.problem(("trial", "repeats"), message, f"set it to {FEWEST_LOOK} or more, or leave it out")
