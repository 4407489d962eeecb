"""`pgdyno import`, `pgdyno export` and `pgdyno copy`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, UsageError

UNREAD_SHOWN = 20


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
    ] = str(options.DEFAULT_RUNS),
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
    cluster: options.Cluster = None,
) -> None:
    """Import results of other tools as a run.

    Reads outputs of pgbench, sysbench, HammerDB, BenchBase and PostgresBench, and documents and tables with figures.
    """
    from pgdyno.commands.support.each_run import executor_for, require_results
    from pgdyno.console import Console
    from pgdyno.importers.csv_tables import mapping_of
    from pgdyno.importers.write import OF_LISTS, import_files
    from pgdyno.messages import messages_json
    from pgdyno.safe_output import print_json
    from pgdyno.store.object_storage.address import is_remote
    from pgdyno.store.object_storage.find_remote import matching_objects
    from pgdyno.units import quantity

    places = [place for file in files for place in (matching_objects(file) if is_remote(file) else [file])]
    with executor_for(cluster or ()) as way, _stored_at(into) as (folder, brought):
        with Console(stderr=True).status("reading"):
            result = import_files(
                places, folder, target=target, mapping=mapping_of(mapping or ()), over=require_results(way)
            )
        run = brought(result.run)
    if json:
        said = {
            "run": run,
            "trials": result.trials,
            # a line that is shown verbatim has no id
            "unread": [line.model_dump(mode="json", exclude_defaults=True) for line in result.unread],
            "left_out": [line.model_dump(mode="json", exclude_defaults=True) for line in result.left_out],
            **messages_json("notes", result.notes),
        }
        print_json(said)
        return
    console = Console(soft_wrap=True)
    console.print(f"{quantity(result.trials, 'trial')} written to {run}")
    for note in result.notes:
        if note.id not in OF_LISTS:
            console.print(f"note: {note}")
    for line in result.left_out:
        console.print(f"  {line.file}:{line.line}: ignored: {line.text}")
    if result.unread:
        console.print(f"lines with figures that the importer does not understand: {len(result.unread)}")
    for line in result.unread[:UNREAD_SHOWN]:
        console.print(f"  {line.file}:{line.line}: {line.text}")
    if len(result.unread) > UNREAD_SHOWN:
        console.print(f"  and {len(result.unread) - UNREAD_SHOWN} more; --json lists all")


@contextmanager
def _stored_at(into: str) -> Iterator[tuple[Path, Callable[[Path], str]]]:
    """Yield a folder for a new run, and what moves the run into `into` and returns its location."""
    from tempfile import TemporaryDirectory

    from pgdyno.store import RunFolder
    from pgdyno.store.object_storage.address import Address, is_remote
    from pgdyno.store.object_storage.runs import upload

    if not is_remote(into):
        yield Path(into), str
        return
    at = Address.parse(into)
    with TemporaryDirectory(prefix="pgdyno-import-") as folder:
        yield Path(folder), lambda run: str(upload(RunFolder.open(run), at))


def export(
    run: options.Run = "latest",
    openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="Write OpenMetrics text with timestamps, for Prometheus.")
    ] = False,
    trial: Annotated[int | None, typer.Option(metavar="N", help="Export only this trial.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write.  [default: standard output]")
    ] = None,
    runs: options.Runs = options.DEFAULT_RUNS,
) -> None:
    """Export a run's per-second metrics."""
    from pgdyno import metrics
    from pgdyno.commands.support.report_files import write_pieces
    from pgdyno.safe_output import print_utf8
    from pgdyno.store import find_run, load_run

    if not openmetrics:
        raise UsageError(
            "no output format given", hint="use --openmetrics; for HTML, CSV and Markdown, use pgdyno report"
        )
    pieces = metrics.openmetrics(load_run(find_run(run, runs)), trial, metrics.read_catalogue())
    if output is None:
        print_utf8(pieces)
    else:
        write_pieces(output, pieces)


def copy(
    named: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, folders of runs, or patterns.", autocompletion=options.complete_runs),
    ],
    place: Annotated[
        str,
        typer.Argument(metavar="LOCATION", help="Destination. Either it or the runs must be at s3://bucket/folder."),
    ],
    runs: options.Runs = options.DEFAULT_RUNS,
) -> ExitCode:
    """Copy runs to or from object storage.

    Each run is copied completely or not at all.
    """
    from pgdyno.commands.support.each_run import Unread, each_run, in_line, say_unread
    from pgdyno.console import Console
    from pgdyno.store.find_runs import named_runs
    from pgdyno.store.object_storage.address import Address, is_remote
    from pgdyno.store.object_storage.runs import copy_to

    if is_remote(place):
        # printed once, not for each run
        Address.parse(place)
    found = named_runs(named, runs)
    if not is_remote(place) and not all(is_remote(each) for each in found.places):
        raise UsageError("both the runs and the destination are on this machine", hint="use cp -r")
    console = Console()
    unread: list[Unread] = []
    for _, where in each_run(in_line, partial(copy_to, place), found.places):
        if isinstance(where, Unread):
            unread.append(where)
        else:
            console.print(where, soft_wrap=True)
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK
