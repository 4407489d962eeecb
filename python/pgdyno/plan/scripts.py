"""Scripts in a plan: a built-in or a file, followed by `@weight` if that is not 1."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.plan.model import BUILTIN_SCRIPTS, Plan

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
    """Parses name and weight in `text`. Raises ValueError with the mistake."""
    name, at, weight = text.rpartition("@")
    if not at:
        name, weight = text, "1"
    if not name.strip():
        raise ValueError(f"{text!r} names no script")
    if not weight.isascii() or not weight.isdigit() or int(weight) > HIGHEST_WEIGHT:
        raise ValueError(f"the weight of {name} must be a whole number from 0 on, not {weight!r}")
    return ScriptChoice(name, int(weight))


def scripts_that_run(plan: Plan) -> set[str]:
    """Returns the scripts that a trial of `plan` may run: those with a weight, in the workload or in a phase."""
    names = {choice.name for choice in map(parse_script, plan.workload.scripts) if choice.weight > 0}
    for phase in plan.phase:
        names |= {name for name, weight in (phase.mix or {}).items() if weight > 0}
    return names


def script_files(plan: Plan) -> list[str]:
    """Returns the files that `plan` names, each once; not those that are installed with sysbench."""
    lua = [plan.workload.lua] if plan.workload.lua is not None and plan.workload.lua.endswith(".lua") else []
    scripts = [] if plan.workload.is_lua or plan.workload.is_tpcc else plan.workload.scripts
    on_replicas = plan.replica_load.scripts if plan.replica_load is not None else []
    choices = map(parse_script, [*scripts, *on_replicas])
    return list(dict.fromkeys([*lua, *(choice.name for choice in choices if not choice.builtin)]))
