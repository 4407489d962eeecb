"""`pgdyno plan check | show | cost | list | new | schema`."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, PlanError, Problem

if TYPE_CHECKING:
    from pgdyno.plan import LoadedPlan

app = options.group("Write and check plans.")


@app.command(cls=options.Command)
def check(
    plan: options.Plan,
    overrides: options.Set = None,
    on: options.On = None,
    budget: options.Budget = None,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise", help="Print the noise grade to expect, from the last run of the workload on this machine."
        ),
    ] = False,
    runs: options.Runs = options.DEFAULT_RUNS,
    json: options.Json = False,
) -> ExitCode:
    """Report all problems of a plan.

    Exits with 3 if there is a problem. Prints each one with its line.
    """
    from pgdyno.commands.support.plan_budget import within_budget
    from pgdyno.plan import load_plan
    from pgdyno.programs import find_engine
    from pgdyno.run.engine import check_scripts
    from pgdyno.safe_output import print_json, print_lines

    try:
        loaded = within_budget(load_plan(plan, overrides or (), on), budget)
        # a Lua script is only compiled
        check_scripts(find_engine(), loaded)
    except PlanError as error:
        if not json:
            raise
        print_json(_check_json(error.source, error.problems), indent=2)
        return error.exit_code
    # the number of trials of a search depends on results
    graded = noise and loaded.plan.search is None
    if json:
        print_json(_check_json(loaded.source, (), loaded, runs if graded else None), indent=2)
        return ExitCode.OK
    print_lines(lambda room: _check_lines(loaded, runs if graded else None, room))
    return ExitCode.OK


def _check_lines(loaded: "LoadedPlan", runs: Path | None, room: int) -> Iterator[tuple[str, str | None]]:
    from pgdyno.plan.output.executed_code import executed_lines
    from pgdyno.plan.output.plan_output import total, warning_lines

    yield f"{loaded.source}: the plan is valid", None
    for line in (total(loaded.plan), *(f"to fit the budget: {each}" for each in loaded.gave_up)):
        yield line, None
    if runs is not None:
        # reads runs with numpy and DuckDB
        from pgdyno.commands.support.expected_noise import expected_noise, expected_noise_line
        from pgdyno.report.terminal.text_drawing import wrap_text

        for line in wrap_text(expected_noise_line(loaded.plan, runs, expected_noise(loaded.plan, runs)), room):
            yield line, None
    for line in warning_lines(loaded, room):
        yield line, "yellow"
    for line in executed_lines(loaded):
        yield line, None


def _check_json(
    source: str, problems: Sequence[Problem], loaded: "LoadedPlan | None" = None, runs: Path | None = None
) -> dict[str, Any]:
    from pgdyno.messages import messages_json
    from pgdyno.plan.output.executed_code import list_executed_code

    noise = None
    if loaded is not None and runs is not None:
        from pgdyno.commands.support.expected_noise import expected_noise, expected_noise_json

        noise = expected_noise_json(expected_noise(loaded.plan, runs))
    return {
        "source": source,
        "valid": loaded is not None,
        "problems": [each._asdict() for each in problems],
        "warnings": [] if loaded is None else [each._asdict() for each in loaded.warnings],
        "executes": [] if loaded is None else [each._asdict() for each in list_executed_code(loaded)],
        **messages_json("gave_up", () if loaded is None else loaded.gave_up),
        "expected_noise": noise,
    }


@app.command(cls=options.Command)
def show(
    plan: options.Plan,
    overrides: options.Set = None,
    on: options.On = None,
    budget: options.Budget = None,
    json: options.Json = False,
) -> None:
    """List a plan's trials and their duration."""
    from pgdyno.commands.support.plan_budget import within_budget
    from pgdyno.console import Console
    from pgdyno.plan import load_plan
    from pgdyno.plan.output.show_plan import show_json, show_lines
    from pgdyno.safe_output import print_data

    loaded = within_budget(load_plan(plan, overrides or (), on), budget)
    if json:
        print_data(f"{show_json(loaded)}\n")
        return
    console = Console()
    with console.page_output():
        for part in show_lines(loaded, console.room).renderables:
            console.print(part)


@app.command(cls=options.Command)
def cost(plan: options.Plan, overrides: options.Set = None, on: options.On = None, json: options.Json = False) -> None:
    """Estimate the cost of a plan's rented servers."""
    from pgdyno.commands.support.rental_cost import print_cost
    from pgdyno.plan import load_plan

    print_cost(load_plan(plan, overrides or (), on).plan, json=json)


@app.command("list", cls=options.Command)
def list_() -> None:
    """List the plans in the catalogue."""
    from rich.table import Table

    from pgdyno.console import Console
    from pgdyno.plan import catalogue

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    table.add_column("plan", no_wrap=True)
    table.add_column("what it measures")
    for entry in catalogue():
        table.add_row(entry.name, entry.description)
    Console().print_table(table)


@app.command(cls=options.Command)
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; an existing file is kept.")] = Path(
        "plan.toml"
    ),
    target: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of target: embedded (downloaded) or local (installed).")
    ] = "embedded",
    scenario: Annotated[bool, typer.Option("--scenario", help="A plan with groups of clients.")] = False,
) -> None:
    """Write a commented plan to start from."""
    from pgdyno.console import Console
    from pgdyno.plan.output.new import write_new_plan

    write_new_plan(file, target, "scenario.toml" if scenario else "new.toml")
    console = Console()
    console.print(f"wrote {file}; edit it, then:", soft_wrap=True)
    quoted = shlex.quote(str(file))
    console.print(f"  pgdyno plan show {quoted}\n  pgdyno run {quoted}", soft_wrap=True)


@app.command(cls=options.Command)
def schema() -> None:
    """Print the JSON Schema of plan files.

    Editors use it to complete keys and to mark mistakes.
    """
    from pgdyno.plan.output.json_schema import schema_text
    from pgdyno.safe_output import print_data

    print_data(schema_text())
