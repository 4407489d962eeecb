"""Reads a plan, with those that it extends, and checks all of it."""

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
    """A plan that can be run, and where it is from."""

    plan: Plan
    source: str
    """As it was asked for: a path, or a name of the catalogue."""
    text: str
    """The file as it stands; neither `--set` nor what it extends is in it."""
    folder: Path
    """Where its script files are found from."""
    document: Document = field(default_factory=lambda: Document({}, {}), repr=False)
    """What the file holds, and in which lines, with all that it extends."""
    gave_up: tuple[str, ...] = ()
    """What a budget took from it, a sentence each."""


def load_plan(source: str | Path, overrides: Sequence[str] = (), on: str | None = None) -> LoadedPlan:
    """The plan in the file `source`, or of that name in the catalogue, with `overrides` (`path=value`) applied.

    `on` names other targets, in place of the plan's. Overrides come last, behind them and what the plan extends.
    Raises UsageError when there is no such plan or an override makes no sense, PlanError with every problem of the
    plan otherwise.
    """
    file = find_plan(str(source))
    read = read_with_bases(file)
    chosen = on_others(read.document, on)
    data, overridden = apply_overrides(chosen.data, overrides)
    if any(path[:1] == (EXTENDS,) for path in overridden):
        raise UsageError("cannot apply --set extends: it is read before", hint=f"write {EXTENDS} into the file")
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
