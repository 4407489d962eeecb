"""`pgdyno history`: follows points over all runs of a folder and detects changes of their level."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path

from pgdyno.analyse.history import History, HistoryPoint, histories
from pgdyno.analyse.metric import Metric
from pgdyno.console import Console
from pgdyno.errors import StoreError, UsageError
from pgdyno.report.history import differing, history_lines
from pgdyno.store import RunData, load_run
from pgdyno.store import list_runs as stored_runs


def show_history(folder: Path, metric: Metric, target: str | None, workload: str | None, *, json: bool) -> None:
    """Prints the histories of a folder of runs. Raises StoreError and UsageError."""
    if not folder.is_dir():
        raise StoreError(f"folder {folder} does not exist", hint="name a folder that contains runs")
    runs = {entry.name: load_run(entry.path) for entry in stored_runs(folder) if entry.manifest is not None}
    chosen = [run for run in runs.values() if workload in (None, run.manifest.workload)]
    found = histories([_of_target(run, target) for run in chosen], metric)
    if json:
        print(json_module.dumps([_as_json(each, runs) for each in found], indent=2))
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


def _as_json(of: History, runs: dict[str, RunData]) -> dict[str, object]:
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
