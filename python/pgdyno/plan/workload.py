"""The workload of a plan: how it names scripts, and phases in which its load changes.

The keys are those of the engine's file (docs/guides/phases.md), which pgdyno writes for each trial. This module checks
what needs no engine, and reports lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pgdyno.effect import BUILTIN_SCRIPTS, Effect, effect_of_scripts, running_scripts, total_effect, weighted_name
from pgdyno.errors import Problem
from pgdyno.plan.model import PhaseSpec, Plan, Workload
from pgdyno.plan.own_data.sql_dataset import read_contents
from pgdyno.plan.plan_document import Document
from pgdyno.plan.scenario.groups import group_workload
from pgdyno.records import Point
from pgdyno.units import parse_duration_s

HIGHEST_WEIGHT = 2**31 - 1
"""The limit of the engine and of pgbench."""


@dataclass(frozen=True, slots=True)
class ScriptChoice:
    """One entry of `workload.scripts`."""

    name: str
    """A built-in, or a file relative to the plan's folder."""
    weight: int

    @property
    def builtin(self) -> bool:
        """Whether it is one of the engine's scripts."""
        return self.name in BUILTIN_SCRIPTS


def parse_script(text: str) -> ScriptChoice:
    """Parse name and weight in `text`. Raises ValueError with the mistake."""
    name, weight = weighted_name(text)
    if not name.strip():
        raise ValueError(f"{text!r} does not name a script")
    if not weight.isascii() or not weight.isdigit():
        raise ValueError(f"the weight of {name} must be a whole number of 0 or more, not {weight!r}")
    if len(weight.lstrip("0")) > len(str(HIGHEST_WEIGHT)) or int(weight) > HIGHEST_WEIGHT:
        raise ValueError(f"the weight of {name} must be at most {HIGHEST_WEIGHT}")
    return ScriptChoice(name, int(weight))


def scripts_that_run(plan: Plan) -> set[str]:
    """Return the scripts that a trial of `plan` runs."""
    return running_scripts(plan.workload.scripts, [phase.mix for phase in plan.phase])


def effect_of_plan(plan: Plan, folder: Path) -> Effect:
    """Return whether the loads of `plan` on the primary, whose files are relative to `folder`, write."""
    beside = [group_workload(plan.workload, each) for each in plan.group if each.background and each.on != "standby"]
    loads = [(plan.workload, scripts_that_run(plan)), *((each, running_scripts(each.scripts, [])) for each in beside)]
    effects = (effect_of_scripts(names, partial(load.text_effect, folder=folder)) for load, names in loads)
    return total_effect(effects)


def script_files(plan: Plan) -> list[str]:
    """Return the files that `plan` names, each once; not those that are installed with sysbench."""
    lua = [name for name in [plan.workload.lua_script] if name is not None and name.endswith(".lua")]
    others = [name for each in plan.group for name in each.scripts or ()]
    lua += [each.workload["lua"] for each in plan.group if each.workload and ".lua" in each.workload.get("lua", "")]
    choices = map(parse_script, [*plan.workload.written_scripts, *others])
    steps = [step.sql for step in plan.step if step.sql is not None]
    return list(dict.fromkeys([*lua, *(choice.name for choice in choices if not choice.builtin), *steps]))


def data_files(plan: Plan, folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of the datasets of `plan`, by its path in `folder`. Raises SqlFileError."""
    data, found = plan.workload.own_data, dict[str, str]()
    if data is not None:
        for values in {tuple(data.values(point.variables).items()): None for point in plan.points()}:
            found |= read_contents(data, folder, dict(values)).files
    return found


Ramp = tuple[float, float]


def phases_s(plan: Plan) -> float | None:
    """Return the total seconds of a trial's phases, or None without phases."""
    return together_s(plan.phase)


def together_s(phases: Sequence[PhaseSpec]) -> float | None:
    """Return the total seconds of `phases`, or None without any."""
    return sum(parse_duration_s(phase.duration) for phase in phases) if phases else None


def trial_s(plan: Plan) -> float | None:
    """Return the seconds of a trial with its warm-up, or None if it ends after a number of transactions."""
    if plan.phase:
        return phases_s(plan)
    if plan.step:
        lengths = [step.duration for step in plan.step if step.groups]
        return None if None in lengths else sum(each or 0.0 for each in lengths)
    return None if plan.trial.duration is None else plan.trial.warmup + plan.trial.duration


def ends(value: float | Mapping[str, float]) -> Ramp:
    """Return the start and the end value of a rate or count."""
    return (value["from"], value["to"]) if isinstance(value, Mapping) else (value, value)


def check_phases(
    phases: Sequence[PhaseSpec], workload: Workload | None, points: Sequence[Point], document: Document
) -> Iterator[Problem]:
    """Yield problems of `phases` with the sweep's points and the workload, as far as these are valid."""
    yield from _names(phases, document)
    yield from _rates(phases, document)
    if document.at(("probe", "profile")) is True:
        yield document.problem(
            ("probe", "profile"), "a profile needs a load without phases", "remove it, or the phases"
        )
    if all(not phase.result for phase in phases):
        yield document.problem(("phase",), "has no phase with a result", "remove result = false from one phase")
    if points:
        yield from _clients(phases, points, document)
    if workload is not None:
        yield from _mixes(phases, workload, document)


def _names(phases: Sequence[PhaseSpec], document: Document) -> Iterator[Problem]:
    for place, phase in enumerate(phases):
        if any(phase.name == before.name for before in phases[:place]):
            message = f"{phase.name} is the name of two phases"
            yield document.problem(("phase", place, "name"), message, "give each phase its own name")


def _rates(phases: Sequence[PhaseSpec], document: Document) -> Iterator[Problem]:
    if all(phase.rate is None for phase in phases):
        return
    for place, phase in enumerate(phases):
        if phase.rate is None:
            hint = "give a rate to every phase (0 is a pause), or to none"
            yield document.problem(("phase", place), "has no rate, unlike other phases", hint)
    if all(phase.rate is not None and max(ends(phase.rate)) == 0 for phase in phases):
        yield document.problem(("phase",), "has no rate above 0", "give one phase a rate")


def _clients(phases: Sequence[PhaseSpec], points: Sequence[Point], document: Document) -> Iterator[Problem]:
    most, workers = min(point.planned_clients for point in points), max(point.workers or 1 for point in points)
    is_open = any(phase.rate is not None for phase in phases)
    for place, phase in enumerate(phases):
        if phase.clients is None:
            continue
        path = ("phase", place, "clients")
        if max(ends(phase.clients)) > most:
            message = f"{max(ends(phase.clients)):g} clients are more than the {most} of sweep.clients"
            yield document.problem(path, message, "start sweep.clients with that many")
        if is_open and min(ends(phase.clients)) < workers:
            message = f"{min(ends(phase.clients)):g} clients are fewer than the {workers} workers that share the rate"
            yield document.problem(path, message, f"use at least {workers}")


def _mixes(phases: Sequence[PhaseSpec], workload: Workload, document: Document) -> Iterator[Problem]:
    names = workload.transactions
    for place, phase in enumerate(phases):
        for name in phase.mix or {}:
            numbered = name.isascii() and name.isdigit() and 1 <= int(name) <= len(names)
            if name not in names and not numbered:
                message = "is not a script of this plan"
                yield document.problem(("phase", place, "mix", name), message, f"its scripts are {', '.join(names)}")
        if phase.mix is not None and not any(phase.mix.values()):
            yield document.problem(("phase", place, "mix"), "has no weight above 0", "give one script a weight")
