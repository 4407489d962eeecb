"""`pgdyno import`."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pgdyno.commands.spread import certain, over
from pgdyno.console import Console
from pgdyno.importers.tabular import mapping_of
from pgdyno.importers.write import import_files
from pgdyno.store import RunFolder
from pgdyno.store.named import matching_objects
from pgdyno.store.remote.address import Address, is_remote
from pgdyno.store.remote.runs import upload

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
            "unread": [line.model_dump(mode="json") for line in result.unread],
            "left_out": [line.model_dump(mode="json") for line in result.left_out],
            "notes": result.notes,
        }
        print(json_module.dumps(said, ensure_ascii=False))
        return
    console = Console(soft_wrap=True)
    console.print(f"{result.trials} trials written to {run}")
    for note in result.notes:
        if "see manifest.json for the list" not in note:
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
