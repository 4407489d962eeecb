"""`pgdyno count`."""

from typing import Annotated, Literal

import typer

from pgdyno.commands.comparison.ab import split_values
from pgdyno.commands.support import options
from pgdyno.errors import ExitCode


def count(
    version: options.ArmVersion = None,
    bin_: options.ArmBin = None,
    settings: options.ArmSettings = None,
    source: options.ArmSource = None,
    configure: options.ArmConfigure = None,
    extension: options.ArmExtension = None,
    commit: options.ArmCommit = None,
    patch: options.ArmPatch = None,
    script: options.Scripts = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option("--protocol", metavar="NAME", help="simple, extended or prepared; two to compare them."),
    ] = None,
    transactions: Annotated[
        int, typer.Option("--transactions", "-t", metavar="NUM", min=1, help="Counted transactions of each script.")
    ] = 40,
    repeats: Annotated[int, typer.Option("--repeats", metavar="NUM", min=2, help="How often each arm is counted.")] = 3,
    scale: Annotated[
        int | None, typer.Option("--scale", "-s", metavar="NUM", min=1, help="Size of pgbench's tables.  [default: 1]")
    ] = None,
    counter: Annotated[
        Literal["auto", "valgrind", "perf"],
        typer.Option("--counter", help="What counts; auto is valgrind, and perf without it."),
    ] = "auto",
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Draw a flame graph of each arm, from one more load, which takes minutes.")
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
    """Count how many instructions a transaction costs the server.

    Runs each script in one session of a server under Valgrind, and prints its instructions by statement and by
    function; with two versions, servers or settings, the difference. Figures hardly depend on what else the machine
    does. They are no times: see `pgdyno ab`.
    """
    from pgdyno.commands.comparison.count_answer import count_and_answer
    from pgdyno.commands.comparison.count_plan import CountQuestion
    from pgdyno.commands.support.carry_out import How, Output, when_busy
    from pgdyno.plan.ab_plan import Question

    servers = Question(
        versions=split_values(version),
        bins=bin_ or [],
        settings=settings or [],
        scripts=script or [],
        sources=source or [],
        configure=configure,
        extensions=extension or [],
        commits=split_values(commit),
        patches=split_values(patch),
    )
    protocols = split_values(protocol) or ["simple"]
    asked = CountQuestion(servers, protocols, transactions, repeats, scale, counter, stacks)
    output = Output(html=html, csv=None, quiet=quiet, json=json)
    how = How(runs, output, save, None, when_busy(wait=wait, alongside=alongside), not no_preflight)
    return count_and_answer(asked, how)
