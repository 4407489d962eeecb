"""What kinds of workloads count besides transactions: their tables, their answer, and their part of exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from pgdyno.registry import WORKLOADS
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table

MOST_COLUMNS = 4
"""Points whose figures are next to each other on a page."""


class WorkloadFigures(NamedTuple):
    """`FIGURES` in the module `figures` of a kind of workload. Each is empty for runs of other kinds."""

    trial_table: Callable[[Digest], Table | None] = lambda _of: None
    heading: Callable[[], str] = str
    """Above the table of trials."""
    layout: str = ""
    """The layout of another tool, in which `pgdyno show` prints the table of trials if asked for it."""
    point_tables: Callable[[Digest, int], Iterable[Table]] = lambda _of, _at_once: ()
    """Tables in place of those of points, with so many points next to each other."""
    answer: Callable[[Digest], list[str]] = lambda _of: []
    """Sentences in place of those about throughput."""
    as_json: Callable[[Digest], list[dict[str, Any]]] = lambda _of: []
    """The figures of each point."""


def all_figures() -> list[WorkloadFigures]:
    """Return those of every kind that has any."""
    modules = (f"{kind.package}.figures" for kind in WORKLOADS.values())
    return [import_module(name).FIGURES for name in modules if find_spec(name) is not None]


def trial_tables(of: Digest) -> list[tuple[WorkloadFigures, Table]]:
    """Return the tables of trials that a run has."""
    return [(each, table) for each in all_figures() if (table := each.trial_table(of)) is not None]


def point_tables(of: Digest, at_once: int = MOST_COLUMNS) -> Iterator[Table]:
    """Yield the tables of workloads that run given queries once; none for others."""
    for each in all_figures():
        yield from each.point_tables(of, at_once)
