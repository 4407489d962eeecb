"""Whether a plan's load can be counted in instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.model import TrialSpec, Workload
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.records import Point

_MEASURE = ("trial", "measure")
_TIMED = ("phase", "event", "group", "step", "search", "generators", "generator")
"""Sections of a load that lasts a time, or comes from elsewhere."""


def check_counting(
    trial: TrialSpec,
    targets: Mapping[str, TargetSpec],
    workload: Workload | None,
    points: Sequence[Point],
    document: Document,
) -> Iterator[Problem]:
    """Yield each reason why the instructions of the load cannot be counted."""
    if trial.measure == "time":
        return
    if trial.transactions is None:
        message = "counts the instructions of a number of transactions"
        yield document.problem(_MEASURE, message, "set trial.transactions, such as 40, in place of a duration")
    for name, target in targets.items():
        if not isinstance(target, OwnTarget) or target.is_pooled or target.replicas is not None:
            message = "counts only in single servers that pgdyno starts on this host"
            yield document.problem(("target", name), message, 'use kind = "embedded", "local" or "build" alone')
    if any(point.clients != 1 or point.rate is not None for point in points):
        yield document.problem(("sweep",), "instructions are those of one session", "set clients = 1, and no rate")
    if workload is not None and workload.kind != "pgbench":
        message = "counts the statements of SQL scripts"
        yield document.problem(_MEASURE, message, "name them in workload.scripts")
    for name in _TIMED:
        if document.data.get(name) not in (None, "here", [], {}):
            yield document.problem((name,), "is not possible with counted instructions", "remove it")
