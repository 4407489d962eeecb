"""Checks that a schema cannot express: files, folders, and fields that depend on each other.

Checks each section that could be read, so that all problems are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from pgdyno.errors import Problem
from pgdyno.plan.checks.counting import check_counting
from pgdyno.plan.checks.duet_and_stopping import check_control, check_duet, check_stopping
from pgdyno.plan.checks.events import check_events, check_ledger, check_search, check_until
from pgdyno.plan.checks.groups import check_groups, check_steps, has_group_rate
from pgdyno.plan.checks.promises import check_promises
from pgdyno.plan.checks.reset import check_reset
from pgdyno.plan.checks.scripts import check_scripts
from pgdyno.plan.checks.searches import check_cheapest, check_settings_search
from pgdyno.plan.checks.sql_files import check_own_data
from pgdyno.plan.checks.sweep import check_sweep, check_variables
from pgdyno.plan.checks.targets import check_generators, check_instances, check_poolers, check_size, check_targets
from pgdyno.plan.kinds import GENERATOR_KINDS, TARGET_KINDS, workload_schema
from pgdyno.plan.model import EventSpec, PhaseSpec, Reset, SearchSpec, TrialSpec, Workload
from pgdyno.plan.plan_document import Document, near
from pgdyno.plan.reading.replayed_capture import check_captured
from pgdyno.plan.scenario.groups import GroupSpec, StepSpec, fill_groups, has_trials, scenario_space
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.sweeps.spec import Sweep
from pgdyno.plan.targets import RentedHosts, TargetSpec
from pgdyno.plan.workload import check_phases, together_s

_M = TypeVar("_M")
_S = TypeVar("_S", bound=BaseModel)
_L = TypeVar("_L", PhaseSpec, EventSpec, GroupSpec, StepSpec)
GENERATOR = "generator"


@dataclass(frozen=True, slots=True)
class Sections:
    """The valid sections of a plan; None for the others."""

    targets: dict[str, TargetSpec] = field(default_factory=dict)
    workload: Workload | None = None
    sweep: Sweep | None = None
    space: Space | None = None
    """The resolved sweep; None if part of it is invalid."""
    trial: TrialSpec | None = None
    phases: list[PhaseSpec] = field(default_factory=list)
    """Also empty if one of them is invalid."""
    events: list[EventSpec] = field(default_factory=list)
    """Also empty if one of them is invalid."""
    reset: Reset | None = None
    search: SearchSpec | None = None
    groups: list[GroupSpec] = field(default_factory=list)
    """Also empty if one of them is invalid."""
    steps: list[StepSpec] = field(default_factory=list)
    """Likewise."""
    generator: RentedHosts | None = None


def read_sections(document: Document) -> Sections:
    """Read each section of `document` separately."""
    tables = document.data.get("target")
    targets: dict[str, TargetSpec] = {}
    for name, table in tables.items() if isinstance(tables, dict) else ():
        # without its invalid settings, a target would be checked against defaults
        target = _readable_of_kind(TARGET_KINDS, table, needed="settings")
        if target is not None:
            targets[name] = target
    filled = fill_groups(document.data)
    groups, section = _readable_list(GroupSpec, filled.get("group")), filled.get("workload")
    workload = _read_table(workload_schema(section).model_validate, section)
    sweep = _read_table(
        Sweep.model_validate, document.data.get("sweep", {} if has_trials(filled.get("group")) else None)
    )
    return Sections(
        targets,
        workload,
        sweep,
        None if sweep is None else _space(sweep, workload, groups, document),
        _read_table(TrialSpec.model_validate, document.data.get("trial")),
        _readable_list(PhaseSpec, document.data.get("phase")),
        _readable_list(EventSpec, document.data.get("event")),
        _read_table(Reset.model_validate, document.data.get("reset", {})),
        _read_table(SearchSpec.model_validate, document.data.get("search")),
        groups,
        _readable_list(StepSpec, document.data.get("step")),
        _readable_of_kind(GENERATOR_KINDS, document.data.get(GENERATOR)),
    )


def _space(sweep: Sweep, workload: Workload | None, groups: Sequence[GroupSpec], document: Document) -> Space | None:
    try:
        Sweep.model_validate(document.data.get("sweep", {}))
    except ValidationError:
        return None
    return scenario_space(
        groups, sweep, 1 if workload is None else workload.size, workload.known_variables if workload else {}
    )


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
    """Validate `table` without its wrong keys; None if it needs them."""
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


def check_sections(sections: Sections, document: Document, folder: Path) -> Iterator[Problem]:
    """Yield all problems of `sections`; script files are relative to `folder`."""
    yield from check_targets(sections.targets, document)
    if sections.workload is not None:
        yield from _workload(sections.workload, sections.space, document, folder)
    yield from check_poolers(sections.targets, sections.workload, sections.space, document)
    if sections.sweep is not None:
        yield from check_sweep(sections.sweep, sections.space, sections.targets, document)
    if sections.trial is not None:
        yield from _trial(sections.trial, sections.workload, document)
        searches = sections.search is not None
        if sections.search is None or sections.search.find != "settings":
            yield from check_instances(sections.targets, sections.trial, document, searches=searches)
        yield from check_duet(sections.targets, sections.space, sections.trial, sections.reset, document)
        points = sections.space.points if sections.space is not None else []
        phases = [phase.rate is not None for phase in sections.phases if phase.result]
        has_rate = all(phases) if phases else not points or any(point.rate is not None for point in points)
        has_rate = has_rate or any(has_group_rate(group, sections.sweep, sections.steps) for group in sections.groups)
        promises = sections.trial.promise
        yield from check_promises(
            ("trial", "promise"), promises, sections.workload, sections.targets, document, has_rate=has_rate
        )
        yield from check_stopping(sections.trial, sections.targets, sections.sweep, points, document, searches=searches)
        yield from check_counting(sections.trial, sections.targets, sections.workload, points, document)
        yield from check_control(sections.trial, sections.targets, points, document, searches=searches)
    if sections.phases:
        points = sections.space.points if sections.space is not None else []
        yield from check_phases(sections.phases, sections.workload, points, document)
    yield from _count(sections, document)
    yield from _check_published(document)
    yield from _price(document)
    if sections.events:
        phases_s = together_s(sections.phases)
        measured_s = phases_s if phases_s is not None else getattr(sections.trial, "duration", None)
        points = sections.space.points if sections.space is not None else []
        yield from check_events(sections.events, sections.trial, measured_s, sections.targets, points, document, folder)
    if sections.trial is not None and sections.workload is not None:
        yield from check_ledger(sections.trial, sections.workload, document, folder)
        yield from check_until(sections.trial, document)
    yield from check_generators(document)
    yield from _rented_generators(sections, document)
    if sections.search is not None:
        points = sections.space.points if sections.space is not None else []
        yield from check_search(sections.search, sections.trial, sections.workload, points, document)
        yield from check_cheapest(sections.search, sections.targets, points, document)
        yield from check_settings_search(sections.search, sections.targets, sections.trial, points, document)
    yield from _scenario(sections, document, folder)
    if sections.reset is not None:
        dataset = sections.workload.dataset if sections.workload is not None else None
        yield from check_reset(sections.reset, dataset, sections.targets, document)


MOST_TRIALS = 100_000
"""More would take years, and are a typing error."""


def _count(sections: Sections, document: Document) -> Iterator[Problem]:
    if sections.space is None or sections.trial is None or sections.search is not None:
        return
    count = len(sections.targets) * len(sections.space.points) * sections.trial.most_repeats
    if count > MOST_TRIALS:
        message = f"the plan has {count:,} trials; the maximum is {MOST_TRIALS:,}"
        yield document.problem(("trial", "repeats"), message, "reduce repeats, or the sweep")


def _rented_generators(sections: Sections, document: Document) -> Iterator[Problem]:
    if sections.generator is not None:
        yield from sections.generator.check(sections.targets, document)


def _scenario(sections: Sections, document: Document, folder: Path) -> Iterator[Problem]:
    if sections.groups or document.data.get("step"):
        ends = [step.duration for step in sections.steps] or [getattr(sections.trial, "duration", None)]
        lengths_s = [each for each in ends if each is not None]
        yield from check_groups(sections.groups, sections.workload, sections.targets, lengths_s, document, folder)
        for place, group in enumerate(sections.groups):
            path, has_rate = ("group", place, "promise"), has_group_rate(group, sections.sweep, sections.steps)
            yield from check_promises(
                path, group.promise, sections.workload, sections.targets, document, has_rate=has_rate
            )
        variables = sections.workload.known_variables if sections.workload is not None else {}
        swept = sections.space.points[0].variables if sections.space is not None and sections.space.points else {}
        yield from check_steps(sections.steps, sections.groups, variables | swept, document, folder)


def _price(document: Document) -> Iterator[Problem]:
    priced, targets = document.at(("price", "target")), document.at(("target",))
    if not isinstance(priced, dict) or not isinstance(targets, dict):
        return
    for name in priced.keys() - targets.keys():
        meant = near(name, list(targets))
        hint = f"did you mean {meant}?" if meant else f"available: {', '.join(targets)}"
        yield document.problem(("price", "target", name), f"target {name} does not exist", hint)


def _check_published(document: Document) -> Iterator[Problem]:
    data = document.at(("published", "data"))
    if not isinstance(data, str):
        return
    # imported here: few plans name any
    from pgdyno.published import published_names

    names = published_names()
    if data not in names:
        meant = near(data, names)
        hint = f"did you mean {meant}?" if meant else f"available: {', '.join(names)}"
        yield document.problem(("published", "data"), f"published figures {data} do not exist", hint)


# ---- workload ----


def _workload(workload: Workload, space: Space | None, document: Document, folder: Path) -> Iterator[Problem]:
    yield from check_variables(("workload", "variables"), workload.variables, document)
    yield from check_size(workload, space, document)
    yield from check_own_data(workload, space, document, folder)
    yield from check_captured(document, folder)
    yield from workload.check(document)
    own = document.at(("workload", "scripts"))
    scripts = (
        own if isinstance(own, list) else [] if has_trials(document.data.get("group")) else workload.written_scripts
    )
    if workload.written_scripts:
        yield from check_scripts(("workload",), scripts, workload.dataset_name, document, folder)


# ---- trial ----


def _trial(trial: TrialSpec, workload: Workload | None, document: Document) -> Iterator[Problem]:
    for parts in ("phase", "step"):
        if not document.data.get(parts):
            continue
        for name in ("duration", "transactions", "warmup"):
            if getattr(trial, name):
                first = f"put a {parts} with result = false first"
                hint = f"remove it; {first if name == 'warmup' else f'the {parts}s determine the length of a trial'}"
                yield document.problem(("trial", name), f"cannot be combined with {parts}s", hint)
        return
    ends = workload is not None and workload.own_end is not None
    if trial.duration is None and trial.transactions is None and not ends and not _wrong_limit(document):
        yield document.problem(("trial",), "give either duration or transactions")
    if trial.transactions is not None and trial.warmup > 0:
        yield document.problem(("trial", "warmup"), "needs duration, not transactions")


def _wrong_limit(document: Document) -> bool:
    table = document.at(("trial",))
    names = set(table) if isinstance(table, dict) else set()
    return not names.isdisjoint({"duration", "transactions"}) or not names <= TrialSpec.model_fields.keys()
