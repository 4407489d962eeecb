"""Reads a plan and those that it extends, and checks everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from pgdyno.errors import PlanError, Problem, UsageError
from pgdyno.plan.checks import check_sections, read_sections
from pgdyno.plan.document import Document, in_order
from pgdyno.plan.extends import EXTENDS, read_with_bases
from pgdyno.plan.files import find_plan
from pgdyno.plan.model import Plan
from pgdyno.plan.one_form import moved_in_plan, one_form
from pgdyno.plan.other_targets import on_others
from pgdyno.plan.overrides import apply_overrides
from pgdyno.plan.problems import schema_problems


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A valid plan and its source."""

    plan: Plan
    source: str
    """The path or catalogue name that the user gave."""
    text: str
    """The plan's own file, without `--set` and without what it extends."""
    folder: Path
    """Script files are relative to it."""
    document: Document = field(default_factory=lambda: Document({}, {}), repr=False)
    """The merged content and its lines."""
    gave_up: tuple[str, ...] = ()
    """The reductions for a budget, as sentences."""


def load_plan(source: str | Path, overrides: Sequence[str] = (), on: str | None = None) -> LoadedPlan:
    """Loads the plan in the file `source` or in the catalogue, and applies `overrides` (`path=value`).

    `on` replaces the plan's targets. Overrides are applied last. Raises UsageError if the plan does not exist or an
    override is invalid, PlanError with all problems of the plan.
    """
    file = find_plan(str(source))
    read = read_with_bases(file)
    chosen = on_others(read.document, on)
    data, overridden = apply_overrides(chosen.data, overrides)
    if any(path[:1] == (EXTENDS,) for path in overridden):
        raise UsageError(
            "cannot apply --set extends: pgdyno reads extended plans before", hint=f"write {EXTENDS} into the file"
        )
    document = replace(chosen, data=one_form(data)[0], overridden=frozenset(moved_in_plan(path) for path in overridden))
    plan = _validate(file.source, file.folder, document, read.problems)
    return LoadedPlan(plan, file.source, read.text, file.folder, document)


def _validate(source: str, folder: Path, document: Document, known: Sequence[Problem]) -> Plan:
    problems = list(known)
    plan: Plan | None = None
    try:
        plan = Plan.model_validate(document.data)
    except ValidationError as error:
        problems += schema_problems(error, document)
    problems += check_sections(read_sections(document), document, folder)
    if plan is None or problems:
        raise PlanError(source, in_order(problems))
    return plan
