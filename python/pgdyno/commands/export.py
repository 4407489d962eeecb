"""`pgdyno export`."""

from __future__ import annotations

from pathlib import Path

from pgdyno.commands.output import write_pieces
from pgdyno.errors import UsageError
from pgdyno.metrics import openmetrics as openmetrics_of
from pgdyno.metrics import read_catalogue
from pgdyno.store import find_run, load_run
from pgdyno.terminal import print_utf8


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
