"""`pgdyno run`, `doctor` and `watch`: arguments in, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.shell.options import (
    DEFAULT_RUNS,
    BudgetOption,
    JsonOption,
    MaxCostOption,
    OnOption,
    RunsOption,
    SetOption,
    YesOption,
)
from pgdyno.errors import UsageError


def run(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="Plan file, or name from `pgdyno plan list`.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Resume an unfinished run: its path, its name or a prefix, or `latest`."),
    ] = None,
    redo_failed: Annotated[bool, typer.Option("--redo-failed", help="With --resume: re-run failed trials.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the HTML report to this file.  [default: in the run folder]"),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trials as CSV to this file.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Serve OpenMetrics during the run, e.g. at 127.0.0.1:9187 or at 9187."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another pgdyno measures on this host.")] = False,
    alongside: Annotated[
        bool, typer.Option("--alongside", help="Measure while another pgdyno measures; recorded in the run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help='No table; the last line is {"run": path, "trials": n, "failed": n}.')
    ] = False,
    no_preflight: Annotated[bool, typer.Option("--no-preflight", help="Skip the checks of `pgdyno doctor`.")] = False,
    generators: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="Generate load on these hosts: local:3, ssh://host1,host2, ray://address:10001. Repeatable.",
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Serve a live page that can stop the run.")] = False,
    keep: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep rented servers for DURATION after the run, such as 2h.")
    ] = None,
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Run a plan and report the results.

    Downloads or finds the servers and loads the data. Stores each trial when it ends: Ctrl-C, a crash or a power
    failure loses at most the trial in progress.
    """
    from pgdyno.commands.cost import Consent
    from pgdyno.commands.run import Output, Rent, generators_override, resume_run, run_plan, when_busy

    output = Output(html=html, csv=csv, quiet=quiet, json=json, live=live)
    busy = when_busy(wait=wait, alongside=alongside)
    rent = Rent(keep, Consent(yes, max_cost))
    if resume is None:
        if plan is None:
            raise UsageError("nothing to run", hint="name a plan, or --resume a run")
        if redo_failed:
            raise UsageError("--redo-failed needs --resume")
        code = run_plan(
            plan,
            [*(overrides or []), *generators_override(generators)],
            runs,
            output,
            budget,
            busy,
            check_first=not no_preflight,
            metrics=metrics,
            rent=rent,
            on=on,
        )
        raise typer.Exit(code)
    if plan is not None or overrides or on or budget or generators:
        hint = "remove PLAN, --set, --on, --generators and --budget"
        raise UsageError("--resume takes the plan from the run itself", hint=hint)
    code = resume_run(resume, runs, output, redo_failed=redo_failed, when_busy=busy, metrics=metrics, rent=rent)
    raise typer.Exit(code)


def doctor(
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="Plan to check this machine for.")] = None,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Check this machine before a run.

    Prints each check with its verdict and the remedy. Exits with 9 if a check stops runs. Changes nothing: syncs a
    temporary file where data will be stored and generates load for some seconds.
    """
    from pgdyno.commands.doctor import doctor as look

    raise typer.Exit(look(plan, overrides or [], budget, json=json, on=on))


def watch(
    target: Annotated[
        str | None, typer.Argument(metavar="DSN", help="Database, connection string or URI, as for psql.")
    ] = None,
    interval: Annotated[int, typer.Option(metavar="SECONDS", help="Seconds per frame: 1, 2, 5, 10, 30 or 60.")] = 1,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per interval.")] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="Show statements without literals, not only their command.")
    ] = False,
    waits_hz: Annotated[
        int | None,
        typer.Option(
            "--waits-hz", metavar="NUM", help="Session samples per second.  [default: 10, over the network 1]"
        ),
    ] = None,
) -> None:
    """Watch a server live.

    Shows active sessions by wait, throughput, CPU, disks, WAL and processes; changes nothing on the server. The
    password is taken from PGPASSWORD, ~/.pgpass or a service file, or asked for. Press q to quit.
    """
    from pgdyno.commands.watch import Wanted
    from pgdyno.commands.watch import watch as watch_server

    watch_server(Wanted(target, interval, waits_hz, once, json, queries))
