"""`pgdyno impact`."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode


def impact(
    do: Annotated[
        str,
        typer.Option("--do", metavar="SQL", help="The operation: SQL, a file that ends with .sql, backup or vacuum."),
    ],
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="SQL", help="Undo it after each time, also after a failure.")
    ] = None,
    dsn: Annotated[
        str | None, typer.Option("--dsn", metavar="DSN", help="Operate on your own server. No passwords.")
    ] = None,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="VERSION", help="A version that pgdyno downloads and starts, such as 18."),
    ] = None,
    bin_: Annotated[
        str | None, typer.Option("--bin", metavar="DIR", help="Installed programs that pgdyno starts.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the server. Repeatable.")
    ] = None,
    setup: Annotated[
        Path | None, typer.Option("--setup", metavar="FILE", help="SQL that makes the tables, in place of pgbench's.")
    ] = None,
    script: options.Scripts = None,
    clients: Annotated[int, typer.Option("--clients", "-c", metavar="NUM", min=1, help="Number of clients.")] = 8,
    rate: Annotated[
        float | None, typer.Option("--rate", "-R", metavar="TPS", help="Send this many transactions per second.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="NUM", min=1, help="Pairs of trials with and without the operation.")
    ] = 5,
    limit: Annotated[
        str, typer.Option("--limit", metavar="DURATION", help="Cancel and undo an operation that takes longer.")
    ] = "10m",
    warmup: options.Warmup = "5s",
    max_rate: Annotated[
        str | None, typer.Option("--max-rate", metavar="RATE", help="Limit of a backup in bytes a second, such as 32M.")
    ] = None,
    scale: options.Scale = None,
    writes: options.Writes = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Operate on your own server without asking for confirmation.")
    ] = False,
    save: options.Save = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    html: options.Html = None,
    wait: options.Wait = False,
    alongside: options.Alongside = False,
    quiet: options.Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")] = False,
    no_preflight: options.NoPreflight = False,
) -> ExitCode:
    """Measure what an operation costs: an index, a backup, a vacuum.

    Runs a load until it is steady, the operation, and the load until it is as before; undoes the operation; repeats
    this, in pairs with trials that only wait, and with the operation without load. Ctrl-C cancels and undoes it.
    """
    from pgdyno.commands.comparison.impact_answer import measure_impact
    from pgdyno.commands.support.carry_out import How, Output, when_busy
    from pgdyno.plan.ab_plan import Question
    from pgdyno.plan.impact_plan import Operation

    asked = Question(
        dsn=[dsn] if dsn else [],
        versions=[version] if version else [],
        bins=[bin_] if bin_ else [],
        settings=settings or [],
        scripts=script or [],
        clients=clients,
        rate=rate,
        warmup=warmup,
        scale=scale,
        writes=writes,
    )
    operation = Operation(do, undo, limit, max_rate, repeats, setup)
    output = Output(html=html, csv=None, quiet=quiet, json=json)
    busy = when_busy(wait=wait, alongside=alongside)
    return measure_impact(asked, operation, How(runs, output, save, None, busy, not no_preflight), yes=yes)
