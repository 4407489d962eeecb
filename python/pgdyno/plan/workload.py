"""The workload of a plan: how it names scripts, what these do, and how long its load lasts."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pgdyno.effect import BUILTIN_SCRIPTS, Effect, effect_of_scripts, running_scripts, total_effect, weighted_name
from pgdyno.plan.model import PhaseSpec, Plan
from pgdyno.plan.own_data.sql_dataset import read_contents
from pgdyno.plan.scenario.groups import group_workload
from pgdyno.units import parse_duration_s

HIGHEST_WEIGHT = 2**31 - 1
"""The limit of the engine and of pgbench."""


class ScriptChoice(NamedTuple):
    name: str
    """A built-in, or a file relative to the plan's folder."""
    weight: int

    @property
    def builtin(self) -> bool:
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
