"""`pgdyno ab`."""

from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError


def ab(
    dsn: options.ArmDsn = None,
    version: options.ArmVersion = None,
    bin_: options.ArmBin = None,
    settings: options.ArmSettings = None,
    source: options.ArmSource = None,
    configure: options.ArmConfigure = None,
    extension: options.ArmExtension = None,
    commit: options.ArmCommit = None,
    patch: options.ArmPatch = None,
    script: options.Scripts = None,
    pooler: Annotated[
        list[str] | None,
        typer.Option("--pooler", metavar="NAME", help="Compare none,pgbouncer before servers that pgdyno starts."),
    ] = None,
    load_dsn: Annotated[
        str | None,
        typer.Option("--load-dsn", metavar="DSN", help="Compare your server (--dsn) with this pooler in front of it."),
    ] = None,
    clients: Annotated[
        str, typer.Option("--clients", "-c", metavar="NUM", help="Number of clients; 8,200 for two points.")
    ] = "8",
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", "-R", metavar="TPS", help="Send this many transactions per second, and compare p99 latency."
        ),
    ] = None,
    duration: Annotated[
        str, typer.Option("--duration", "-T", metavar="DURATION", help="Measured time of each trial.")
    ] = "20s",
    warmup: options.Warmup = "5s",
    pairs: options.Pairs = "6..20",
    margin: options.Margin = None,
    control: options.Control = False,
    scale: options.Scale = None,
    writes: options.Writes = False,
    save: options.Save = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    budget: options.Budget = None,
    html: options.Html = None,
    wait: options.Wait = False,
    alongside: options.Alongside = False,
    quiet: options.Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")] = False,
    no_preflight: options.NoPreflight = False,
) -> ExitCode:
    """Compare two settings, versions or servers.

    Measures both in turn, in six pairs of trials or more, until it is decided whether they differ. On your own server
    (--dsn), settings apply to the connections of the load only, transactions are read-only, and nothing is created or
    changed. Ctrl-C keeps finished trials; `pgdyno run --resume latest` continues.
    """
    from pgdyno.commands.comparison.ab_answer import measure_and_answer
    from pgdyno.commands.support.carry_out import How, Output, when_busy
    from pgdyno.plan.ab_plan import Question

    asked = Question(
        dsn or [],
        split_values(version),
        bin_ or [],
        settings or [],
        script or [],
        _numbers_of_clients(clients),
        rate,
        duration,
        warmup,
        pairs,
        margin,
        scale,
        writes,
        split_values(pooler),
        load_dsn,
        sources=source or [],
        configure=configure,
        extensions=extension or [],
        commits=split_values(commit),
        patches=split_values(patch),
        control=control,
    )
    output = Output(html=html, csv=None, quiet=quiet, json=json)
    busy = when_busy(wait=wait, alongside=alongside)
    return measure_and_answer(asked, How(runs, output, save, budget, busy, not no_preflight))


def _numbers_of_clients(text: str) -> tuple[int, ...]:
    numbers = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() and 0 < len(each) < 10 and int(each) for each in numbers):
        raise UsageError(f"--clients {text}: not a number of clients", hint="such as --clients 8 or --clients 8,200")
    return tuple(map(int, numbers))


def split_values(values: list[str] | None) -> list[str]:
    """Return the parts of values that commas separate."""
    return [part.strip() for each in values or [] for part in each.split(",")]
