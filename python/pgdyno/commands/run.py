"""`pgdyno run`."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from pgdyno.commands.budget import within_budget
from pgdyno.commands.output import write_report_file
from pgdyno.errors import ExitCode
from pgdyno.experiment import Finished, run_experiment
from pgdyno.plan import load_plan
from pgdyno.records import Stage
from pgdyno.report.export import to_csv
from pgdyno.report.html import render_html
from pgdyno.report.live import live_view
from pgdyno.report.terminal import print_report
from pgdyno.store import load_run


def run_plan(
    source: str,
    overrides: Sequence[str],
    runs: Path,
    *,
    html: Path | None,
    csv: Path | None,
    quiet: bool,
    json: bool,
    budget: str | None = None,
) -> ExitCode:
    """Runs a plan, shows what it measured, writes the reports; the exit code says how it went.

    Raises PgdynoError when nothing could be run.
    """
    loaded = within_budget(load_plan(source, overrides), budget)
    # progress is for eyes: standard output is kept for what was measured
    with live_view(Console(stderr=True, highlight=False), quiet=quiet) as view:
        finished = run_experiment(loaded, runs, view)
    run = load_run(finished.folder)
    page = html or finished.folder.path / "report.html"
    write_report_file(page, render_html(run, str(finished.folder.path)))
    if csv is not None:
        write_report_file(csv, to_csv(run))
    if json:
        last = {"run": str(finished.folder.path), "trials": len(finished.records), "failed": len(finished.failed)}
        print(json_module.dumps(last))
    else:
        console = Console(highlight=False)
        print_report(run, console)
        console.print(f"\nreport: {page}", markup=False, soft_wrap=True)
    return _exit_code(finished)


def _exit_code(finished: Finished) -> ExitCode:
    if not finished.failed:
        return ExitCode.OK
    stages = {record.failure.stage for record in finished.failed if record.failure}
    if len(finished.failed) == len(finished.records) and stages <= {Stage.TARGET, Stage.PREPARE}:
        return ExitCode.TARGET
    return ExitCode.TRIALS_FAILED
