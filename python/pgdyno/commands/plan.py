"""`pgdyno plan check | show | cost | list | new | schema`, and `--budget`.

Plans are checked most often: what only the others need is imported in their functions.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pgdyno.console import Console
from pgdyno.errors import ExitCode, PlanError, Problem, UsageError
from pgdyno.messages import message_json
from pgdyno.mounts import exists
from pgdyno.plan import BUILTIN_SCRIPTS, LoadedPlan, catalogue, load_plan
from pgdyno.plan.output.executed_code import executed, executed_lines
from pgdyno.plan.output.plan_output import total, warning_lines
from pgdyno.plan.values import lasting
from pgdyno.programs import find_engine
from pgdyno.run.engine import check_scripts, workload_options
from pgdyno.safe_output import print_data, print_json
from pgdyno.units import parse_duration_s


def within_budget(loaded: LoadedPlan, budget: str | None) -> LoadedPlan:
    """Returns `loaded`, reduced until it fits; unchanged without a budget. Raises UsageError."""
    if budget is None:
        return loaded
    try:
        seconds = parse_duration_s(lasting(budget))
    except ValueError as error:
        raise UsageError(f"cannot use --budget {budget}: {error}") from error
    search = loaded.plan.search
    if search is not None and search.find == "settings":
        # it decides by the time that its trials have taken, also when it is resumed
        update = {"search": search.model_copy(update={"budget": budget})}
        return replace(loaded, plan=loaded.plan.model_copy(update=update))
    # imported here: without a budget, `plan check` needs no code of servers
    from pgdyno.doctor.memory import usable_bytes
    from pgdyno.plan.time_budget.budget import Budget, Room
    from pgdyno.plan.time_budget.time_and_disk import load_rate
    from pgdyno.targets import Home

    root = Home.locate().root
    there = next(folder for folder in (root, *root.parents) if exists(folder))
    kinds = {spec.kind for spec in loaded.plan.target.values()}
    rate = load_rate(root, kinds, loaded.plan.workload.dataset)
    room = Room(seconds, usable_bytes(), shutil.disk_usage(there).free, rate)
    whole = Budget(loaded.plan, room)
    fitted = whole.fit()
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up), budget=whole)


def check(
    source: str,
    overrides: Sequence[str],
    *,
    budget: str | None = None,
    on: str | None = None,
    runs: Path | None = None,
    json: bool = False,
) -> ExitCode:
    """Reports that a plan is valid, warns if it may not answer its question, and lists the code that it runs.

    With the folder `runs`, prints the noise grade to expect, from the last such run in it.

    Runs nothing of the plan: a Lua script is only compiled. Raises PlanError with all problems; with `json`, prints
    them as JSON and returns the exit code.
    """
    try:
        loaded = within_budget(load_plan(source, overrides, on), budget)
        scripts = workload_options(loaded.plan.workload, BUILTIN_SCRIPTS)
        check_scripts(find_engine(), scripts, loaded)
    except PlanError as error:
        if not json:
            raise
        _print_check(error.source, error.problems)
        return error.exit_code
    if json:
        _print_check(loaded.source, [], loaded, runs)
        return ExitCode.OK
    console = Console()
    console.print(f"{loaded.source}: the plan is valid", soft_wrap=True)
    for line in (total(loaded.plan), *(f"to fit the budget: {each}" for each in loaded.gave_up)):
        console.print(line)
    if runs is not None and loaded.plan.search is None:
        # reads runs with numpy and DuckDB
        from pgdyno.commands.support.expected_noise import expected_noise, expected_noise_line
        from pgdyno.report.terminal.text_drawing import wrapped

        for line in wrapped(expected_noise_line(loaded.plan, runs, expected_noise(loaded.plan, runs)), console.room):
            console.print(line, soft_wrap=True)
    for line in warning_lines(loaded, console.room):
        console.print(line, style="yellow", soft_wrap=True)
    for line in executed_lines(loaded):
        console.print(line, soft_wrap=True)
    return ExitCode.OK


def _noise_json(loaded: LoadedPlan | None, runs: Path | None) -> dict[str, Any] | None:
    """Returns the grade to expect; None for a search, whose number of trials depends on results."""
    if loaded is None or runs is None or loaded.plan.search is not None:
        return None
    from pgdyno.commands.support.expected_noise import expected_noise, expected_noise_json

    return expected_noise_json(expected_noise(loaded.plan, runs))


def _print_check(
    source: str, problems: Sequence[Problem], loaded: LoadedPlan | None = None, runs: Path | None = None
) -> None:
    found = {
        "source": source,
        "valid": loaded is not None,
        "problems": [asdict(each) for each in problems],
        "warnings": [] if loaded is None else [asdict(each) for each in loaded.warnings],
        "executes": [] if loaded is None else [asdict(each) for each in executed(loaded)],
        "gave_up": [] if loaded is None else [str(each) for each in loaded.gave_up],
        "gave_up_details": [] if loaded is None else [message_json(each) for each in loaded.gave_up],
        "expected_noise": _noise_json(loaded, runs),
    }
    print_json(found, indent=2)


def show(
    source: str, overrides: Sequence[str], *, json: bool, budget: str | None = None, on: str | None = None
) -> None:
    """Prints the trials in order and the time that they take. Raises PlanError."""
    from pgdyno.plan.output.show_plan import show_json, show_lines

    loaded = within_budget(load_plan(source, overrides, on), budget)
    if json:
        print_data(f"{show_json(loaded)}\n")
    else:
        console = Console()
        with console.paged():
            for part in show_lines(loaded, console.room).renderables:
                console.print(part)


def cost(source: str, overrides: Sequence[str], *, json: bool, on: str | None = None) -> None:
    """Prints the cost of a plan's rented servers. Raises PgdynoError."""
    # imported here: `plan check` needs no code of servers
    from pgdyno.commands.support.rental_cost import print_cost

    print_cost(load_plan(source, overrides, on).plan, json=json)


def new(file: Path, kind: str) -> None:
    """Writes a plan to start from. Raises UsageError if the file exists."""
    from pgdyno.plan.output.new import write_new_plan

    write_new_plan(file, kind)
    console = Console()
    console.print(f"wrote {file}; edit it, then:", soft_wrap=True)
    quoted = shlex.quote(str(file))
    console.print(f"  pgdyno plan show {quoted}\n  pgdyno run {quoted}", soft_wrap=True)


def schema() -> None:
    from pgdyno.plan.output.json_schema import schema_text

    print_data(schema_text())


def list_catalogue() -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    table.add_column("plan", no_wrap=True)
    table.add_column("what it measures")
    for entry in catalogue():
        table.add_row(entry.name, entry.description)
    Console().print_table(table)
