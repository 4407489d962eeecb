"""The report of a run in the terminal as the run kept it: `pgdyno show` prints it without computing it again."""

from __future__ import annotations

from pathlib import Path

from pgdyno.console import Console
from pgdyno.report.terminal.summary_file import Layout, print_lines, read_summary
from pgdyno.store.find_runs import find_path
from pgdyno.store.object_storage.address import is_remote


def print_kept(run: str, runs: Path) -> bool:
    """Prints the report that the run keeps; returns whether it has one for this terminal. Raises StoreError."""
    if is_remote(run):
        return False
    console = Console()
    lines = read_summary(find_path(run, runs), Layout.of(console))
    if lines is None:
        return False
    with console.paged():
        print_lines(lines, console)
    return True
