"""`pgdyno run`."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError


def run(
    plan: options.OptionalPlan = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    overrides: options.Set = None,
    on: options.On = None,
    budget: options.Budget = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume an unfinished run: its path, its name or a prefix, or `latest`.",
            autocompletion=options.complete_runs,
        ),
    ] = None,
    control: options.Control = False,
    redo_failed: Annotated[bool, typer.Option("--redo-failed", help="With --resume: re-run failed trials.")] = False,
    html: options.Html = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the trials as CSV to this file.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Serve OpenMetrics during the run, e.g. at 127.0.0.1:9187 or at 9187."),
    ] = None,
    wait: options.Wait = False,
    alongside: options.Alongside = False,
    quiet: options.Quiet = False,
    json: options.RunJson = False,
    no_preflight: options.NoPreflight = False,
    generators: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOSTS", help="Generate load on these hosts: local:3, ssh://host1,user@host2:2222. Repeatable."
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Serve a live page that can stop the run.")] = False,
    keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Keep rented servers for this time after the run, such as 2h."),
    ] = None,
    yes: options.Yes = False,
    max_cost: options.MaxCost = None,
    allow_restart: options.AllowRestart = False,
    require: Annotated[
        bool, typer.Option("--require", help="Exit with 13 if a promise of the plan is broken, 11 if one is undecided.")
    ] = False,
) -> ExitCode:
    """Run a plan and report the results.

    Downloads or finds the servers and loads the data. Stores each trial when it ends: Ctrl-C, a crash or a power
    failure loses at most the trial in progress.
    """
    from pgdyno.commands.support.carry_out import (
        How,
        Output,
        Rent,
        generators_override,
        resume_run,
        run_plan,
        when_busy,
    )
    from pgdyno.commands.support.rental_cost import Consent

    how = How(
        runs,
        Output(html=html, csv=csv, quiet=quiet, json=json, live=live, require=require),
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
        twice = ["trial.control=true"] if control else []
        return run_plan(plan, [*(overrides or []), *twice, *generators_override(generators)], how, on)
    if plan is not None or overrides or on or budget or generators or control:
        hint = "remove PLAN, --set, --on, --control, --generators and --budget"
        raise UsageError("--resume takes the plan from the run itself", hint=hint)
    return resume_run(resume, how, redo_failed=redo_failed)
