"""The sections of a plan that could be read, each by itself, so that all problems are reported together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from pgdyno.errors import Problem
from pgdyno.plan.kinds import GENERATOR_KINDS, TARGET_KINDS, workload_schema
from pgdyno.plan.model import EventSpec, PhaseSpec, Reset, SearchSpec, TrialSpec, Workload
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.scenario.groups import GroupSpec, fill_groups, has_trials, scenario_space
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.sweeps.spec import Sweep
from pgdyno.plan.targets import RentedHosts, TargetSpec
from pgdyno.records import Point

_M = TypeVar("_M")
_S = TypeVar("_S", bound=BaseModel)
_L = TypeVar("_L", PhaseSpec, EventSpec, GroupSpec, StepSpec)


@dataclass(frozen=True, slots=True)
class Sections:
    """The valid sections of a plan; None for the others, and empty for a list with an invalid element."""

    document: Document
    folder: Path
    """Files of the plan are relative to it."""
    targets: dict[str, TargetSpec]
    workload: Workload | None
    sweep: Sweep | None
    space: Space | None
    """The resolved sweep; None if part of it is invalid."""
    trial: TrialSpec | None
    phases: list[PhaseSpec]
    events: list[EventSpec]
    reset: Reset | None
    search: SearchSpec | None
    groups: list[GroupSpec]
    steps: list[StepSpec]
    generator: RentedHosts | None

    @property
    def points(self) -> list[Point]:
        """The points of the sweep; empty if part of it is invalid."""
        return self.space.points if self.space is not None else []

    def value_at(self, path: KeyPath) -> object:
        """Return what the plan has at `path`, or None."""
        return self.document.value_at(path)

    def problem(self, path: KeyPath, message: str, hint: str | None = None) -> Problem:
        return self.document.problem(path, message, hint)


def read_sections(document: Document, folder: Path) -> Sections:
    tables, filled = document.data.get("target"), fill_groups(document.data)
    # without its invalid settings, a target would be checked against defaults
    read = {
        name: _readable_of_kind(TARGET_KINDS, table, needed="settings")
        for name, table in (tables.items() if isinstance(tables, dict) else ())
    }
    groups, section = _readable_list(GroupSpec, filled.get("group")), filled.get("workload")
    workload = _read_table(workload_schema(section).model_validate, section)
    usual: dict[str, object] | None = {} if has_trials(filled.get("group")) else None
    sweep = _read_table(Sweep.model_validate, document.data.get("sweep", usual))
    space = None
    if sweep is not None and _is_valid(Sweep, document.data.get("sweep", {})):
        size, variables = (1, {}) if workload is None else (workload.size, workload.known_variables)
        space = scenario_space(groups, sweep, size, variables)
    return Sections(
        document,
        folder,
        {name: target for name, target in read.items() if target is not None},
        workload,
        sweep,
        space,
        _read_table(TrialSpec.model_validate, document.data.get("trial")),
        _readable_list(PhaseSpec, document.data.get("phase")),
        _readable_list(EventSpec, document.data.get("event")),
        _read_table(Reset.model_validate, document.data.get("reset", {})),
        _read_table(SearchSpec.model_validate, document.data.get("search")),
        groups,
        _readable_list(StepSpec, document.data.get("step")),
        _readable_of_kind(GENERATOR_KINDS, document.data.get("generator")),
    )


def _is_valid(model: type[BaseModel], table: object) -> bool:
    try:
        model.model_validate(table)
    except ValidationError:
        return False
    return True


def _readable_of_kind(kinds: Mapping[str, type[_S]], table: object, *, needed: str = "") -> _S | None:
    kind = table.get("kind") if isinstance(table, dict) else None
    model = kinds.get(kind) if isinstance(kind, str) else None
    return None if model is None else _read_table(model.model_validate, table, needed=needed)


def _readable_list(model: type[_L], tables: object) -> list[_L]:
    # a phase or an event without its invalid keys would mean something else
    try:
        return [model.model_validate(table) for table in tables] if isinstance(tables, list) else []
    except ValidationError:
        return []


def _read_table(validate: Callable[[object], _M], table: object, *, needed: str = "") -> _M | None:
    """Validate `table` without its wrong keys; None without a table, or if a wrong key is required."""
    if table is None:
        return None
    try:
        return validate(table)
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors() if each["loc"]}
    if not isinstance(table, dict) or not wrong or needed in wrong:
        return None
    try:
        return validate({key: value for key, value in table.items() if key not in wrong})
    except ValidationError:
        return None
