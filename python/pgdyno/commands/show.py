"""`pgdyno show`: a stored run in the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdyno.commands.support import options
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.console import Console
    from pgdyno.store import RunData


def show(
    run: options.Run = "latest",
    runs: options.Runs = options.DEFAULT_RUNS,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the trials as CSV.")] = False,
    layout: Annotated[
        Literal["points", "sysbench"], typer.Option(help="Table layout: points, or trials with sysbench's columns.")
    ] = "points",
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", help="Plot one trial over time: the median trial at the point with the highest throughput."
        ),
    ] = False,
    trial: Annotated[int | None, typer.Option(metavar="NUMBER", help="Plot this trial over time.")] = None,
) -> None:
    """Show a run's results in the terminal.

    Prints a table of points and a scaling chart, or one trial over time.
    """
    from pgdyno.console import Console
    from pgdyno.report.terminal.summary_file import Layout, print_lines, read_summary
    from pgdyno.store.find_runs import find_bisection, find_path
    from pgdyno.store.object_storage.address import is_remote

    forms, console = sum((json, csv, layout != "points")), Console()
    plots = timeline or trial is not None
    if (bisection := find_bisection(run, runs)) is not None:
        _print_bisection(bisection, console, is_plain=not (forms or plots))
        return
    if not (forms or plots or is_remote(run)):
        kept = read_summary(find_path(run, runs), Layout.for_console(console))
        if kept is not None:
            with console.page_output():
                print_lines(kept, console)
            return
    if plots and forms:
        raise UsageError("--timeline and --trial plot a chart: remove --json, --csv and --layout")
    if forms > 1:
        raise UsageError("--json, --csv and --layout exclude each other: use one")
    from pgdyno.records.rate_unit import counts_queries
    from pgdyno.report.export import to_csv, to_json
    from pgdyno.report.full_report import judged_run
    from pgdyno.report.terminal.run_report import print_report
    from pgdyno.report.translation import current_language, use_language
    from pgdyno.safe_output import print_data
    from pgdyno.store import find_run, load_run

    data = load_run(find_run(run, runs))
    if plots:
        _plot(data, trial, console)
    elif layout != "points":
        _print_trials(data, layout)
    elif json:
        with use_language(current_language(), queries=counts_queries(data.trials)):
            print_data(to_json(*judged_run(data)))
    elif csv:
        print_data(to_csv(data))
    else:
        of, extras = judged_run(data)
        with console.page_output():
            print_report(of, console, extras)


def _print_bisection(folder: Path, console: "Console", *, is_plain: bool) -> None:
    from pgdyno.bisection.journal import JournalFile
    from pgdyno.commands.bisection.bisect_report import bisection_lines
    from pgdyno.report.terminal.summary_file import Layout, print_lines

    if not is_plain:
        raise UsageError(f"{folder} is a bisection, not a run", hint="remove the options, or name a run in it")
    lines = bisection_lines(JournalFile.open(str(folder), folder.parent), Layout.for_console(console))
    with console.page_output():
        print_lines(lines, console)


def _print_trials(run: "RunData", layout: str) -> None:
    from pgdyno.report.answers.workload_figures import trial_tables
    from pgdyno.report.report_content import digest
    from pgdyno.report.terminal.block_lines import table_lines
    from pgdyno.report.terminal.summary_file import Layout

    table = next((table for each, table in trial_tables(digest(run)) if each.layout == layout), None)
    if table is None:
        hint = "remove --layout, which needs a workload with lua or a name such as oltp-read-write"
        raise UsageError(f"run {run.manifest.run} has no trial with sysbench's statement counts", hint=hint)
    _, *lines = table_lines(table, Layout())
    print("\n".join(line.plain for line in lines))


def _plot(run: "RunData", number: int | None, console: "Console") -> None:
    from pgdyno.report.full_report import one_trial
    from pgdyno.report.terminal.timeline import steps_for, timeline_lines

    is_plain = not console.is_terminal or not console.encoding.lower().startswith("utf")
    width = None if is_plain else console.width
    trial, cores = one_trial(run, number, steps_for(width))
    for line in timeline_lines(trial, cores, width, colours=not console.no_color):
        console.print(line, soft_wrap=True)
