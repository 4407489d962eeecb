"""`pgdyno list`: the runs of a folder."""

from __future__ import annotations

import json as json_module
from pathlib import Path

from rich.table import Table
from rich.text import Text

from pgdyno.console import Console
from pgdyno.safe_output import visible
from pgdyno.store import RunEntry
from pgdyno.store import list_runs as stored_runs


def list_runs(runs: Path, *, json: bool) -> None:
    """Prints the runs of a folder, newest first; an unreadable run is listed with the reason."""
    entries = stored_runs(runs)
    if json:
        print(json_module.dumps([_as_json(entry) for entry in entries], indent=2))
        return
    console = Console()
    if not entries:
        console.print(f"no runs in {runs}")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    # names are for copying: a terminal that is too narrow cuts the other columns
    table.add_column("run", no_wrap=True, min_width=max(len(entry.name) for entry in entries))
    table.add_column("workload")
    table.add_column("targets")
    rows = [_cells(entry) for entry in entries]
    table.add_column("trials", justify="right", no_wrap=True, min_width=max(len(trials) for *_, trials, _ in rows))
    table.add_column("outcome")
    for name, workload, targets, trials, outcome in rows:
        table.add_row(name, _cut(workload), _cut(targets), trials, outcome)
    with console.paged():
        console.print_table(table)


def _cut(text: str) -> Text:
    """Returns a cell of one line, in a column that gives way."""
    return Text(visible(text), no_wrap=True, overflow="ellipsis")


def _cells(entry: RunEntry) -> list[str]:
    manifest = entry.manifest
    if manifest is None:
        return [entry.name, "", "", "", f"unreadable: {entry.problem}"]
    targets = ", ".join(target.name for target in manifest.targets)
    outcome = manifest.outcome.value if manifest.outcome else "unfinished"
    if manifest.budget is not None and manifest.budget.dropped:
        outcome += " within its budget"
    return [entry.name, manifest.workload, targets, f"{entry.trials_done}/{manifest.trials_planned}", outcome]


def _as_json(entry: RunEntry) -> dict[str, object]:
    manifest = entry.manifest.model_dump(mode="json") if entry.manifest else None
    return {
        "run": str(entry.path),
        "trials": entry.trials_done,
        "problem": entry.problem,
        "manifest": manifest,
    }
