"""`pgdyno tune`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError


def tune(
    plan: options.OptionalPlan = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    overrides: options.Set = None,
    on: options.On = None,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time for all trials, such as 2h; half of it for proposals.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume an unfinished search: its path, its name or a prefix, or `latest`.",
            autocompletion=options.complete_runs,
        ),
    ] = None,
    html: options.Html = None,
    wait: options.Wait = False,
    alongside: options.Alongside = False,
    quiet: options.Quiet = False,
    json: options.RunJson = False,
    no_preflight: options.NoPreflight = False,
    live: Annotated[bool, typer.Option("--live", help="Serve a live page that can stop the search.")] = False,
    yes: options.Yes = False,
    max_cost: options.MaxCost = None,
    allow_restart: options.AllowRestart = False,
) -> ExitCode:
    """Search for better settings of a plan's server.

    Proposes settings, confirms the best in pairs of trials on a fresh server, and writes postgresql.conf with the lines
    that make a difference. Ctrl-C and --resume work as in `pgdyno run`. On your own server, only settings of the load's
    sessions change, unless you allow more with --allow-restart.
    """
    from pgdyno.commands.support.carry_out import How, Output, Rent, resume_run, run_plan, when_busy
    from pgdyno.commands.support.rental_cost import Consent

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
        return resume_run(resume, how)
    if plan is None:
        raise UsageError("nothing to tune", hint="name a plan, or --resume a run")
    return run_plan(plan, search_overrides(plan, overrides or (), on), how, on)


def search_overrides(source: str, overrides: Sequence[str], on: str | None) -> list[str]:
    """Return `overrides`, and those that add a search for settings to a plan without a search.

    Raises PlanError, UsageError if the plan searches for something else.
    """
    # imported here: help texts are not JSON
    import json

    from pgdyno.host import describe_host
    from pgdyno.plan import load_plan
    from pgdyno.plan.model import CONFIRMING_PAIRS
    from pgdyno.plan.targets import NetworkTarget

    plan = load_plan(source, overrides, on).plan
    if plan.search is not None:
        if plan.search.find != "settings":
            raise UsageError(
                f"the plan searches for {plan.search.kind.goal}", hint='set search.find = "settings", or use pgdyno run'
            )
        return list(overrides)
    by_session = any(isinstance(target, NetworkTarget) for target in plan.target.values())
    over = usual_space(describe_host().memory_bytes, by_session=by_session)
    search = [f"search.over.{name}={json.dumps(value)}" for name, value in over.items()]
    return [*overrides, f"trial.repeats={CONFIRMING_PAIRS}", 'search.find="settings"', *search]


def usual_space(memory_bytes: int, *, by_session: bool) -> dict[str, str | list[str]]:
    """Return the settings that matter most often, with ranges for a machine with so much memory.

    `by_session`: only those that each session may set, for a server that pgdyno did not start. The ends of the ranges
    keep shared_buffers within 40 % of the memory, and work_mem within 1/64.
    """
    memory_mb = memory_bytes >> 20
    found: dict[str, str | list[str]] = {
        "work_mem": f"1MB..{max(8, memory_mb // 64)}MB log",
        "random_page_cost": "1..4",
        "effective_cache_size": f"{max(64, memory_mb // 8)}MB..{max(128, memory_mb * 3 // 4)}MB",
        "jit": ["off", "on"],
    }
    if by_session:
        return found
    return {
        "shared_buffers": f"{min(128, memory_mb // 8)}MB..{memory_mb * 2 // 5}MB log",
        "max_wal_size": "1GB..16GB log",
        "wal_compression": ["off", "on"],
        "bgwriter_delay": "10ms..1000ms log",
        **found,
    }
