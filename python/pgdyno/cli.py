"""The command line: arguments in, one function a command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NoReturn

import typer

from pgdyno.commands import target_app
from pgdyno.errors import ExitCode, PgdynoError, PlanError, UsageError
from pgdyno.report.texts import Language

app = typer.Typer(
    name="pgdyno",
    help="A dynamometer for PostgreSQL: put a server on it, drive it with a known load, get figures to trust.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
plan_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Write plans, and look at them before they run."
)
app.add_typer(plan_app, name="plan")
app.add_typer(target_app.app, name="target")
app.command()(target_app.reap)

DEFAULT_RUNS = Path("pgdyno-runs")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="A plan file, or a name of `pgdyno plan list`.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key of the plan, e.g. trial.duration=5s. Repeatable."),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="NAME",
        help="Other targets: [on.NAME] of the plan; embedded: a server of this machine; dsn: where PGHOST leads.",
    ),
]


def _here(folder: Path) -> Path:
    if str(folder).startswith("s3:"):
        hint = "name a run there by its whole address; pgdyno copy brings runs there"
        raise UsageError("the folder of runs is one of this machine, not object storage", hint=hint)
    return folder


RunsOption = Annotated[
    Path,
    typer.Option("--runs", metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.", callback=_here),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="[RUN]", help="A run folder, its name or the beginning of it; `latest` is the last one."),
]
RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Runs, folders of runs, or patterns; here or at s3://bucket/folder."),
]
ClusterOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PLACE", help="Work there: local:3, ssh://host1,host2, ray://address:10001. Repeatable."),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Make the plan fit into a time such as 20m, and into this machine's memory and disk.",
    ),
]
MetricOption = Annotated[Literal["tps", "p99", "mean"], typer.Option(help="What is compared.")]
ByOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Within one run: target, version, settings.NAME, any parameter."),
]
BaseOption = Annotated[str | None, typer.Option(metavar="VALUE", help="With --by: the baseline.  [default: the first]")]
FloorOption = Annotated[
    str | None, typer.Option("--floor-from", metavar="RUN", help="An A/A run: differences under its noise are none.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Show it although the audit says invalid; it then says so.")]
PriceOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What each target costs.  [default: what the plan says]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _version(wanted: bool) -> None:
    if wanted:
        from pgdyno import __version__
        from pgdyno.programs import find_engine

        typer.echo(f"pgdyno {__version__}")
        engine = find_engine()
        typer.echo(f"pgdrive {engine.version} ({engine.path})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Name the versions of pgdyno and pgdrive."),
    ] = False,
) -> None:
    del version


@app.command()
def run(
    plan: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="A plan file, or a name of `pgdyno plan list`.")
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
    html: Annotated[Path | None, typer.Option(help="Where the HTML report goes.  [default: in the run folder]")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the trials as CSV, too.")] = None,
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
    yes: target_app.YesOption = False,
    max_cost: target_app.MaxCostOption = None,
) -> None:
    """Run a plan: fetch or find its servers, load them, measure every trial, report.

    Every trial is stored as soon as it ends; Ctrl-C, a crash or a power cut loses at most the one in flight.
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


@app.command()
def doctor(
    plan: Annotated[str | None, typer.Argument(metavar="[PLAN]", help="The plan that is to be run.")] = None,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Look at this machine before a run: what is found, what it means, how to change it; exit with 9 at a stop.

    Nothing is changed: a file is synced where data will lie, and a load runs for some seconds.
    """
    from pgdyno.commands.doctor import doctor as look

    raise typer.Exit(look(plan, overrides or [], budget, json=json, on=on))


@app.command()
def watch(
    target: Annotated[
        str | None, typer.Argument(metavar="[DSN]", help="A database, a connection string or a URI, as psql takes it.")
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
    """Watch a server live: active sessions by wait, tps, CPU, disks, WAL, processes. Changes nothing there.

    The password comes from PGPASSWORD, ~/.pgpass or a service file, or is asked for. q ends it.
    """
    from pgdyno.commands.watch import Wanted
    from pgdyno.commands.watch import watch as watch_server

    watch_server(Wanted(target, interval, waits_hz, once, json, queries))


@app.command("import")
def import_(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Outputs, logs, documents or CSV tables; here or at s3://bucket/key."),
    ],
    into: Annotated[
        str, typer.Option("--into", metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders; s3:// too.")
    ] = str(DEFAULT_RUNS),
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="What was measured, where no column says it.")
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="A CSV column called otherwise. Repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help='Print {"run": path, "trials": n, "unread": [...]}.')] = False,
    cluster: ClusterOption = None,
) -> None:
    """Bring what pgbench, sysbench, HammerDB or a document says into a run folder of its own."""
    from pgdyno.commands.import_ import import_ as bring

    bring(files, into, target=target, mapping=mapping or [], json=json, cluster=cluster or [])


@app.command("list")
def list_(runs: RunsOption = DEFAULT_RUNS, json: JsonOption = False) -> None:
    """List the runs of a folder, newest first."""
    from pgdyno.commands.show import list_runs

    list_runs(runs, json=json)


@app.command()
def show(
    run: RunArgument = "latest",
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the trials as CSV.")] = False,
    layout: Annotated[
        Literal["points", "sysbench"], typer.Option(help="By points, or by trials with sysbench's columns.")
    ] = "points",
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Draw one trial over time: the median one of the highest peak.")
    ] = False,
    trial: Annotated[int | None, typer.Option(metavar="NUMBER", help="Draw this trial over time.")] = None,
) -> None:
    """Show what a run measured: a table of points and a scaling chart, or one trial over time."""
    from pgdyno.commands.show import show_run, show_trial

    if timeline or trial is not None:
        if json or csv or layout != "points":
            raise UsageError("--timeline and --trial draw: leave out --json, --csv and --layout")
        show_trial(run, runs, trial)
        return
    show_run(run, runs, json=json, csv=csv, layout=layout)
    if not json and not csv and layout == "points":
        from pgdyno.commands.limits import show_limits

        show_limits(run, runs)


@app.command()
def report(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Runs, here or at s3://bucket/folder; further ones stand beside the first."
        ),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    html: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where the HTML report goes; with --each, a folder.  [default: in the run folder]",
        ),
    ] = None,
    pdf: Annotated[Path | None, typer.Option(help="Write it as a PDF, too: two pages and an appendix.")] = None,
    md: Annotated[Path | None, typer.Option(help="Write Markdown of 80 columns, too.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the trials as CSV, too: with --each, of all.")] = None,
    price: Annotated[Path | None, typer.Option(metavar="FILE", help="What each target costs.")] = None,
    language: Annotated[Language, typer.Option(help="What the report is written in.")] = Language.ENGLISH,
    each: Annotated[
        bool, typer.Option("--each", help="A report of every run that is named, folders of runs and patterns too.")
    ] = False,
    cluster: ClusterOption = None,
) -> None:
    """Write the report of a run, or of several beside each other: one HTML file that works offline."""
    from pgdyno.commands.report import Forms, write_each, write_report

    what, forms = named or ["latest"], Forms(html, pdf, md, csv)
    if each:
        raise typer.Exit(write_each(what, runs, forms, price=price, language=language, cluster=cluster or []))
    if cluster:
        raise UsageError("one report is written here", hint="--cluster goes with --each")
    write_report(what, runs, forms, price=price, language=language)


@app.command()
def export(
    run: RunArgument = "latest",
    openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="As OpenMetrics text with timestamps, for Prometheus and its kin.")
    ] = False,
    trial: Annotated[int | None, typer.Option(metavar="N", help="Only this trial.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where it goes.  [default: standard output]")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Write what a run measured, second by second, in a form that other programs take."""
    from pgdyno.commands.export import export_run

    export_run(run, runs, openmetrics=openmetrics, trial=trial, output=output)


@app.command()
def copy(
    named: Annotated[
        list[str], typer.Argument(metavar="RUN... PLACE", help="Runs, folders of runs or patterns; and where they go.")
    ],
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Copy whole runs onto object storage (s3://bucket/folder), or from there: a run is there at once or not at all."""
    from pgdyno.commands.copy import copy_runs

    *what, place = named
    if not what:
        raise UsageError("copy has no place to copy to", hint="pgdyno copy RUN s3://bucket/folder")
    raise typer.Exit(copy_runs(what, place, runs))


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="The baseline, or the run whose arms are compared.")],
    second: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="The run that is set beside it.")] = None,
    by: ByOption = None,
    base: BaseOption = None,
    metric: MetricOption = "tps",
    floor_from: FloorOption = None,
    noise_floor: Annotated[
        bool, typer.Option("--noise-floor", help="Of an A/A run: how much two equal arms differ here.")
    ] = False,
    force: ForceOption = False,
    price: PriceOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Compare two runs, or targets and settings within one: verdict, difference, interval.

    Exits with 12, and says why, where the audit finds the figures of a run invalid.
    """
    from pgdyno.commands.compare import Compared, compare_runs

    what = Compared(first, second, runs, metric, by, base, floor_from, force, price)
    raise typer.Exit(compare_runs(what, noise=noise_floor, json=json))


@app.command()
def gate(
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="A run; with --by, the run that has both.")],
    candidate: Annotated[str | None, typer.Argument(metavar="[CANDIDATE]", help="The run that is judged.")] = None,
    max_regression: Annotated[
        str, typer.Option("--max-regression", metavar="PERCENT", help="How much worse it may be.")
    ] = "3%",
    by: ByOption = None,
    base: BaseOption = None,
    metric: MetricOption = "tps",
    floor_from: FloorOption = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown.")] = None,
    force: ForceOption = False,
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
) -> None:
    """Judge a candidate for CI: exit with 0 when it is no slower than allowed, 10 when it is, 11 when unclear.

    Exits with 12, and judges nothing, where the audit finds the figures of a run invalid.
    """
    from pgdyno.commands.compare import Compared, run_gate

    what = Compared(baseline, candidate, runs, metric, by, base, floor_from, force)
    raise typer.Exit(run_gate(what, max_regression, junit=junit, md=md, json=json))


@app.command()
def analyse(
    named: RunsArgument = None,
    price: PriceOption = None,
    latency: Annotated[
        str | None, typer.Option(metavar="TARGET", help='The capacity at a latency target, such as "p99 < 10ms".')
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Say whether trials were steady, where they dipped, how targets scale, and what they cost.

    Of several runs each by itself. A folder of runs is all of them, here or at s3://bucket/folder.
    """
    from pgdyno.commands.analyse import analyse_stored

    what = named or ["latest"]
    raise typer.Exit(analyse_stored(what, runs, price, latency, json=json, cluster=cluster or []))


@app.command()
def audit(run: RunArgument = "latest", runs: RunsOption = DEFAULT_RUNS, json: JsonOption = False) -> None:
    """Say whether a run's figures may be believed, with evidence; exit with 12 when one is invalid."""
    from pgdyno.commands.audit import audit_run

    raise typer.Exit(audit_run(run, runs, json=json))


@app.command()
def serve(
    runs: Annotated[
        Path, typer.Argument(metavar="[DIR]", envvar="PGDYNO_RUNS", help="Folder of run folders.")
    ] = DEFAULT_RUNS,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Listen there: ADDRESS[:PORT] or :PORT.  [default: 127.0.0.1:8432]"),
    ] = None,
) -> None:
    """Show runs in a browser: the one that goes on, and all that are stored. Ends at Ctrl-C."""
    from pgdyno.commands.serve import serve_runs

    serve_runs(runs, listen)


@app.command()
def history(
    runs: Annotated[Path, typer.Argument(metavar="[DIR]", envvar="PGDYNO_RUNS", help="Folder of run folders.")] = (
        DEFAULT_RUNS
    ),
    metric: MetricOption = "tps",
    target: Annotated[str | None, typer.Option(metavar="NAME", help="Only trials of this target.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this workload.")] = None,
    json: JsonOption = False,
) -> None:
    """Follow the same points over many runs, and say where their level changed."""
    from pgdyno.analyse.metric import Metric
    from pgdyno.commands.history import show_history

    show_history(runs, Metric(metric), target, workload, json=json)


@plan_app.command("check")
def plan_check(
    plan: PlanArgument, overrides: SetOption = None, on: OnOption = None, budget: BudgetOption = None
) -> None:
    """Say everything that is wrong with a plan, with lines; exit with 3 if anything is."""
    from pgdyno.commands.plan import check

    check(plan, overrides or [], budget=budget, on=on)


@plan_app.command("show")
def plan_show(
    plan: PlanArgument,
    overrides: SetOption = None,
    on: OnOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """List the trials of a plan in order, and the time they need."""
    from pgdyno.commands.plan import show

    show(plan, overrides or [], json=json, budget=budget, on=on)


@plan_app.command("cost")
def plan_cost(plan: PlanArgument, overrides: SetOption = None, on: OnOption = None, json: JsonOption = False) -> None:
    """Say what a plan's rented servers cost, by Amazon's price list."""
    from pgdyno.commands.cost import cost

    cost(plan, overrides or [], json=json, on=on)


@plan_app.command("list")
def plan_list() -> None:
    """List the plans that pgdyno brings."""
    from pgdyno.commands.plan import list_catalogue

    list_catalogue()


@plan_app.command("new")
def plan_new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes; what is there stays.")] = Path(
        "plan.toml"
    ),
    target: Annotated[
        str, typer.Option(metavar="KIND", help="What it measures: embedded (fetched) or local (installed here).")
    ] = "embedded",
) -> None:
    """Write a plan with comments, to begin with."""
    from pgdyno.commands.plan import new

    new(file, target)


@plan_app.command("schema")
def plan_schema() -> None:
    """Print the JSON Schema of plan files, for editors."""
    from pgdyno.commands.plan import schema

    schema()


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(ExitCode.HANGUP if number == signal.SIGHUP else ExitCode.TERMINATED)


def main() -> NoReturn:
    """Runs the command that was typed; ends with a documented exit code."""
    if sys.argv[1:] == ["generator-node"]:
        # what a driver calls on the host of a generator, over SSH; nobody types it
        from pgdyno.cluster.node import main as hold

        sys.exit(hold())
    signal.signal(signal.SIGTERM, _terminate)
    # nohup has it ignored, and so it stays
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)
    try:
        app(standalone_mode=True)
    except PgdynoError as error:
        _say(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        from rich.console import Console

        Console(stderr=True).print("interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has enough of it; the interpreter's own flush must not complain
        sys.stdout = None
        sys.exit(ExitCode.OK)
    sys.exit(ExitCode.OK)


def _say(error: PgdynoError) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("[red]error:[/red] ", end="")
    console.print(error.message, markup=False)
    if isinstance(error, PlanError):
        from pgdyno.plan.show import problem_lines

        for line in problem_lines(error):
            console.print(line, markup=False)
    if error.hint:
        console.print("[dim]hint:[/dim] ", end="")
        console.print(error.hint, markup=False)


if __name__ == "__main__":
    main()
