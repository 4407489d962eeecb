"""Builds the engine's command line and phases file for a trial, and lets the engine check scripts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdyno.errors import EngineError, PlanError, UsageError
from pgdyno.plan import LoadedPlan
from pgdyno.plan.model import PhaseSpec, Plan
from pgdyno.plan.plan_document import KeyPath
from pgdyno.plan.scenario.groups import GroupSpec, group_workload
from pgdyno.plan.scenario.loads import point_of_group
from pgdyno.plan.workload_schema import Statement, Workload
from pgdyno.programs import ENGINE, Engine, ask
from pgdyno.records import Point
from pgdyno.registry import WORKLOADS

ENDLESS_S = 30 * 24 * 3600
"""Longer than any trial."""


def check_scripts(engine: Engine, loaded: LoadedPlan, *, execute: bool = False) -> None:
    """Make the engine compile the scripts of the plan's loads.

    With `execute`, a Lua script's top level and init() also run, which declare its options and commands. Raises
    PlanError with the engine's message, which has file, line and column of the script.
    """
    plan = loaded.plan
    for place, group in enumerate(plan.group):
        own = group_workload(plan.workload, group)
        _check(engine, own.engine_options(), loaded, ("group", place), execute=execute)
    _check(engine, plan.workload.engine_options(), loaded, ("workload",), execute=execute)


def _check(engine: Engine, options: Sequence[str], loaded: LoadedPlan, section: KeyPath, *, execute: bool) -> None:
    if not options:
        # a replay has no scripts
        return
    command = [str(engine.path), "--check=execute" if execute else "--check", *options]
    done = ask(command, cwd=loaded.folder, limit_s=None, check=False)
    if done.returncode != 0:
        said = [line.removeprefix(f"{ENGINE}: error: ") for line in done.stderr.strip().splitlines()]
        start = f"{ENGINE}: hint: "
        hint = "\n".join(line.removeprefix(start) for line in said if line.startswith(start))
        message = "\n".join(line for line in said if not line.startswith(start))
        chosen = [key for kind in WORKLOADS.values() for key in kind.keys]
        path = (
            *section,
            next((key for key in chosen if loaded.document.value_at((*section, key)) is not None), "scripts"),
        )
        raise PlanError(loaded.source, [loaded.document.problem(path, message, hint or None)])


def planned_statements(engine: Engine, workload: Workload, seed: int, folder: Path) -> list[Statement]:
    """Return the statements of `workload` that have a plan; its files are in `folder`.

    Raises UsageError if they are not known before the load, EngineError.
    """
    options = workload.listing_options(seed)
    if options is None:
        (load,) = workload.scripts
        raise UsageError(f"pgdyno explains statements of SQL scripts, and the statements of {load} are not in one")
    command = [str(engine.path), *options]
    done = ask(command, cwd=folder, limit_s=None, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix(f"{ENGINE}: error: ")
        raise EngineError(f"cannot list the statements of the load: {said}")
    return workload.read_listing(done.stdout)


def _failure_options(plan: Plan, point: Point) -> list[str]:
    patience = plan.reconnect()
    options = ["--ledger"] if plan.trial.ledger else []
    if (point.connect or plan.workload.connect) == "each":
        options += ["--connect"] if patience != "off" else ["--connect", "--count-refusals"]
    if patience == "always":
        options.append("--reconnect")
    elif isinstance(patience, float):
        options.append(f"--reconnect={patience:g}s")
    return options


def trial_options(plan: Plan, point: Point, seed: int, phases: Path, workers: int | None = None) -> list[str]:
    """Return pgdrive's options for a trial of `plan` at `point`, without scripts.

    `phases` is the file with the plan's phases, if any; `workers` is the number of engine threads of an earlier trial,
    if the plan leaves it to the engine.
    """
    # the vacuum before a load is part of the plan's reset
    options = ["--events=-", "--parent-lease", "--no-vacuum", f"--client={point.clients}"]
    if plan.workload.sending_option:
        options += [plan.workload.sending_option.format(protocol=point.protocol)]
    options += [f"--random-seed={seed}", *_failure_options(plan, point)]
    if plan.trial.max_errors is not None:
        # errors are counted and end no client
        options += ["--continue-on-error"]
    workers = workers if point.workers is None else point.workers
    if workers is not None:
        options += [f"--jobs={workers}"]
    if plan.phase:
        options += [f"--phases={phases}"]
    elif plan.trial.duration is not None:
        options += [f"--time={plan.trial.duration:g}", f"--warmup={plan.trial.warmup:g}"]
    elif plan.trial.transactions is not None:
        options += [f"--transactions={plan.trial.transactions}"]
    if point.rate is not None:
        options += [f"--rate={point.rate!r}"]
        group = next((each for each in plan.group if each.name == point.group), None)
        options += ["--arrivals=regular"] if group is not None and group.arrivals == "regular" else []
    return [*options, *plan.workload.value_options(point)]


def background_options(plan: Plan, group: GroupSpec, point: Point, seed: int, folder: Path) -> list[str]:
    """Return pgdrive's options for the load of `group` in the background of a trial at `point`, which continues until
    it is stopped.

    Writes files for idle clients into `folder`.
    """
    if group.idle is not None:
        phases, script = folder / "idle.toml", folder / "idle.sql"
        # the only phase has no transaction
        phases.write_text(phases_toml([PhaseSpec(name="idle", duration=f"{ENDLESS_S}s", rate=0.0)]), encoding="utf-8")
        script.write_text("SELECT 1;\n", encoding="utf-8")
        options = ["--events=-", "--parent-lease", "--no-vacuum", f"--client={group.idle}"]
        return [*options, f"--phases={phases.absolute()}", f"--file={script.absolute()}"]
    # an error ends it, and so does the loss of a standby, which no event of the plan stops
    end = {"warmup": 0.0, "duration": ENDLESS_S, "transactions": None, "max_errors": None, "ledger": False}
    trial = plan.trial.model_copy(update=end | ({"reconnect": "off"} if group.on == "standby" else {}))
    workload = group_workload(plan.workload, group)
    endless = plan.model_copy(update={"trial": trial, "workload": workload, "phase": []})
    at = point_of_group(point, group).model_copy(update={"workers": None})
    return [*workload.engine_options(), *trial_options(endless, at, seed, Path())]


def phases_toml(phases: Sequence[PhaseSpec]) -> str:
    """Format `phases` as TOML, one table each, without unset keys."""
    tables = []
    for phase in phases:
        given = phase.model_dump(mode="json", exclude_none=True)
        tables.append("\n".join(["[[phase]]", *(f"{key} = {_value(value)}" for key, value in given.items())]))
    return "\n\n".join(tables) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    # JSON's strings, numbers and booleans are valid TOML
    return json.dumps(value)
