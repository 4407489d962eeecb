"""`pgdyno import`, `list`, `show`, `report`, `export`, `copy` and `serve`: arguments in, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.shell.options import DEFAULT_RUNS, ClusterOption, JsonOption, RunArgument, RunsOption
from pgdyno.errors import UsageError
from pgdyno.report.texts import Language


def import_(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Outputs, logs, documents or CSV tables; here or at s3://bucket/key."),
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
    json: Annotated[
        bool,
        typer.Option(
            "--json", help='Print {"run": path, "trials": n, "unread": [...], "left_out": [...], "notes": [...]}.'
        ),
    ] = False,
    cluster: ClusterOption = None,
) -> None:
    """Make a run folder of what other tools wrote.

    Outputs of pgbench, sysbench, HammerDB and BenchBase are read, and documents and tables with figures.
    """
    from pgdyno.commands.import_ import import_ as bring

    bring(files, into, target=target, mapping=mapping or [], json=json, cluster=cluster or [])


def list_(runs: RunsOption = DEFAULT_RUNS, json: JsonOption = False) -> None:
    """List the runs of a folder, newest first."""
    from pgdyno.commands.show import list_runs

    list_runs(runs, json=json)


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
    """Show what a run measured, in the terminal.

    A table of points and a scaling chart, or one trial over time.
    """
    from pgdyno.commands.show import show_run, show_trial

    if timeline or trial is not None:
        if json or csv or layout != "points":
            raise UsageError("--timeline and --trial draw: leave out --json, --csv and --layout")
        show_trial(run, runs, trial)
        return
    if sum((json, csv, layout != "points")) > 1:
        raise UsageError("--json, --csv and --layout are three forms of one table: name one")
    show_run(run, runs, json=json, csv=csv, layout=layout)


def report(
    named: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Runs, here or at s3://bucket/folder; further ones stand beside the first."),
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    html: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where the HTML report goes; with --each, a folder.  [default: in the run folder]",
        ),
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as a PDF, too: two pages and an appendix.")
    ] = None,
    md: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown of 80 columns, too.")] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trials as CSV, too: with --each, of all.")
    ] = None,
    price: Annotated[Path | None, typer.Option(metavar="FILE", help="What each target costs.")] = None,
    language: Annotated[Language, typer.Option(help="What the report is written in.")] = Language.ENGLISH,
    each: Annotated[
        bool, typer.Option("--each", help="A report of every run that is named, folders of runs and patterns too.")
    ] = False,
    cluster: ClusterOption = None,
) -> None:
    """Write the report of a run, or of several.

    One HTML file that works offline; several runs stand beside each other in it.
    """
    from pgdyno.commands.report import Forms, write_each, write_report

    what, forms = named or ["latest"], Forms(html, pdf, md, csv)
    if each:
        raise typer.Exit(write_each(what, runs, forms, price=price, language=language, cluster=cluster or []))
    if cluster:
        raise UsageError("one report is written here", hint="--cluster goes with --each")
    write_report(what, runs, forms, price=price, language=language)


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
    """Write a run's seconds for other programs."""
    from pgdyno.commands.export import export_run

    export_run(run, runs, openmetrics=openmetrics, trial=trial, output=output)


def copy(
    named: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, folders of runs, or patterns.")],
    place: Annotated[str, typer.Argument(metavar="PLACE", help="Where they go; one of both is s3://bucket/folder.")],
    runs: RunsOption = DEFAULT_RUNS,
) -> None:
    """Copy runs to object storage, or from there.

    A run is there whole, or not at all."""
    from pgdyno.commands.copy import copy_runs

    raise typer.Exit(copy_runs(named, place, runs))


def serve(
    runs: Annotated[
        Path, typer.Argument(metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.")
    ] = DEFAULT_RUNS,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Listen there: ADDRESS[:PORT] or :PORT.  [default: 127.0.0.1:8432]"),
    ] = None,
) -> None:
    """Show runs in a browser.

    The one that goes on, and all that are stored. Ends at Ctrl-C.
    """
    from pgdyno.commands.serve import serve_runs

    serve_runs(runs, listen)
