"""`pgdyno import`, `list`, `show`, `report`, `export`, `copy` and `serve`: one function per command."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.arguments.options import (
    DEFAULT_RUNS,
    ClusterOption,
    JsonOption,
    RunArgument,
    RunsOption,
    complete_runs,
)
from pgdyno.errors import UsageError
from pgdyno.report.translation import Language


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Outputs, logs, documents or CSV tables; local or at s3://, gs:// or az://."
        ),
    ],
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders, local, s3://, gs:// or az://."
        ),
    ] = str(DEFAULT_RUNS),
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the target, instead of names from headings.")
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="Map a CSV column to a known name. Repeatable."),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help='Print {"run": path, "trials": n, "unread": [...], "left_out": [...], "notes": [...]}.'
        ),
    ] = False,
    cluster: ClusterOption = None,
) -> None:
    """Import results of other tools as a run.

    Reads outputs of pgbench, sysbench, HammerDB and BenchBase, and documents and tables with figures.
    """
    from pgdyno.commands.import_export import import_ as bring

    bring(files, into, target=target, mapping=mapping or [], json=json, cluster=cluster or [])


def list_(runs: RunsOption = DEFAULT_RUNS, json: JsonOption = False) -> None:
    """List the runs of a folder, newest first."""
    from pgdyno.commands.list_runs import list_runs

    list_runs(runs, json=json)


def show(
    run: RunArgument = "latest",
    runs: RunsOption = DEFAULT_RUNS,
    json: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the trials as CSV.")] = False,
    layout: Annotated[
        Literal["points", "sysbench"], typer.Option(help="Table layout: points, or trials with sysbench's columns.")
    ] = "points",
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", help="Plot one trial over time: the median trial at the point with the highest throughput."
        ),
    ] = False,
    trial: Annotated[int | None, typer.Option(metavar="NUMBER", help="Plot this trial over time.")] = None,
) -> None:
    """Show a run's results in the terminal.

    Prints a table of points and a scaling chart, or one trial over time.
    """
    from pgdyno.commands.support.kept_summary import print_kept

    is_plain = not (json or csv or timeline or layout != "points" or trial is not None)
    if is_plain and print_kept(run, runs):
        return
    from pgdyno.commands.show import show_run, show_trial

    if timeline or trial is not None:
        if json or csv or layout != "points":
            raise UsageError("--timeline and --trial plot a chart: remove --json, --csv and --layout")
        show_trial(run, runs, trial)
        return
    if sum((json, csv, layout != "points")) > 1:
        raise UsageError("--json, --csv and --layout exclude each other: use one")
    show_run(run, runs, json=json, csv=csv, layout=layout)


def report(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs, local or at s3://bucket/folder; the first is compared with the others.",
            autocompletion=complete_runs,
        ),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    html: Annotated[
        str | None,
        typer.Option(
            metavar="LOCATION",
            help="Write the HTML report to this file; with --each, to this folder.  [default: in the run folder]",
        ),
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a PDF to this file: two pages and an appendix.")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown of 80 columns to this file.")] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the trials as CSV to this file; with --each, those of all runs."),
    ] = None,
    price: Annotated[Path | None, typer.Option(metavar="FILE", help="Read each target's price from this file.")] = None,
    language: Annotated[Language, typer.Option(help="Language of the report.")] = Language.ENGLISH,
    each: Annotated[
        bool, typer.Option("--each", help="Write one report per run; RUN may be a folder or a pattern.")
    ] = False,
    cluster: ClusterOption = None,
) -> None:
    """Write the report of one or several runs.

    One HTML file that works offline and compares several runs.
    """
    from pgdyno.commands.report import Forms, write_each, write_report

    what, forms = named or ["latest"], Forms(html, pdf, md, csv)
    if each:
        raise typer.Exit(write_each(what, runs, forms, price=price, language=language, cluster=cluster or []))
    if cluster:
        raise UsageError("--cluster needs several reports", hint="use --each")
    write_report(what, runs, forms, price=price, language=language)


def export(
    run: RunArgument = "latest",
    openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="Write OpenMetrics text with timestamps, for Prometheus.")
    ] = False,
    trial: Annotated[int | None, typer.Option(metavar="N", help="Export only this trial.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.  [default: standard output]")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Export a run's per-second metrics."""
    from pgdyno.commands.import_export import export_run

    export_run(run, runs, openmetrics=openmetrics, trial=trial, output=output)


def copy(
    named: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, folders of runs, or patterns.", autocompletion=complete_runs),
    ],
    place: Annotated[
        str,
        typer.Argument(metavar="LOCATION", help="Destination. Either it or the runs must be at s3://bucket/folder."),
    ],
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Copy runs to or from object storage.

    Each run is copied completely or not at all.
    """
    from pgdyno.commands.import_export import copy_runs

    raise typer.Exit(copy_runs(named, place, runs))


def serve(
    runs: Annotated[
        Path, typer.Argument(metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.")
    ] = DEFAULT_RUNS,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Listen at ADDRESS[:PORT] or :PORT.  [default: 127.0.0.1:8432]"),
    ] = None,
) -> None:
    """Show runs in a browser.

    Serves the current run and all stored runs. Press Ctrl-C to stop.
    """
    from pgdyno.commands.serve import serve_runs

    serve_runs(runs, listen)
