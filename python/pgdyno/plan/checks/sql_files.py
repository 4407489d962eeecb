"""Checks the SQL files of a plan's dataset before a server starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import Problem
from pgdyno.plan.checks.sweep import check_variables
from pgdyno.plan.own_data.psql_reader import SqlFileError
from pgdyno.plan.own_data.sql_dataset import read_contents
from pgdyno.plan.plan_document import Document
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.workload_schema import Workload

DATASET = ("workload", "dataset")


def check_own_data(workload: Workload, space: Space | None, document: Document, folder: Path) -> Iterator[Problem]:
    """Yield mistakes in the files, variables that no file uses, and sizes, which such a dataset does not have."""
    dataset = workload.own_data
    if dataset is None:
        return
    yield from check_variables((*DATASET, "variables"), dataset.variables, document)
    for path in (("workload", "scale"), ("sweep", "scale")):
        if document.at(path) is not None:
            message = f"does not apply to {dataset.name}, which SQL files make"
            yield document.problem(path, message, "use a variable in dataset.variables")
    swept = [point.variables for point in space.points] if space is not None else []
    used: set[str] = set()
    for values in {tuple(dataset.values(each).items()): None for each in swept or [{}]}:
        try:
            used |= read_contents(dataset, folder, dict(values)).used
        except SqlFileError as error:
            yield document.problem((*DATASET, "sql"), str(error), error.hint)
            return
    for name in dataset.variables.keys() - used:
        message = "no file of the dataset uses it"
        hint = "remove it; variables of the scripts belong in workload.variables"
        yield document.problem((*DATASET, "variables", name), message, hint)
