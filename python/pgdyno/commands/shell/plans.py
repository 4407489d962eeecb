"""`pgdyno plan`: arguments in, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.shell.help import Command, group
from pgdyno.commands.shell.options import BudgetOption, JsonOption, OnOption, PlanArgument, SetOption

app = group("Write plans, and check them.")


@app.command(cls=Command)
def check(plan: PlanArgument, overrides: SetOption = None, on: OnOption = None, budget: BudgetOption = None) -> None:
    """Say everything that is wrong with a plan.

    Each problem has its line; exits with 3 if there is one.
    """
    from pgdyno.commands.plan import check as do

    do(plan, overrides or [], budget=budget, on=on)


@app.command(cls=Command)
def show(
    plan: PlanArgument,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """List a plan's trials, and the time they need."""
    from pgdyno.commands.plan import show as do

    do(plan, overrides or [], json=json, budget=budget, on=on)


@app.command(cls=Command)
def cost(plan: PlanArgument, overrides: SetOption = None, on: OnOption = None, json: JsonOption = False) -> None:
    """Say what a plan's rented servers cost."""
    from pgdyno.commands.cost import cost as do

    do(plan, overrides or [], json=json, on=on)


@app.command("list", cls=Command)
def list_() -> None:
    """List the plans that pgdyno brings."""
    from pgdyno.commands.plan import list_catalogue

    list_catalogue()


@app.command(cls=Command)
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes; what is there stays.")] = Path(
        "plan.toml"
    ),
    target: Annotated[
        str, typer.Option(metavar="KIND", help="What it measures: embedded (fetched) or local (installed here).")
    ] = "embedded",
) -> None:
    """Write a plan with comments, to begin with."""
    from pgdyno.commands.plan import new as do

    do(file, target)


@app.command(cls=Command)
def schema() -> None:
    """Print the JSON Schema of plan files.

    For editors, which then complete keys and mark mistakes.
    """
    from pgdyno.commands.plan import schema as do

    do()
