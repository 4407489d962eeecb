"""`pgdyno run`: its arguments and options."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    AllowRestartOption,
    AlongsideOption,
    BudgetOption,
    HtmlOption,
    MaxCostOption,
    NoPreflightOption,
    OnOption,
    OptionalPlanArgument,
    QuietOption,
    RunJsonOption,
    RunsOption,
    SetOption,
    WaitOption,
    YesOption,
    complete_runs,
)
from pgdyno.errors import UsageError


def run(
    plan: OptionalPlanArgument = None,
    runs: RunsOption = DEFAULT_RUNS,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume an unfinished run: its path, its name or a prefix, or `latest`.",
            autocompletion=complete_runs,
        ),
    ] = None,
    redo_failed: Annotated[bool, typer.Option("--redo-failed", help="With --resume: re-run failed trials.")] = False,
    html: HtmlOption = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trials as CSV to this file.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Serve OpenMetrics during the run, e.g. at 127.0.0.1:9187 or at 9187."),
    ] = None,
    wait: WaitOption = False,
    alongside: AlongsideOption = False,
    quiet: QuietOption = False,
    json: RunJsonOption = False,
    no_preflight: NoPreflightOption = False,
    generators: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOSTS",
            help="Generate load on these hosts: local:3, ssh://host1,host2, ray://address:10001. Repeatable.",
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Serve a live page that can stop the run.")] = False,
    keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Keep rented servers for this time after the run, such as 2h."),
    ] = None,
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
    allow_restart: AllowRestartOption = False,
) -> None:
    """Run a plan and report the results.

    Downloads or finds the servers and loads the data. Stores each trial when it ends: Ctrl-C, a crash or a power
    failure loses at most the trial in progress.
    """
    from pgdyno.commands.run import How, Output, Rent, generators_override, resume_run, run_plan, when_busy
    from pgdyno.commands.support.rental_cost import Consent

    how = How(
        runs,
        Output(html=html, csv=csv, quiet=quiet, json=json, live=live),
        budget=budget,
        when_busy=when_busy(wait=wait, alongside=alongside),
        check_first=not no_preflight,
        metrics=metrics,
        rent=Rent(keep, Consent(yes, max_cost)),
        allow_restart=allow_restart,
    )
    if resume is None:
        if plan is None:
            raise UsageError("nothing to run", hint="name a plan, or --resume a run")
        if redo_failed:
            raise UsageError("--redo-failed needs --resume")
        raise typer.Exit(run_plan(plan, [*(overrides or []), *generators_override(generators)], how, on))
    if plan is not None or overrides or on or budget or generators:
        hint = "remove PLAN, --set, --on, --generators and --budget"
        raise UsageError("--resume takes the plan from the run itself", hint=hint)
    raise typer.Exit(resume_run(resume, how, redo_failed=redo_failed))
