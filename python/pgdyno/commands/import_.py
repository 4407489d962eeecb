"""`pgdyno import`."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from pgdyno.importers.tabular import mapping_of
from pgdyno.importers.write import import_files

UNREAD_SHOWN = 20


def import_(files: Sequence[Path], into: Path, *, target: str | None, mapping: Sequence[str], json: bool) -> None:
    """Imports `files` as one run and says where it is. Raises StoreError and UsageError."""
    with Console(stderr=True, highlight=False).status("reading"):
        result = import_files(files, into, target=target, mapping=mapping_of(mapping))
    if json:
        unread = [line.model_dump(mode="json") for line in result.unread]
        print(
            json_module.dumps({"run": str(result.run), "trials": result.trials, "unread": unread}, ensure_ascii=False)
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{result.trials} trials are in {result.run}", markup=False)
    if result.unread:
        console.print(f"{len(result.unread)} lines with figures were not understood:", markup=False)
    for line in result.unread[:UNREAD_SHOWN]:
        console.print(f"  {line.file}:{line.line}: {line.text}", markup=False)
    if len(result.unread) > UNREAD_SHOWN:
        console.print(f"  and {len(result.unread) - UNREAD_SHOWN} more; --json lists all", markup=False)
