"""`pgdyno query`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.comparison.ab import split_values
from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError
from pgdyno.mounts import is_file


def query(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="SQL files, each measured by itself.")
    ] = None,
    dsn: options.ArmDsn = None,
    version: options.ArmVersion = None,
    bin_: options.ArmBin = None,
    settings: options.ArmSettings = None,
    setup: Annotated[
        list[str] | None,
        typer.Option("--setup", metavar="FILE", help="SQL that makes the tables, in place of pgbench's. Repeatable."),
    ] = None,
    tpch: Annotated[
        float | None,
        typer.Option("--tpch", metavar="NUM", help="TPC-H's 22 queries in place of files, at this scale factor."),
    ] = None,
    times: Annotated[
        int, typer.Option("--times", metavar="NUM", min=2, help="Runs of each query in a trial; the first is apart.")
    ] = 5,
    cache: Annotated[
        Literal["warm", "cold,warm"],
        typer.Option("--cache", help="With cold,warm, also after a restart, with nothing in memory, once a trial."),
    ] = "warm",
    count: Annotated[
        bool, typer.Option("--count", help="Also count the instructions of each query, under Valgrind.")
    ] = False,
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
    from pgdyno.instructions.counting import counter_of
    from pgdyno.plan.ab_plan import Question

    missing = [each for each in files or [] if not is_file(Path(each))]
    if missing:
        raise UsageError(f"{missing[0]} is not a file", hint="name files with a query each, such as q/*.sql")
    if bool(files) == (tpch is not None):
        message = "--tpch has queries of its own" if files else "no query"
        raise UsageError(message, hint="name SQL files, such as q/*.sql, or give --tpch 1")
    for option, value in (("--scale", scale), ("--setup", setup)) if tpch is not None else ():
        if value:
            raise UsageError(f"{option} cannot be used with --tpch, which has tables of its own", hint="remove it")
    for option, is_given in ((f"--cache {cache}", cache != "warm"), ("--count", count)):
        if is_given and dsn:
            raise UsageError(f"{option} needs a server that pgdyno starts", hint="use --version or --bin")
    if count:
        counter_of("auto")
    asked = Question(
        dsn or [],
        split_values(version),
        bin_ or [],
        settings or [],
        files or [],
        clients=1,
        pairs=pairs,
        margin=margin,
        scale=scale,
        writes=writes,
        runs=times,
        tpch=tpch,
        cold=cache != "warm",
        counted=count,
        setup=setup or [],
    )
    output = Output(html=html, csv=None, quiet=quiet, json=json)
    busy = when_busy(wait=wait, alongside=alongside)
    return measure_and_answer(asked, How(runs, output, save, None, busy, not no_preflight))
