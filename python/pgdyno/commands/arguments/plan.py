"""`pgdyno plan`: one function per command."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    BudgetOption,
    Command,
    JsonOption,
    OnOption,
    PlanArgument,
    RunsOption,
    SetOption,
    group,
)

app = group("Write and check plans.")


@app.command(cls=Command)
def check(
    plan: PlanArgument,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise", help="Print the noise grade to expect, from the last run of the workload on this machine."
        ),
    ] = False,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Report all problems of a plan.

    Exits with 3 if there is a problem. Prints each one with its line.
    """
    from pgdyno.commands.plan import check as do

    raise typer.Exit(do(plan, overrides or [], budget=budget, on=on, runs=runs if noise else None, json=json))


@app.command(cls=Command)
def show(
    plan: PlanArgument,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """List a plan's trials and their duration."""
    from pgdyno.commands.plan import show as do

    do(plan, overrides or [], json=json, budget=budget, on=on)


@app.command(cls=Command)
def cost(plan: PlanArgument, overrides: SetOption = None, on: OnOption = None, json: JsonOption = False) -> None:
    """Estimate the cost of a plan's rented servers."""
    from pgdyno.commands.plan import cost as do

    do(plan, overrides or [], json=json, on=on)


@app.command("list", cls=Command)
def list_() -> None:
    """List the plans in the catalogue."""
    from pgdyno.commands.plan import list_catalogue

    list_catalogue()


@app.command(cls=Command)
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; an existing file is kept.")] = Path(
        "plan.toml"
    ),
    target: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of target: embedded (downloaded) or local (installed).")
    ] = "embedded",
) -> None:
    """Write a commented plan to start from."""
    from pgdyno.commands.plan import new as do

    do(file, target)


@app.command(cls=Command)
def schema() -> None:
    """Print the JSON Schema of plan files.

    Editors use it to complete keys and to mark mistakes.
    """
    from pgdyno.commands.plan import schema as do

    do()
