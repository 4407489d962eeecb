"""`pgdyno tune`: its arguments and options."""

from typing import Annotated

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    AllowRestartOption,
    AlongsideOption,
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


def tune(
    plan: OptionalPlanArgument = None,
    runs: RunsOption = DEFAULT_RUNS,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time for all trials, such as 2h; half of it for proposals."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume an unfinished search: its path, its name or a prefix, or `latest`.",
            autocompletion=complete_runs,
        ),
    ] = None,
    html: HtmlOption = None,
    wait: WaitOption = False,
    alongside: AlongsideOption = False,
    quiet: QuietOption = False,
    json: RunJsonOption = False,
    no_preflight: NoPreflightOption = False,
    live: Annotated[bool, typer.Option("--live", help="Serve a live page that can stop the search.")] = False,
    yes: YesOption = False,
    max_cost: MaxCostOption = None,
    allow_restart: AllowRestartOption = False,
) -> None:
    """Search for better settings of a plan's server.

    Proposes settings, confirms the best in pairs of trials on a fresh server, and writes postgresql.conf with the lines
    that make a difference. Ctrl-C and --resume work as in `pgdyno run`. On your own server, only settings of the load's
    sessions change, unless you allow more with --allow-restart.
    """
    from pgdyno.commands.run import How, Output, Rent, resume_run, run_plan, when_busy
    from pgdyno.commands.support.rental_cost import Consent
    from pgdyno.commands.support.tuned_plan import search_overrides

    how = How(
        runs,
        Output(html=html, csv=None, quiet=quiet, json=json, live=live),
        budget=budget,
        when_busy=when_busy(wait=wait, alongside=alongside),
        check_first=not no_preflight,
        rent=Rent(None, Consent(yes, max_cost)),
        allow_restart=allow_restart,
    )
    if resume is not None:
        if plan is not None or overrides or on or budget:
            raise UsageError(
                "--resume takes the plan from the run itself", hint="remove PLAN, --set, --on and --budget"
            )
        raise typer.Exit(resume_run(resume, how))
    if plan is None:
        raise UsageError("nothing to tune", hint="name a plan, or --resume a run")
    raise typer.Exit(run_plan(plan, search_overrides(plan, overrides or [], on), how, on))
