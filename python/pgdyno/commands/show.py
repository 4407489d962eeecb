"""`pgdyno list` and `pgdyno show`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Literal

from rich.table import Table

from pgdyno.analyse.source import RunSource
from pgdyno.console import Console
from pgdyno.errors import UsageError
from pgdyno.report.digest import digest
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.limits import limit_lines
from pgdyno.report.one_trial import one_trial
from pgdyno.report.terminal import print_report
from pgdyno.report.terminal_timeline import steps_for, timeline_lines
from pgdyno.report.whole import judged_run
from pgdyno.report.workload_tables import sweep_table, text_lines
from pgdyno.store import RunEntry, find_run, load_run
from pgdyno.store import list_runs as stored_runs
from pgdyno.store.limits import seen_beside


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
    for heading in ("run", "workload", "targets"):
        table.add_column(heading, overflow="fold")
    table.add_column("trials", justify="right")
    table.add_column("outcome")
    for entry in entries:
        table.add_row(*_cells(entry))
    console.print(table)


def _cells(entry: RunEntry) -> list[str]:
    manifest = entry.manifest
    if manifest is None:
        return [entry.name, "", "", "", f"unreadable: {entry.problem}"]
    targets = ", ".join(target.name for target in manifest.targets)
    outcome = manifest.outcome.value if manifest.outcome else "unfinished"
    return [entry.name, manifest.workload, targets, f"{entry.trials_done}/{manifest.trials_planned}", outcome]


def _as_json(entry: RunEntry) -> dict[str, object]:
    manifest = entry.manifest.model_dump(mode="json") if entry.manifest else None
    return {
        "run": str(entry.path),
        "trials": entry.trials_done,
        "problem": entry.problem,
        "manifest": manifest,
    }


Layout = Literal["points", "sysbench"]
"""Layouts of `pgdyno show`: one row per point, or one row per trial with sysbench's columns."""


def show_run(run: str, runs: Path, *, json: bool, csv: bool, layout: Layout = "points") -> None:
    data = load_run(find_run(run, runs))
    if layout == "sysbench":
        _show_sweep(data)
    elif json:
        print(to_json(*judged_run(data)))
    elif csv:
        print(to_csv(data), end="")
    else:
        of, extras = judged_run(data)
        print_report(of, Console(), extras, limit_lines(seen_beside(data)))


def show_trial(run: str, runs: Path, number: int | None) -> None:
    """Plots one trial over time: `number`, or the median trial of the highest peak.

    Raises StoreError and UsageError.
    """
    console = Console()
    is_plain = not console.is_terminal or not console.encoding.lower().startswith("utf")
    width = None if is_plain else console.width
    trial, cores = one_trial(load_run(find_run(run, runs)), number, steps_for(width))
    for line in timeline_lines(trial, cores, width, colours=not console.no_color):
        console.print(line, soft_wrap=True)


def _show_sweep(run: RunSource) -> None:
    table = sweep_table(digest(run))
    if table is None:
        hint = "remove --layout, which needs a workload with lua or a name such as oltp-read-write"
        raise UsageError(f"run {run.manifest.run} has no trial with sysbench's statement counts", hint=hint)
    print("\n".join(text_lines(table)))
