"""`pgdyno show`: a stored run in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.console import Console
from pgdyno.errors import UsageError
from pgdyno.records.rate_unit import counts_queries
from pgdyno.report.answers.limits import limit_lines
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.full_report import judged_run, one_trial
from pgdyno.report.report_content import Digest, Extras, digest, median_trial
from pgdyno.report.report_tables import sweep_table, text_lines
from pgdyno.report.terminal.run_report import all_lines, print_report
from pgdyno.report.terminal.summary_file import Layout, write_summary
from pgdyno.report.terminal.timeline import steps_for, timeline_lines
from pgdyno.report.translation import current_language, use_language
from pgdyno.safe_output import print_data
from pgdyno.store import RunData, find_run, load_run
from pgdyno.store.probe_queries import probe_averages


def show_run(run: str, runs: Path, *, json: bool, csv: bool, layout: Literal["points", "sysbench"] = "points") -> None:
    data = load_run(find_run(run, runs))
    if layout == "sysbench":
        _show_sweep(data)
    elif json:
        with use_language(current_language(), queries=counts_queries(data.trials)):
            print_data(to_json(*judged_run(data)))
    elif csv:
        print_data(to_csv(data))
    else:
        of, extras = judged_run(data)
        console = Console()
        with console.paged():
            print_report(of, console, extras, _limits(data, of))


def keep_summary(data: RunData, of: Digest, extras: Extras) -> None:
    """Keeps what `show` prints in the run folder: in this terminal, and to a file or a pipe. Raises StoreError."""
    layouts, limits = {Layout(), Layout.of(Console())}, _limits(data, of)
    write_summary(data.folder.path, {each: all_lines(of, each, extras, limits) for each in layouts})


def _limits(data: RunData, of: Digest) -> list[str]:
    return limit_lines(
        probe_averages(data, {median_trial(of, point).number for point in of.points if point.finished}), of
    )


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
