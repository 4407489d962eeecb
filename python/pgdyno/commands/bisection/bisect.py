"""`pgdyno bisect`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode


@dataclass(frozen=True, slots=True)
class BisectCommand:
    """Find the commit that made a load slower.

    Builds commits of a git repository, PostgreSQL's or an extension's, and compares each with the good one, by counted
    instructions or in pairs of trials. Each look changes how probable every commit is, so a wrong look does not decide.
    Commits that do not build or run are skipped. The repository is only read. Ctrl-C keeps what was measured; --resume
    continues.
    """

    plan: options.OptionalPlan = None
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="DIR", help="git repository of PostgreSQL or of an extension.")
    ] = None
    good: Annotated[str | None, typer.Option("--good", metavar="COMMIT", help="A commit that is fast.")] = None
    bad: Annotated[str, typer.Option("--bad", metavar="COMMIT", help="A later commit that is slow.")] = "HEAD"
    by: Annotated[
        Literal["tps", "p99", "instructions"] | None,
        typer.Option("--by", help="What is compared.  [default: instructions with -f and Valgrind, else tps]"),
    ] = None
    script: options.Scripts = None
    setup: Annotated[
        Path | None, typer.Option("--setup", metavar="FILE", help="SQL that makes the tables, in place of pgbench's.")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting of the servers; with PLAN, a key of the plan. Repeatable."
        ),
    ] = None
    bin_: Annotated[
        str | None, typer.Option("--bin", metavar="DIR", help="Programs of the server that an extension is built for.")
    ] = None
    configure: Annotated[
        list[str] | None,
        typer.Option("--configure", metavar="OPTION", help="Option of PostgreSQL's configure. Repeatable."),
    ] = None
    build: Annotated[
        str | None,
        typer.Option(
            "--build", metavar="COMMAND", help="Build by this command, whose last argument is where to install."
        ),
    ] = None
    clients: Annotated[int, typer.Option("--clients", "-c", metavar="NUM", min=1, help="Number of clients.")] = 8
    rate: Annotated[
        float | None, typer.Option("--rate", "-R", metavar="TPS", help="Send this many transactions per second.")
    ] = None
    duration: Annotated[
        str, typer.Option("--duration", "-T", metavar="DURATION", help="Measured time of each trial.")
    ] = "20s"
    warmup: options.Warmup = "5s"
    pairs: Annotated[
        str, typer.Option("--pairs", metavar="NUM", help="Pairs of trials of each look, until it is decided.")
    ] = "6..20"
    scale: options.Scale = None
    cache: Annotated[
        str, typer.Option("--cache", metavar="SIZE", help="Keep at most so much of builds; the oldest are removed.")
    ] = "10GB"
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="DIR", help="Continue a bisection: its folder, or latest.")
    ] = None
    runs: options.Runs = options.DEFAULT_RUNS
    wait: options.Wait = False
    alongside: options.Alongside = False
    quiet: options.Quiet = False
    json: Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")] = False
    no_preflight: options.NoPreflight = False

    def __call__(self) -> ExitCode:
        from pgdyno.commands.bisection.bisect_search import bisect

        return bisect(self)
