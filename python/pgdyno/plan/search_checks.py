"""Checks a plan's search against its other sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.model import CAPACITY_REPEATS, SearchSpec, TrialSpec, Workload
from pgdyno.plan.scripts import parse_script
from pgdyno.records import Point


def check_search(
    search: SearchSpec,
    trial: TrialSpec | None,
    workload: Workload | None,
    points: Sequence[Point],
    document: Document,
) -> Iterator[Problem]:
    """Yields problems of `search` over `points`, which are empty if the sweep is invalid."""
    path = ("search",)
    if search.find == "capacity" and search.latency is None and document.at((*path, "latency")) is None:
        yield document.problem(path, "lacks the latency target", 'such as latency = "p99 < 10ms"')
    if search.find == "peak" and search.latency is not None:
        yield document.problem((*path, "latency"), 'goes only with find = "capacity"', "remove it")
    if document.data.get("phase"):
        yield document.problem(path, "cannot be combined with phases", "remove one of them")
    if search.find == "peak" and trial is not None and trial.repeats < 2:
        message = "is 1: one trial does not show the noise"
        yield document.problem(("trial", "repeats"), message, 'use at least 2, better 3, for find = "peak"')
    few = search.find == "capacity" and trial is not None and "repeats" in trial.model_fields_set
    if few and trial is not None and trial.repeats < CAPACITY_REPEATS:
        message = (
            f"is {trial.repeats}: too few trials of a rate to determine its scatter, which leaves the capacity open"
        )
        hint = f'use at least {CAPACITY_REPEATS}, the default with find = "capacity"'
        yield document.problem(("trial", "repeats"), message, hint)
    if points:
        yield from _axis(search, points, document)
    if workload is not None and isinstance(search.latency, dict):
        yield from _scripts(search.latency, workload, document)


def _axis(search: SearchSpec, points: Sequence[Point], document: Document) -> Iterator[Problem]:
    name = search.axis
    values = {getattr(point, name) for point in points}
    if search.find == "peak" and any(point.rate is not None for point in points):
        yield document.problem(
            ("sweep", "rate"), 'does not go with find = "peak": that is of a closed loop', "remove it"
        )
    elif None in values or len(values) < 2:
        message = f"lacks the range of the search: the lowest and highest {name}"
        example = "clients = [1, 128]" if name == "clients" else "rate = [100, 20000]"
        yield document.problem(("sweep", name), message, f"such as {example}")


def _scripts(latency: dict[str, str], workload: Workload, document: Document) -> Iterator[Problem]:
    try:
        known = [parse_script(text).name for text in workload.scripts]
    except ValueError:
        return  # the scripts' own check reports it
    for name in latency:
        if name not in known:
            path = ("search", "latency", name)
            yield document.problem(path, "is not a script of this plan", f"its scripts are {', '.join(known)}")
