"""What `pgdyno impact` measures and answers."""

import typer

from pgdyno.commands.comparison.one_question import answer_json, failure_lines, measure_plan, print_end
from pgdyno.commands.support.carry_out import How, exit_code, write_page
from pgdyno.commands.support.report_files import raise_first
from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.experiment import Finished
from pgdyno.plan.ab_plan import Question
from pgdyno.plan.impact_plan import Operation, impact_plan
from pgdyno.report.answers.answer import Kind, refusing_findings
from pgdyno.report.answers.loads.impact import impact_json
from pgdyno.report.full_report import whole_report
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.report.translation import sentence
from pgdyno.store import load_run


def measure_impact(asked: Question, operation: Operation, how: How, *, yes: bool) -> ExitCode:
    """Run the plan of the operation and print its answer; return the exit code.

    Raises PgdynoError if nothing could be run, StoreError also after the answer if a file could not be written.
    """

    def agree() -> None:
        if asked.dsn and not yes:
            _ask(operation, next(iter(asked.dsn)))

    finished = measure_plan("impact", lambda folder: impact_plan(asked, operation, folder), how, agree)
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
    output = how.output
    report = whole_report([load_run(finished.folder)])
    errors, pages = write_page(report, finished, output)
    of, said, reasons = report.draft.of, report.draft.said, refusing_findings(report.draft.extras)
    code = exit_code(finished)
    if reasons and code is ExitCode.OK:
        code = ExitCode.INVALID
    if said.kind is not Kind.IMPACT:
        line = "no answer: no pair of trials finished"
    else:
        line = f"no answer: {reasons[0].message}; see the report" if reasons else said.text
    if output.json:
        invalid = [{"rule": each.rule, "message": each.message} for each in reasons]
        answer_json(finished, [line], invalid=invalid, impact=None if reasons else impact_json(of))
    else:
        console = Console()
        if said.kind is Kind.IMPACT:
            tables = [said.table] if said.table is not None else []
            print_lines(block_lines([*tables, *map(sentence, said.details)], Layout.for_console(console)), console)
        print_end([*pages, *failure_lines(finished)], [line], console)
    raise_first(errors)
    return code
