"""`pgdyno query`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.comparison.ab import split_values
from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError
from pgdyno.mounts import is_file


def query(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="SQL files, each measured by itself.")],
    dsn: options.ArmDsn = None,
    version: options.ArmVersion = None,
    bin_: options.ArmBin = None,
    settings: options.ArmSettings = None,
    setup: Annotated[
        list[str] | None,
        typer.Option("--setup", metavar="FILE", help="SQL that makes the tables, in place of pgbench's. Repeatable."),
    ] = None,
    times: Annotated[
        int, typer.Option("--times", metavar="NUM", min=2, help="Runs of each query in a trial; the first is apart.")
    ] = 5,
    cache: Annotated[
        Literal["warm", "cold,warm"],
        typer.Option("--cache", help="With cold,warm, also after a restart, with nothing in memory, once a trial."),
    ] = "warm",
    pairs: options.Pairs = "6",
    margin: options.Margin = None,
    scale: options.Scale = None,
    writes: options.Writes = False,
    save: options.Save = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    html: options.Html = None,
    wait: options.Wait = False,
    alongside: options.Alongside = False,
    quiet: options.Quiet = False,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")] = False,
    no_preflight: options.NoPreflight = False,
) -> ExitCode:
    """Measure single queries, and compare them between settings, versions or servers.

    Each query runs by itself, in rounds of chance order; the first run in a session is told apart. The answer says
    which queries are faster or slower, and which changed their plan. On your own server, transactions are read-only.
    """
    from pgdyno.commands.comparison.ab_answer import measure_and_answer
    from pgdyno.commands.support.carry_out import How, Output, when_busy
    from pgdyno.plan.ab_plan import Question

    missing = [each for each in files if not is_file(Path(each))]
    if missing:
        raise UsageError(f"{missing[0]} is not a file", hint="name files with a query each, such as q/*.sql")
    if cache != "warm" and dsn:
        raise UsageError(f"--cache {cache} needs a server that pgdyno starts", hint="use --version or --bin")
    asked = Question(
        dsn or [],
        split_values(version),
        bin_ or [],
        settings or [],
        files,
        clients=1,
        pairs=pairs,
        margin=margin,
        scale=scale,
        writes=writes,
        runs=times,
        cold=cache != "warm",
        setup=setup or [],
    )
    output = Output(html=html, csv=None, quiet=quiet, json=json)
    busy = when_busy(wait=wait, alongside=alongside)
    return measure_and_answer(asked, How(runs, output, save, None, busy, not no_preflight))
