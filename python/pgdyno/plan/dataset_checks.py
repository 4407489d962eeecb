"""Checks that the size keys match the dataset."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.model import MOST_ROWS, Workload
from pgdyno.plan.points import Space


def check_size(workload: Workload, space: Space | None, document: Document) -> Iterator[Problem]:
    """Yields keys of another dataset, and impossible sizes."""
    given = document.at(("workload",))
    given = given if isinstance(given, dict) else {}
    if workload.dataset == "sbtest":
        if "scale" in given:
            message = "does not apply to sbtest, whose size is tables and table_size"
            yield document.problem(("workload", "scale"), message, "set table_size, the rows of each table")
        if space is not None and any((point.scale or 0) > MOST_ROWS for point in space.points):
            message = f"scale sets the rows of each sbtest table, at most {MOST_ROWS:,}"
            yield document.problem(("sweep", "scale"), message)
        return
    for name in ("tables", "table_size"):
        if name in given:
            message = f'goes only with dataset = "sbtest", and dataset is {workload.dataset}'
            yield document.problem(("workload", name), message, 'remove it, or set dataset = "sbtest"')
