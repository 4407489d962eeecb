"""`pgdyno history`: one point over the runs of a folder."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, StoreError, UsageError

if TYPE_CHECKING:
    from pgdyno.analyse.history import History
    from pgdyno.store import RunData


def history(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="Folder of run folders, as --runs.")] = None,
    runs: options.Runs = options.DEFAULT_RUNS,
    metric: options.Metric = None,
    target: Annotated[str | None, typer.Option(metavar="NAME", help="Show only trials of this target.")] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME", help="Show only runs of this workload.")] = None,
    json: options.Json = False,
) -> ExitCode:
    """Track points over many runs.

    Reports at which runs their level changed.
    """
    from pgdyno.analyse.history import histories
    from pgdyno.analyse.pairs import Metric
    from pgdyno.commands.support.each_run import Unread, each_run, in_line, say_unread
    from pgdyno.console import Console
    from pgdyno.mounts import is_folder, without_folder
    from pgdyno.report.analysis import history_lines
    from pgdyno.safe_output import print_json
    from pgdyno.store import list_runs, load_run
    from pgdyno.store.find_runs import read_report_head
    from pgdyno.store.run_folder import MANIFEST

    runs = folder or runs
    if not is_folder(runs):
        raise StoreError(without_folder(runs), hint="name a folder that contains runs")
    read: dict[str, RunData] = {}
    unread: list[Unread] = []
    places = [str(entry.path) for entry in list_runs(runs) if (entry.path / MANIFEST).exists()]
    for place, run in each_run(in_line, lambda place: load_run(Path(place)), places):
        if isinstance(run, Unread):
            unread.append(run)
        else:
            read[Path(place).name] = run
    say_unread(unread)
    code = unread[0].exit_code if unread else ExitCode.OK
    chosen = {
        name: run if target is None else replace(run, trials=[trial for trial in run.trials if trial.target == target])
        for name, run in read.items()
        if workload in (None, run.manifest.workload)
    }
    # the first run of a folder begins its histories
    found = histories(chosen, Metric(metric) if metric else None, fewest=min(2, len(read)))
    not_valid = {name for name in read if read_report_head(runs / name).is_not_valid}
    if json:
        print_json([_history_json(each, read, not_valid) for each in found], indent=2)
        return code
    if not found:
        # without a filter, the command is valid, and the folder lacks runs
        error = StoreError if target is None and workload is None else UsageError
        if not places:
            raise error(f"{runs} has no runs", hint="pgdyno run quick makes one")
        raise error(
            f"{runs} has no point that at least two runs measured",
            hint="a history compares runs with the same workload, point and trial length",
        )
    console = Console()
    for each in found:
        differences = {change.at: _differences(each, change.at, read) for change in each.changes or ()}
        for at, line in enumerate(history_lines(each, differences, not_valid)):
            console.print(line, style="bold" if at == 0 else "", soft_wrap=True)
    return code


def _differences(of: "History", at: int, runs: "Mapping[str, RunData]") -> list[str]:
    """Return how the fingerprints of the runs before and after a change differ."""
    from pgdyno.report.analysis import fingerprint_changes

    before, after = (runs[each.run] for each in of.points[at - 1 : at + 1])
    return fingerprint_changes(before.manifest, after.manifest)


def _history_json(of: "History", runs: "Mapping[str, RunData]", not_valid: Collection[str]) -> dict[str, Any]:
    return {
        "label": of.label,
        "workload": of.workload,
        "metric": of.metric.value,
        "points": [
            asdict(point) | {"started_at": point.started_at.isoformat(), "valid": point.run not in not_valid}
            for point in of.points
        ],
        "changes": None
        if of.changes is None
        else [
            {**asdict(change), "ratio": change.ratio, "run": of.points[change.at].run,
             "differences": _differences(of, change.at, runs)}
            for change in of.changes
        ],
    }  # fmt: skip
