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
        str | None, typer.Argument(metavar="PLAN", help="A plan file, or a name of `pgdyno plan list`.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Go on with a run that was ended: its path, its name or the beginning, or `latest`."
        ),
    ] = None,
    redo_failed: Annotated[
        bool, typer.Option("--redo-failed", help="With --resume: make trials anew that failed.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the HTML report goes.  [default: in the run folder]")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trials as CSV, too.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Serve OpenMetrics while it runs, e.g. at 127.0.0.1:9187 or at 9187."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another pgdyno measures here.")] = False,
    alongside: Annotated[
        bool, typer.Option("--alongside", help="Measure although another pgdyno does; the run says so.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help='No table; the last line is {"run": path, "trials": n, "failed": n}.')
    ] = False,
    no_preflight: Annotated[
        bool, typer.Option("--no-preflight", help="Begin without looking at the machine as `pgdyno doctor` does.")
    ] = False,
    generators: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="Make the load there: local:3, ssh://host1,host2, ray://address:10001. Repeatable.",
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Serve a page that shows the run, and can stop it.")] = False,
    keep: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep rented servers for so long behind the run, such as 2h.")
    ] = None,
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
) -> None:
    """Run a plan, and report what was measured.

    Its servers are fetched or found, and loaded. Every trial is stored as soon as it ends; Ctrl-C, a crash or a
    power cut loses at most the one in flight.
    """
    from pgdyno.commands.cost import Consent
    from pgdyno.commands.run import Output, Rent, generators_override, resume_run, run_plan, when_busy

    output = Output(html=html, csv=csv, quiet=quiet, json=json, live=live)
    busy = when_busy(wait=wait, alongside=alongside)
    rent = Rent(keep, Consent(yes, max_cost))
    if resume is None:
        if plan is None:
            raise UsageError("there is nothing to run", hint="name a plan, or --resume a run")
        if redo_failed:
            raise UsageError("--redo-failed goes only with --resume")
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
        hint = "leave out PLAN, --set, --on, --generators and --budget"
        raise UsageError("--resume takes the plan from the run itself", hint=hint)
    code = resume_run(resume, runs, output, redo_failed=redo_failed, when_busy=busy, metrics=metrics, rent=rent)
    raise typer.Exit(code)


def doctor(
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="The plan that is to be run.")] = None,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Look at this machine before a run.

    Says what is found, what it means and how to change it; exits with 9 at a stop.
    Nothing is changed: a file is synced where data will lie, and a load runs for some seconds.
    """
    from pgdyno.commands.doctor import doctor as look

    raise typer.Exit(look(plan, overrides or [], budget, json=json, on=on))


def watch(
    target: Annotated[
        str | None, typer.Argument(metavar="DSN", help="A database, a connection string or a URI, as psql takes it.")
    ] = None,
    interval: Annotated[
        int, typer.Option(metavar="SECONDS", help="How many seconds a frame holds: 1, 2, 5, 10, 30 or 60.")
    ] = 1,
    once: Annotated[bool, typer.Option("--once", help="One frame as text, then end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object every interval.")] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="Show texts of statements, without literals; else their command alone.")
    ] = False,
    waits_hz: Annotated[
        int | None,
        typer.Option(
            "--waits-hz", metavar="NUM", help="Looks at sessions a second.  [default: 10, 1 for a server elsewhere]"
        ),
    ] = None,
) -> None:
    """Watch a server live.

    Active sessions by wait, tps, CPU, disks, WAL, processes; nothing is changed there.
    The password comes from PGPASSWORD, ~/.pgpass or a service file, or is asked for. q ends it.
    """
    from pgdyno.commands.watch import Wanted
    from pgdyno.commands.watch import watch as watch_server

    watch_server(Wanted(target, interval, waits_hz, once, json, queries))
