"""`pgdyno run`, `doctor` and `watch`: arguments in, one function a command."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    AllowRestartOption,
    AlongsideOption,
    BudgetOption,
    HtmlOption,
    JsonOption,
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
    from pgdyno.commands.run import Output, Rent, generators_override, resume_run, run_plan, when_busy
    from pgdyno.commands.support.rental_cost import Consent

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
            allow_restart=allow_restart,
        )
        raise typer.Exit(code)
    if plan is not None or overrides or on or budget or generators:
        hint = "remove PLAN, --set, --on, --generators and --budget"
        raise UsageError("--resume takes the plan from the run itself", hint=hint)
    code = resume_run(
        resume,
        runs,
        output,
        redo_failed=redo_failed,
        when_busy=busy,
        metrics=metrics,
        rent=rent,
        allow_restart=allow_restart,
    )
    raise typer.Exit(code)


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
    from pgdyno.commands.run import Output, Rent, resume_run, run_plan, when_busy
    from pgdyno.commands.support.rental_cost import Consent
    from pgdyno.commands.support.tuned_plan import search_overrides

    output = Output(html=html, csv=None, quiet=quiet, json=json, live=live)
    busy = when_busy(wait=wait, alongside=alongside)
    rent = Rent(None, Consent(yes, max_cost))
    if resume is not None:
        if plan is not None or overrides or on or budget:
            raise UsageError(
                "--resume takes the plan from the run itself", hint="remove PLAN, --set, --on and --budget"
            )
        raise typer.Exit(
            resume_run(resume, runs, output, redo_failed=False, when_busy=busy, rent=rent, allow_restart=allow_restart)
        )
    if plan is None:
        raise UsageError("nothing to tune", hint="name a plan, or --resume a run")
    given = search_overrides(plan, overrides or [], on)
    code = run_plan(
        plan,
        given,
        runs,
        output,
        budget,
        busy,
        check_first=not no_preflight,
        rent=rent,
        on=on,
        allow_restart=allow_restart,
    )
    raise typer.Exit(code)


def ab(
    dsn: Annotated[
        list[str] | None,
        typer.Option("--dsn", metavar="DSN", help="Measure your own server; twice to compare two. No passwords."),
    ] = None,
    version: Annotated[
        list[str] | None,
        typer.Option("--version", metavar="VERSION", help="Versions that pgdyno downloads and starts, such as 17,18."),
    ] = None,
    bin_: Annotated[
        list[str] | None,
        typer.Option("--bin", metavar="DIR", help="Installed programs that pgdyno starts; twice to compare two."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=A,B",
            help="Compare these values of a setting; one value applies to both arms. Repeatable.",
        ),
    ] = None,
    script: Annotated[
        list[str] | None,
        typer.Option(
            "--script",
            "-f",
            metavar="FILE",
            help="SQL script in pgbench's language; append @WEIGHT to weight it. Repeatable.",
        ),
    ] = None,
    clients: Annotated[int, typer.Option("--clients", "-c", metavar="NUM", min=1, help="Number of clients.")] = 8,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", "-R", metavar="TPS", help="Send this many transactions per second, and compare p99 latency."
        ),
    ] = None,
    duration: Annotated[
        str, typer.Option("--duration", "-T", metavar="DURATION", help="Measured time of each trial.")
    ] = "20s",
    warmup: Annotated[
        str, typer.Option("--warmup", metavar="DURATION", help="Warm-up before each trial, which does not count.")
    ] = "5s",
    pairs: Annotated[
        str,
        typer.Option("--pairs", metavar="NUM", help="Pairs of trials: at least 6, or a range to stop when decided."),
    ] = "6..20",
    margin: Annotated[
        str | None,
        typer.Option(
            "--margin",
            metavar="PERCENT",
            help="With a range of pairs: treat differences within this margin as none. [default: 1%]",
        ),
    ] = None,
    scale: Annotated[
        int | None,
        typer.Option(
            "--scale",
            "-s",
            metavar="NUM",
            min=1,
            help="Size of pgbench's tables on servers that pgdyno starts.  [default: 10]",
        ),
    ] = None,
    writes: Annotated[
        bool,
        typer.Option("--writes", help="Let scripts write on your own server; otherwise, transactions are read-only."),
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the plan to this file, for `pgdyno run`.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    budget: BudgetOption = None,
    html: HtmlOption = None,
    wait: WaitOption = False,
    alongside: AlongsideOption = False,
    quiet: QuietOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as one line of JSON.")] = False,
    no_preflight: NoPreflightOption = False,
) -> None:
    """Compare two settings, versions or servers.

    Measures both in turn, in six pairs of trials or more, until it is decided whether they differ. On your own server
    (--dsn), settings apply to the connections of the load only, transactions are read-only, and nothing is created or
    changed. Ctrl-C keeps finished trials; `pgdyno run --resume latest` continues.
    """
    from pgdyno.commands.ab import How
    from pgdyno.commands.ab import ab as answer
    from pgdyno.commands.run import Output, when_busy
    from pgdyno.plan.ab_plan import Question

    asked = Question(
        dsn or [],
        _listed(version),
        bin_ or [],
        settings or [],
        script or [],
        clients,
        rate,
        duration,
        warmup,
        pairs,
        margin,
        scale,
        writes,
    )
    output = Output(html=html, csv=None, quiet=quiet, json=json)
    busy = when_busy(wait=wait, alongside=alongside)
    raise typer.Exit(answer(asked, How(runs, output, save, budget, busy, not no_preflight)))


def _listed(values: list[str] | None) -> list[str]:
    return [part.strip() for each in values or [] for part in each.split(",")]


def doctor(
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="Plan to check this machine for.")] = None,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Check this machine before a run.

    Prints each check with its verdict and the remedy. Exits with 9 if a check would stop a run. Changes nothing: syncs
    a temporary file where data will be stored and generates load for some seconds.
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
