"""`pgdyno import`, `pgdyno export` and `pgdyno copy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pgdyno.commands.support.cluster_and_generator_hosts import Unread, certain, each_run, over, say_unread
from pgdyno.commands.support.report_files import write_pieces
from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.generators.parallel_map import in_line
from pgdyno.importers.csv_tables import mapping_of
from pgdyno.importers.write import OF_LISTS, import_files
from pgdyno.messages import message_json
from pgdyno.metrics import openmetrics as openmetrics_of
from pgdyno.metrics import read_catalogue
from pgdyno.mounts import expanded
from pgdyno.records import Outcome
from pgdyno.safe_output import print_json, print_utf8
from pgdyno.store import RunFolder, find_run, load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage.address import Address, is_remote
from pgdyno.store.object_storage.find_remote import matching_objects
from pgdyno.store.object_storage.runs import copy_run, upload
from pgdyno.units import counted

UNREAD_SHOWN = 20


def import_(
    files: Sequence[str],
    into: str,
    *,
    target: str | None,
    mapping: Sequence[str],
    json: bool,
    cluster: Sequence[str] = (),
) -> None:
    """Imports `files` as one run and prints its location. Raises PgdynoError."""
    places = [place for file in files for place in (matching_objects(file) if is_remote(file) else [file])]
    with over(cluster) as way, stored_at(into) as (folder, brought):
        with Console(stderr=True).status("reading"):
            result = import_files(places, folder, target=target, mapping=mapping_of(mapping), over=certain(way))
        run = brought(result.run)
    if json:
        said = {
            "run": run,
            "trials": result.trials,
            # a line that is shown verbatim has no id
            "unread": [line.model_dump(mode="json", exclude_defaults=True) for line in result.unread],
            "left_out": [line.model_dump(mode="json", exclude_defaults=True) for line in result.left_out],
            "notes": [str(note) for note in result.notes],
            "note_details": [message_json(note) for note in result.notes],
        }
        print_json(said)
        return
    console = Console(soft_wrap=True)
    console.print(f"{counted(result.trials, 'trial')} written to {run}")
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
def stored_at(into: str) -> Iterator[tuple[Path, Callable[[Path], str]]]:
    """Yields a folder for a new run; afterwards moves the run into `into` and prints its location."""
    if not is_remote(into):
        yield Path(into), str
        return
    at = Address.of(into)
    with TemporaryDirectory(prefix="pgdyno-import-") as folder:
        yield Path(folder), lambda run: str(upload(RunFolder.open(run), at))


def export_run(run: str, runs: Path, *, openmetrics: bool, trial: int | None, output: Path | None) -> None:
    """Writes the per-second metrics of a run. Raises UsageError, StoreError, EngineError."""
    if not openmetrics:
        raise UsageError(
            "no output format given", hint="use --openmetrics; for HTML, CSV and Markdown, use pgdyno report"
        )
    pieces = openmetrics_of(load_run(find_run(run, runs)), trial, read_catalogue())
    if output is None:
        print_utf8(pieces)
    else:
        write_pieces(output, pieces)


def copy_runs(named: Sequence[str], to: str, runs: Path) -> ExitCode:
    """Copies each run into `to` and prints its new location; reports the runs that cannot be copied.

    The exit code is that of the first failure. Raises StoreError and UsageError.
    """
    if is_remote(to):
        # printed once, not for each run
        Address.of(to)
    found = named_runs(named, runs)
    if not is_remote(to) and not all(is_remote(place) for place in found.places):
        raise UsageError("both the runs and the destination are on this machine", hint="use cp -r")
    console = Console()
    unread: list[Unread] = []
    for _, where in each_run(in_line, partial(_copied, to), found.places):
        if isinstance(where, Unread):
            unread.append(where)
        else:
            console.print(where, soft_wrap=True)
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK


def _copied(to: str, place: str) -> str:
    if not is_remote(to):
        return str(copy_run(Address.of(place), expanded(to)).path)
    at = Address.of(to)
    if not is_remote(place):
        return str(_uploaded(RunFolder.open(Path(place)), at))
    with TemporaryDirectory(prefix="pgdyno-copy-") as folder:
        return str(upload(copy_run(Address.of(place), Path(folder)), at))


def _uploaded(folder: RunFolder, at: Address) -> Address:
    # an unfinished run may be running, or may be resumed during the copy
    with nullcontext() if folder.manifest.outcome is Outcome.FINISHED else folder.locked():
        return upload(folder, at)
