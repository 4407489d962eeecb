"""Whether a search can find the cheapest target: one promised load, a price of each target, and families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.model import SearchSpec
from pgdyno.plan.reading.plan_document import Document, near
from pgdyno.plan.targets import TargetSpec
from pgdyno.records import Point
from pgdyno.registry import KINDS


def check_cheapest(
    search: SearchSpec, targets: Mapping[str, TargetSpec], points: Sequence[Point], document: Document
) -> Iterator[Problem]:
    """Yields problems of a search for the cheapest of `targets`; `points` are empty if the sweep is invalid."""
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
    """Yields problems of `targets` without a price; `why` says what needs it."""
    priced = document.at(("price", "target"))
    for name in targets:
        is_priced = name in priced if isinstance(priced, dict) else _have_list_prices(targets)
        if not is_priced:
            hint = f"add [price.target.{name}], such as hourly = [{{ amount = 0.50 }}]"
            yield document.problem(("target", name), f"has no price, and {why}", hint)


def _have_list_prices(targets: Mapping[str, TargetSpec]) -> bool:
    """Returns whether a provider's price list has all targets: one list cannot have a part of them."""
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
