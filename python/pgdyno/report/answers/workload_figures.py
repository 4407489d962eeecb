"""What kinds of workloads count besides transactions: their tables, their answer, and their part of exports."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from pgdyno.records import Summary
from pgdyno.registry import WORKLOADS
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext

MOST_COLUMNS = 4
"""Points whose figures are next to each other on a page."""


def _usual_cells(summary: Summary | None) -> Iterable[str]:
    yield numbers.round_text(summary.tps) if summary is not None else numbers.NOTHING
    latency = summary.latency_ns if summary is not None else None
    for figure in (latency.p50, latency.p99, latency.max) if latency is not None else (None,) * 3:
        yield numbers.ms(figure)


class WorkloadFigures(NamedTuple):
    """`FIGURES` in the module `figures` of a kind of workload. Each is empty for runs of other kinds."""

    trial_table: Callable[[Digest], Table | None] = lambda _of: None
    heading: Callable[[], str] = str
    """Above the table of trials."""
    layout: str = ""
    """The layout of another tool, in which `pgdyno show` prints the table of trials if asked for it."""
    trial_columns: Callable[[], tuple[str, ...]] = lambda: ("tps", "p50, ms", "p99, ms", gettext("max, ms"))
    trial_cells: Callable[[Summary | None], Iterable[str]] = _usual_cells
    """Figures in every table of trials."""
    point_tables: Callable[[Digest, int], Iterable[Table]] = lambda _of, _at_once: ()
    """Tables in place of those of points, with so many points next to each other."""
    answer: Callable[[Digest], list[str]] = lambda _of: []
    """Sentences in place of those about throughput."""
    as_json: Callable[[Digest], list[dict[str, Any]]] = lambda _of: []
    """The figures of each point."""


@cache
def all_figures() -> dict[str, WorkloadFigures]:
    """Return those of all kinds by their package, which kinds may share."""
    modules = {each: f"{each}.figures" for each in map(_package, WORKLOADS)}
    return {name: import_module(module).FIGURES for name, module in modules.items() if find_spec(module) is not None}


def figures_of(kind: str) -> WorkloadFigures:
    return all_figures().get(_package(kind), WorkloadFigures())


def _package(kind: str) -> str:
    return WORKLOADS[kind].figures or WORKLOADS[kind].package


def trial_tables(of: Digest) -> list[tuple[WorkloadFigures, Table]]:
    return [(each, table) for each in all_figures().values() if (table := each.trial_table(of)) is not None]


def points_json(of: Digest) -> list[dict[str, Any]]:
    return [line for each in all_figures().values() for line in each.as_json(of)]


def point_tables(of: Digest, at_once: int = MOST_COLUMNS) -> Iterator[Table]:
    """Yield the tables of workloads that run given queries once; none for others."""
    for each in all_figures().values():
        yield from each.point_tables(of, at_once)
