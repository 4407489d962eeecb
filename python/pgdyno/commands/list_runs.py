"""`pgdyno list`: the runs of a folder."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pgdyno.commands.support import options
from pgdyno.errors import StoreError

if TYPE_CHECKING:
    from rich.table import Table

    from pgdyno.store import RunEntry

_HEADINGS = ("run", "workload", "targets", "trials", "outcome", "answer")
LEAST_ANSWER = 40
"""Columns of the answer; a narrower terminal has it in a line of its own."""
MOST_SCRIPTS = 3
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
    with console.page_output():
        if not (console.is_terminal and _is_narrow(rows, console.width)):
            console.print_table(_table(rows))
            return
        for name, workload, targets, trials, outcome, answer in rows:
            others = [workload, targets, f"{trials} trials" if trials else "", outcome]
            console.print(visible(name), style="bold", soft_wrap=True)
            console.print(visible("  " + "; ".join(each for each in others if each)))
            if answer:
                console.print(visible(f"  {answer}"))


def _is_narrow(rows: Sequence[Sequence[str]], width: int) -> bool:
    answers = LEAST_ANSWER + 2 if any(row[-1] for row in rows) else 0
    return sum(_least_widths(rows)) + 2 * (len(_HEADINGS) - 2) + answers > width


def _least_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    whole = {heading: max(len(row[at]) for row in rows) for at, heading in enumerate(_HEADINGS)}
    outcome = max(len(word) for row in rows for word in [*row[4].split(" "), "outcome"] if len(word) <= _LONGEST_WORD)
    return [whole["run"], len("workload"), len("targets"), max(whole["trials"], len("trials")), outcome]


def _table(rows: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from pgdyno.safe_output import visible

    def cut(text: str) -> Text:
        return Text(visible(text), no_wrap=True, overflow="ellipsis")

    table = Table(box=None, pad_edge=False, header_style="bold")
    has_answers = any(row[-1] for row in rows)
    for heading, width in zip(_HEADINGS, [*_least_widths(rows), LEAST_ANSWER], strict=True):
        # names are for copying: a terminal that is too narrow cuts workloads, targets and answers
        is_whole = heading in ("run", "trials")
        justify: Literal["left", "right"] = "right" if heading == "trials" else "left"
        if heading != "answer" or has_answers:
            table.add_column(heading, no_wrap=is_whole, min_width=width, justify=justify)
    for name, workload, targets, trials, outcome, answer in rows:
        table.add_row(name, cut(workload), cut(targets), trials, outcome, *([cut(answer)] if has_answers else []))
    return table


def _cells(entry: "RunEntry") -> list[str]:
    from pgdyno.store.find_runs import read_report_head

    if entry.problem is not None:
        return [entry.name, "", "", "", f"unreadable: {entry.problem}", ""]
    outcome = (entry.outcome or "unfinished") + (" within its budget" if entry.is_cut else "")
    trials = f"{entry.trials_done}/{entry.trials_planned}"
    answer = read_report_head(entry.path).answer
    return [entry.name, _workload(entry.workload), ", ".join(entry.targets), trials, outcome, answer]


def _workload(scripts: str) -> str:
    names = scripts.split(", ")
    return scripts if len(names) <= MOST_SCRIPTS else f"{names[0]} and {len(names) - 1} more"


def _entry_json(entry: "RunEntry") -> dict[str, object]:
    from pgdyno.store import RunFolder

    shown = {"run": str(entry.path), "trials": entry.trials_done, "problem": entry.problem, "manifest": None}
    try:
        return shown | {"manifest": RunFolder.open(entry.path).manifest.model_dump(mode="json")}
    except StoreError as error:
        return shown | {"trials": 0, "problem": error.message}
