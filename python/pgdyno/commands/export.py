"""`pgdyno export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pgdyno.errors import StoreError, UsageError
from pgdyno.metrics import openmetrics as openmetrics_of
from pgdyno.metrics import read_catalogue
from pgdyno.store import find_run, load_run


def export_run(run: str, runs: Path, *, openmetrics: bool, trial: int | None, output: Path | None) -> None:
    """Writes the seconds of a run. Raises UsageError, StoreError, EngineError."""
    if not openmetrics:
        raise UsageError(
            "there is no format to write", hint="give --openmetrics; pgdyno report writes HTML, CSV and Markdown"
        )
    pieces = openmetrics_of(load_run(find_run(run, runs)), trial, read_catalogue())
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    else:
        _write(output, pieces)


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Whole or not at all: it may be large, so that it is never in memory as a whole."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(pieces)
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}", hint="choose another place for it") from error
    finally:
        partial.unlink(missing_ok=True)
