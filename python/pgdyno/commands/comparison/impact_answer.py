"""What `pgdyno impact` measures and answers."""

from __future__ import annotations

from pathlib import Path

import typer

from pgdyno.commands.comparison.ab_answer import failures_of, print_end, save_plan
from pgdyno.commands.support.carry_out import (
    How,
    carry_out,
    check_folder,
    check_reports,
    exit_code,
    experiment_of,
    write_page,
)
from pgdyno.commands.support.report_files import raise_first
from pgdyno.console import Console
from pgdyno.errors import ExitCode, PlanError, UsageError
from pgdyno.experiment import Finished
from pgdyno.plan import load_plan
from pgdyno.plan.ab_plan import Question, in_options
from pgdyno.plan.impact_plan import Operation, impact_plan
from pgdyno.plan.loaded_plan import load_text
from pgdyno.report.answers.answer import Kind, refusing
from pgdyno.report.answers.loads.impact import impact_json
from pgdyno.report.full_report import whole_report
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.translation import sentence
from pgdyno.safe_output import print_json
from pgdyno.store import load_run
from pgdyno.targets import Use


def measure_impact(asked: Question, operation: Operation, how: How, *, yes: bool) -> ExitCode:
    """Run the plan of the operation and print its answer; return the exit code.

    Raises PgdynoError if nothing could be run, StoreError also after the answer if a file could not be written.
    """
    folder = Path.cwd() if how.save is None else how.save.resolve().parent
    text = impact_plan(asked, operation, folder)
    try:
        loaded = load_text(text, folder, "impact")
        check_folder(how.runs)
        check_reports(how.output)
        if asked.dsn and not yes:
            _ask(operation, next(iter(asked.dsn)))
        if how.save is not None:
            save_plan(how.save, text)
            loaded = load_plan(how.save)
        finished = carry_out(how.output, Use(loaded.plan.name, how.when_busy), experiment_of(loaded, how))
    except PlanError as error:
        found = in_options(error)
        if found is None:
            raise
        raise found from error
    return _answer(finished, how)


def _ask(operation: Operation, dsn: str) -> None:
    """Raise UsageError unless the user agrees to what happens on a server that pgdyno did not start."""
    console = Console(stderr=True, soft_wrap=True)
    undo = f"then {operation.undo}" if operation.undo else "nothing undoes it"
    console.print(f"on {dsn}: {operation.do}; {undo}; {2 * operation.repeats} times, half of them under load")
    if not console.is_terminal:
        raise UsageError(
            "an operation on your own server needs confirmation, and standard input is not a terminal",
            hint="confirm with --yes",
        )
    if not typer.confirm("Do this?", err=True):
        raise UsageError("nothing was done")


def _answer(finished: Finished, how: How) -> ExitCode:
    folder, output = finished.folder.path, how.output
    report = whole_report([load_run(folder)])
    errors, pages = write_page(report, finished, output)
    of, said, reasons = report.draft.of, report.draft.said, refusing(report.draft.extras)
    code = exit_code(finished)
    if reasons and code is ExitCode.OK:
        code = ExitCode.INVALID
    if said.kind is not Kind.IMPACT:
        line = "no answer: no pair of trials finished"
    else:
        line = f"no answer: {reasons[0].message}; see the report" if reasons else said.text
    if output.json:
        print_json(
            {
                "run": str(folder),
                "trials": len(finished.records),
                "failed": len(finished.failed),
                "failures": [{"message": message, "hint": hint} for message, hint in failures_of(finished)],
                "invalid": [{"rule": each.rule, "message": each.message} for each in reasons],
                "impact": None if reasons else impact_json(of),
                "answer": [line],
            }
        )
    else:
        console = Console()
        if said.kind is Kind.IMPACT:
            tables = [said.table] if said.table is not None else []
            print_lines(block_lines([*tables, *map(sentence, said.details)], Layout.of(console)), console)
        failures = [f"failed: {message}" for message, _ in failures_of(finished)]
        print_end([*pages, *failures, *(f"hint: {hint}" for _, hint in failures_of(finished) if hint)], [line], console)
    raise_first(errors)
    return code
