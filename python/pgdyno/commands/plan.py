"""`pgdyno plan check | show | list | new | schema`, and `--budget`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from pgdyno.console import Console
from pgdyno.errors import UsageError
from pgdyno.host import describe_host
from pgdyno.plan import BUILTIN_SCRIPTS, LoadedPlan, catalogue, load_plan
from pgdyno.plan.budget import Room, fit
from pgdyno.plan.executed import executed_lines
from pgdyno.plan.json_schema import schema_text
from pgdyno.plan.new import write_new_plan
from pgdyno.plan.show import show_json, show_lines, total, warning_lines
from pgdyno.programs import find_engine
from pgdyno.run.engine import check_scripts, workload_options
from pgdyno.units import parse_duration_s


def within_budget(loaded: LoadedPlan, budget: str | None) -> LoadedPlan:
    """Returns `loaded`, reduced until it fits; unchanged without a budget. Raises UsageError."""
    if budget is None:
        return loaded
    try:
        seconds = parse_duration_s(budget)
    except ValueError as error:
        raise UsageError(f"cannot use --budget {budget}: {error}") from error
    # imported here: without a budget, `plan check` needs no code of servers
    from pgdyno.targets import Home

    root = Home.locate().root
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    room = Room(seconds, describe_host().memory_bytes, shutil.disk_usage(there).free)
    fitted = fit(loaded.plan, room)
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up))


def check(source: str, overrides: Sequence[str], *, budget: str | None = None, on: str | None = None) -> None:
    """Reports that a plan is valid, warns if it may not answer its question, and lists the code that it runs.

    Runs nothing of the plan: a Lua script is only compiled. Raises PlanError with all problems.
    """
    loaded = within_budget(load_plan(source, overrides, on), budget)
    scripts = workload_options(loaded.plan.workload, BUILTIN_SCRIPTS)
    check_scripts(find_engine(), scripts, loaded.source, loaded.folder)
    console = Console()
    console.print(f"{loaded.source}: the plan is valid", soft_wrap=True)
    for line in (total(loaded.plan), *(f"to fit the budget: {each}" for each in loaded.gave_up)):
        console.print(line)
    for line in warning_lines(loaded):
        console.print(line, style="yellow", soft_wrap=True)
    for line in executed_lines(loaded):
        console.print(line, soft_wrap=True)


def show(
    source: str, overrides: Sequence[str], *, json: bool, budget: str | None = None, on: str | None = None
) -> None:
    """Prints the trials in order and the time that they take. Raises PlanError."""
    loaded = within_budget(load_plan(source, overrides, on), budget)
    if json:
        print(show_json(loaded))
    else:
        Console().print(show_lines(loaded))


def new(file: Path, kind: str) -> None:
    """Writes a plan to start from. Raises UsageError if the file exists."""
    write_new_plan(file, kind)
    console = Console()
    console.print(f"wrote {file}; edit it, then:", soft_wrap=True)
    console.print(f"  pgdyno plan show {file}\n  pgdyno run {file}", soft_wrap=True)


def schema() -> None:
    print(schema_text(), end="")


def list_catalogue() -> None:
    """Prints the plans in the catalogue."""
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    table.add_column("plan", no_wrap=True)
    table.add_column("what it measures")
    for entry in catalogue():
        table.add_row(entry.name, entry.description)
    Console().print(table)
