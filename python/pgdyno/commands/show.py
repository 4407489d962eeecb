"""`pgdyno list`, `pgdyno show` and `pgdyno history`: stored runs."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from rich.table import Table

from pgdyno.analyse.history import History, HistoryPoint, histories
from pgdyno.analyse.pairs import Metric
from pgdyno.analyse.timeline import RunSource
from pgdyno.console import Console
from pgdyno.errors import StoreError, UsageError
from pgdyno.report.analysis import differing, history_lines
from pgdyno.report.answers.limits import limit_lines
from pgdyno.report.digest import digest
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.full_report import judged_run, one_trial
from pgdyno.report.tables import sweep_table, text_lines
from pgdyno.report.terminal.run_report import print_report
from pgdyno.report.terminal.timeline import steps_for, timeline_lines
from pgdyno.store import RunData, RunEntry, find_run, load_run
from pgdyno.store import list_runs as stored_runs
from pgdyno.store.probe_queries import seen_beside


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


def show_history(folder: Path, metric: Metric, target: str | None, workload: str | None, *, json: bool) -> None:
    """Prints the histories of a folder of runs. Raises StoreError and UsageError."""
    if not folder.is_dir():
        raise StoreError(f"folder {folder} does not exist", hint="name a folder that contains runs")
    runs = {entry.name: load_run(entry.path) for entry in stored_runs(folder) if entry.manifest is not None}
    chosen = [run for run in runs.values() if workload in (None, run.manifest.workload)]
    found = histories([_of_target(run, target) for run in chosen], metric)
    if json:
        print(json_module.dumps([_history_json(each, runs) for each in found], indent=2))
        return
    if not found:
        raise UsageError(
            f"{folder} has no point that was measured by two runs",
            hint="a history compares runs with the same workload, point and trial length",
        )
    console = Console()
    for each in found:
        differences = {change.at: _differences(each, change.at, runs) for change in each.changes or ()}
        for at, line in enumerate(history_lines(each, metric, differences)):
            console.print(line, style="bold" if at == 0 else "", soft_wrap=True)


class _OfTarget:
    def __init__(self, run: RunData, target: str) -> None:
        self._run = run
        self.trials = [trial for trial in run.trials if trial.target == target]
        self.manifest = run.manifest
        self.intervals, self.histograms, self.statements = run.intervals, run.histograms, run.statements


def _of_target(run: RunData, target: str | None) -> RunData | _OfTarget:
    return run if target is None else _OfTarget(run, target)


def _differences(of: History, at: int, runs: dict[str, RunData]) -> list[str]:
    """Returns how the fingerprints of the runs before and after a change differ."""
    before, after = (_run_of(each, runs) for each in of.points[at - 1 : at + 1])
    if before is None or after is None:
        return []
    return differing(before.manifest, after.manifest)


def _run_of(point: HistoryPoint, runs: dict[str, RunData]) -> RunData | None:
    return next((run for run in runs.values() if run.manifest.run == point.run), None)


def _history_json(of: History, runs: dict[str, RunData]) -> dict[str, object]:
    return {
        "label": of.label,
        "workload": of.workload,
        "points": [asdict(point) | {"started_at": point.started_at.isoformat()} for point in of.points],
        "changes": None
        if of.changes is None
        else [
            {**asdict(change), "ratio": change.ratio, "run": of.points[change.at].run,
             "differences": _differences(of, change.at, runs)}
            for change in of.changes
        ],
    }  # fmt: skip
