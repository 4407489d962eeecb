"""`pgdyno history`: one point over the runs of a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pgdyno.analyse.history import History, histories
from pgdyno.analyse.pairs import Metric
from pgdyno.commands.support.cluster_and_generator_hosts import Unread, each_run, say_unread
from pgdyno.console import Console
from pgdyno.errors import ExitCode, StoreError, UsageError
from pgdyno.generators.parallel_map import in_line
from pgdyno.mounts import is_folder, without_folder
from pgdyno.report.analysis import differing, history_lines
from pgdyno.safe_output import print_json
from pgdyno.store import RunData, list_runs, load_run
from pgdyno.store.run_folder import MANIFEST


def show_history(
    folder: Path, metric: Metric | None, target: str | None, workload: str | None, *, json: bool
) -> ExitCode:
    """Prints the histories of a folder of runs; reports runs that cannot be read, and leaves them out.

    Raises StoreError and UsageError.
    """
    if not is_folder(folder):
        raise StoreError(without_folder(folder), hint="name a folder that contains runs")
    runs: dict[str, RunData] = {}
    unread: list[Unread] = []
    places = [str(entry.path) for entry in list_runs(folder) if (entry.path / MANIFEST).exists()]
    for place, run in each_run(in_line, lambda place: load_run(Path(place)), places):
        if isinstance(run, Unread):
            unread.append(run)
        else:
            runs[Path(place).name] = run
    say_unread(unread)
    code = unread[0].exit_code if unread else ExitCode.OK
    chosen = {name: run for name, run in runs.items() if workload in (None, run.manifest.workload)}
    of_target = {name: _of_target(run, target) for name, run in chosen.items()}
    # the first run of a folder begins its histories
    found = histories(of_target, metric, fewest=min(2, len(runs)))
    if json:
        print_json([_history_json(each, runs) for each in found], indent=2)
        return code
    if not found:
        # without a filter, the command is valid, and the folder lacks runs
        error = StoreError if target is None and workload is None else UsageError
        if not places:
            raise error(f"{folder} has no runs", hint="pgdyno run quick makes one")
        raise error(
            f"{folder} has no point that at least two runs measured",
            hint="a history compares runs with the same workload, point and trial length",
        )
    console = Console()
    for each in found:
        differences = {change.at: _differences(each, change.at, runs) for change in each.changes or ()}
        for at, line in enumerate(history_lines(each, differences)):
            console.print(line, style="bold" if at == 0 else "", soft_wrap=True)
    return code


class _OfTarget:
    def __init__(self, run: RunData, target: str) -> None:
        self._run = run
        self.trials = [trial for trial in run.trials if trial.target == target]
        self.manifest = run.manifest
        self.seconds, self.intervals = run.seconds, run.intervals
        self.histograms, self.statements = run.histograms, run.statements


def _of_target(run: RunData, target: str | None) -> RunData | _OfTarget:
    return run if target is None else _OfTarget(run, target)


def _differences(of: History, at: int, runs: dict[str, RunData]) -> list[str]:
    """Returns how the fingerprints of the runs before and after a change differ."""
    before, after = (runs[each.run] for each in of.points[at - 1 : at + 1])
    return differing(before.manifest, after.manifest)


def _history_json(of: History, runs: dict[str, RunData]) -> dict[str, object]:
    return {
        "label": of.label,
        "workload": of.workload,
        "metric": of.metric.value,
        "points": [asdict(point) | {"started_at": point.started_at.isoformat()} for point in of.points],
        "changes": None
        if of.changes is None
        else [
            {**asdict(change), "ratio": change.ratio, "run": of.points[change.at].run,
             "differences": _differences(of, change.at, runs)}
            for change in of.changes
        ],
    }  # fmt: skip
