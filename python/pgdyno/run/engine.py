"""Builds the engine's command line and phases file for a trial, and lets the engine check scripts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EngineError, PlanError
from pgdyno.plan import LoadedPlan
from pgdyno.plan.model import PhaseSpec, Plan, Workload
from pgdyno.programs import ENGINE, Engine
from pgdyno.records import Point

ENDLESS_S = 30 * 24 * 3600
"""Longer than any trial."""


def script_options(scripts: Sequence[str], builtin: Sequence[str]) -> list[str]:
    """Returns `-b` and `-f` for the plan's scripts, with paths relative to the plan's folder, where the engine runs."""
    options: list[str] = []
    for script in scripts:
        name, at, weight = script.rpartition("@")
        name = name if at else script
        suffix = f"@{weight}" if at else ""
        if name in builtin:
            options += ["-b", name + suffix]
        else:
            options += ["-f", name + suffix]
    return options


def workload_options(workload: Workload, builtin: Sequence[str]) -> list[str]:
    """Returns options for the plan's scripts, for a workload of the engine, or for a Lua script with its options."""
    if workload.is_tpcc:
        return ["--workload=tpcc", f"--tpcc-profile={workload.profile}", f"--tpcc-variant={workload.variant}"]
    if workload.is_tpch:
        return ["--workload=tpch"]
    if not workload.is_lua:
        return script_options(workload.written_scripts, builtin)
    what = f"--lua={workload.lua}" if workload.lua is not None else f"--workload={workload.name}"
    return [what, *lua_options(workload.options)]


def lua_options(values: Mapping[str, object]) -> list[str]:
    """Returns `--lua-opt` options with sysbench's booleans."""
    words = {True: "on", False: "off"}
    return [f"--lua-opt={name}={words[value] if isinstance(value, bool) else value}" for name, value in values.items()]


def check_scripts(
    engine: Engine,
    options: Sequence[str],
    loaded: LoadedPlan,
    section: str = "workload",
    *,
    execute: bool = False,
) -> None:
    """Makes the engine compile the scripts of `options`, which are those of a section of the plan.

    With `execute`, a Lua script's top level and init() also run, which declare its options and commands. Raises
    PlanError with the engine's message, which has file, line and column of the script.
    """
    if not options:
        # a replay has no scripts
        return
    command = [str(engine.path), "--check=execute" if execute else "--check", *options]
    done = subprocess.run(
        command, cwd=loaded.folder, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode != 0:
        said = [line.removeprefix(f"{ENGINE}: error: ") for line in done.stderr.strip().splitlines()]
        start = f"{ENGINE}: hint: "
        hint = "\n".join(line.removeprefix(start) for line in said if line.startswith(start))
        message = "\n".join(line for line in said if not line.startswith(start))
        keys = [key for key in ("name", "lua") if loaded.document.at((section, key)) is not None]
        path = (section, *(keys or ["scripts"]))
        raise PlanError(loaded.source, [loaded.document.problem(path, message, hint or None)])


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """A statement of a script."""

    script: int
    """Number of the script, as in events."""
    id: int
    """Number of its command in the script, as in events."""
    text: str
    """With `$1`, `$2`, … for variables, without its semicolon."""


def script_statements(engine: Engine, options: Sequence[str], folder: Path) -> list[ScriptStatement]:
    """Returns the statements of the scripts of `options`, relative to `folder`. Raises EngineError."""
    lines = map(json.loads, _printed(engine, ["--check=statements", *options], folder).splitlines())
    return [ScriptStatement(line["script"], line["id"], line["text"].rstrip("; \n")) for line in lines]


_TPCH_QUERY = re.compile(r"^(-- Q(\d+)\n.*?);$", re.MULTILINE | re.DOTALL)


def tpch_power_queries(engine: Engine, scale_factor: float, seed: int, folder: Path) -> list[ScriptStatement]:
    """Returns the queries of tpch's power run in their order; each begins with a comment with its number.

    Raises EngineError.
    """
    options = ["--tpch-queries=0", f"--scale-factor={scale_factor:g}", f"--random-seed={seed}"]
    found = _TPCH_QUERY.findall(_printed(engine, options, folder))
    return [ScriptStatement(0, int(number) - 1, text) for text, number in found]


def _printed(engine: Engine, options: Sequence[str], folder: Path) -> str:
    command = [str(engine.path), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix(f"{ENGINE}: error: ")
        raise EngineError(f"cannot list the statements of the load: {said}")
    return done.stdout


def _failure_options(plan: Plan) -> list[str]:
    patience = plan.reconnect()
    options = ["--ledger"] if plan.trial.ledger else []
    if patience == "always":
        options.append("--reconnect")
    elif isinstance(patience, float):
        options.append(f"--reconnect={patience:g}s")
    return options


def _values(workload: Workload, point: Point, *, lua: bool) -> list[str]:
    sizes: dict[str, object] = {"tables": workload.tables, "table_size": point.scale}
    size_variables = sizes if workload.dataset == "sbtest" else {}
    if lua:
        return lua_options(size_variables | point.variables)
    # the plan's own variables override the sizes
    variables = [*size_variables.items(), *(workload.variables | point.variables).items()]
    return [f"--define={name}={value}" for name, value in variables]


def trial_options(plan: Plan, point: Point, seed: int, phases: Path, workers: int | None = None) -> list[str]:
    """Returns pgdrive's options for a trial of `plan` at `point`, without scripts.

    `phases` is the file with the plan's phases, if any; `workers` is the number of engine threads of an earlier trial,
    if the plan leaves it to the engine.
    """
    # the vacuum before a load is part of the plan's reset
    options = [
        "--events=-",
        "--parent-lease",
        "--no-vacuum",
        f"--client={point.clients}",
    ]
    if plan.workload.is_lua:
        options += ["--report-per-command"]
    elif not (plan.workload.is_tpcc or plan.workload.is_tpch):
        # those send their statements in their own way
        options += [f"--protocol={point.protocol}"]
    options += [f"--random-seed={seed}", *_failure_options(plan)]
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
    options += _values(plan.workload, point, lua=plan.workload.is_lua)
    return [*options, *_scale(plan, point, lua=plan.workload.is_lua)]


def replay_options(
    plan: Plan, file: Path, seed: int, workers: int | None = None, limit_s: float | None = None
) -> list[str]:
    """Returns pgdrive's options for a trial that replays `file`, to its end or for `limit_s` seconds.

    The file has the number of clients, the protocol and the time of each statement.
    """
    options = ["--events=-", "--parent-lease", f"--replay={file}", f"--pace={plan.workload.pace_words}"]
    options += [f"--random-seed={seed}"]
    if workers is not None:
        options += [f"--jobs={workers}"]
    if limit_s is not None:
        options += [f"--time={limit_s:g}"]
    return options


def replica_options(plan: Plan, point: Point, seed: int, clients: int, rate: float | None) -> list[str]:
    """Returns pgdrive's options for `clients` of the plan's `replica_load` at one standby, without scripts.

    The load continues until it is stopped.
    """
    assert plan.replica_load is not None
    options = ["--events=-", "--parent-lease", "--no-vacuum", f"--time={ENDLESS_S}", f"--client={clients}"]
    options += [f"--protocol={plan.replica_load.protocol}", f"--random-seed={seed}"]
    if rate is not None:
        options += [f"--rate={rate!r}"]
    return [*options, *_values(plan.workload, point, lua=False), *_scale(plan, point, lua=False)]


def _scale(plan: Plan, point: Point, *, lua: bool) -> list[str]:
    wanted = plan.workload.dataset == "none" and not lua and point.scale is not None
    return [f"--scale={point.scale}"] if wanted else []


def phases_toml(phases: Sequence[PhaseSpec]) -> str:
    """Formats `phases` as TOML, one table each, without unset keys."""
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
