"""`pgdyno list`: the runs of a folder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pgdyno.commands.support import options
from pgdyno.errors import StoreError

if TYPE_CHECKING:
    from rich.table import Table

    from pgdyno.store import RunEntry

_HEADINGS = ("run", "workload", "targets", "trials", "outcome")
_LONGEST_WORD = 12
"""Longer words of an outcome are paths in the reason why a run cannot be read."""


def list_(runs: options.Runs = options.DEFAULT_RUNS, json: options.Json = False) -> None:
    """List the runs of a folder, newest first."""
    from pgdyno.console import Console
    from pgdyno.mounts import is_folder, without_folder
    from pgdyno.safe_output import print_json, visible
    from pgdyno.store import list_runs

    # the default folder may be missing
    if runs != options.DEFAULT_RUNS and not is_folder(runs):
        raise StoreError(without_folder(runs), hint="name a folder that contains runs")
    entries = list_runs(runs)
    if json:
        print_json([_entry_json(entry) for entry in entries], indent=2)
        return
    console = Console()
    if not entries:
        console.print(f"no runs in {runs}")
        return
    rows = [_cells(entry) for entry in entries]
    table = _table(rows)
    is_narrow = console.is_terminal and sum(_least_widths(rows)) + 2 * (len(_HEADINGS) - 1) > console.width
    with console.paged():
        if not is_narrow:
            console.print_table(table)
            return
        for name, workload, targets, trials, outcome in rows:
            others = [workload, targets, f"{trials} trials" if trials else "", outcome]
            console.print(visible(name), style="bold", soft_wrap=True)
            console.print(visible("  " + "; ".join(each for each in others if each)))


def _least_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    whole = {heading: max(len(row[at]) for row in rows) for at, heading in enumerate(_HEADINGS)}
    outcome = max(len(word) for row in rows for word in [*row[-1].split(" "), "outcome"] if len(word) <= _LONGEST_WORD)
    return [whole["run"], len("workload"), len("targets"), max(whole["trials"], len("trials")), outcome]


def _table(rows: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from pgdyno.safe_output import visible

    def cut(text: str) -> Text:
        return Text(visible(text), no_wrap=True, overflow="ellipsis")

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in zip(_HEADINGS, _least_widths(rows), strict=True):
        # names are for copying: a terminal that is too narrow cuts workloads and targets
        is_whole = heading in ("run", "trials")
        justify: Literal["left", "right"] = "right" if heading == "trials" else "left"
        table.add_column(heading, no_wrap=is_whole, min_width=width, justify=justify)
    for name, workload, targets, trials, outcome in rows:
        table.add_row(name, cut(workload), cut(targets), trials, outcome)
    return table


def _cells(entry: "RunEntry") -> list[str]:
    manifest = entry.manifest
    if manifest is None:
        return [entry.name, "", "", "", f"unreadable: {entry.problem}"]
    targets = ", ".join(target.name for target in manifest.targets)
    outcome = manifest.outcome.value if manifest.outcome else "unfinished"
    if manifest.budget is not None and manifest.budget.dropped:
        outcome += " within its budget"
    return [entry.name, manifest.workload, targets, f"{entry.trials_done}/{manifest.trials_planned}", outcome]


def _entry_json(entry: "RunEntry") -> dict[str, object]:
    manifest = entry.manifest.model_dump(mode="json") if entry.manifest else None
    return {"run": str(entry.path), "trials": entry.trials_done, "problem": entry.problem, "manifest": manifest}
