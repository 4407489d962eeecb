"""`pgdyno doctor`: its arguments and options."""

from typing import Annotated

import typer

from pgdyno.commands.arguments.options import (
    BudgetOption,
    JsonOption,
    OnOption,
    SetOption,
)


def doctor(
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="Plan to check this machine for.")] = None,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Check this machine before a run.

    Prints each check with its verdict and the remedy. Exits with 9 if a check would stop a run. Changes nothing: syncs
    a temporary file where data will be stored and generates load for some seconds.
    """
    from pgdyno.commands.doctor import doctor as look

    raise typer.Exit(look(plan, overrides or [], budget, json=json, on=on))
