"""What `pgdyno count` measures and answers."""

from pgdyno.analyse.comparison import Verdict, verdict_of
from pgdyno.analyse.pairs import Metric
from pgdyno.commands.comparison.count_plan import CountQuestion, count_plan
from pgdyno.commands.comparison.one_question import answer_json, failure_lines, measure_plan, print_end
from pgdyno.commands.support.carry_out import How, exit_code, write_page
from pgdyno.commands.support.report_files import raise_first
from pgdyno.console import Console
from pgdyno.errors import ExitCode
from pgdyno.experiment import Finished
from pgdyno.instructions.counting import counter_of
from pgdyno.report.answers.comparison import percent
from pgdyno.report.answers.instruction_costs import CountedArm, costs, counted_arms
from pgdyno.report.full_report import whole_report
from pgdyno.report.sections.section_list import instruction_blocks
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.store import load_run


def count_and_answer(asked: CountQuestion, how: How) -> ExitCode:
    """Count what the options ask for and print the answer; return the exit code.

    Raises PgdynoError if nothing could be counted, StoreError also after the answer if a file could not be written.
    """
    counter_of(asked.counter)
    finished = measure_plan("count", lambda folder: count_plan(asked, folder), how)
    return _answer(finished, how)


def _answer(finished: Finished, how: How) -> ExitCode:
    run, output = load_run(finished.folder), how.output
    errors, pages = write_page(whole_report([run]), finished, output)
    arms = counted_arms(run)
    lines = answer_lines(arms)
    if output.json:
        answer_json(finished, lines, arms=list(map(_arm_json, arms)))
    else:
        console = Console()
        print_lines(block_lines(instruction_blocks(run), Layout.for_console(console)), console)
        print_end([*pages, *failure_lines(finished)], lines, console)
    raise_first(errors)
    return exit_code(finished)


def answer_lines(arms: list[CountedArm]) -> list[str]:
    """Return a line for each arm that is compared with the first, or one for a single arm."""
    if not arms:
        return ["no answer: no trial finished"]
    base, spread = arms[0], max(each.spread for each in arms)
    equal = f"equal runs differ by {100 * spread:.3f} %"
    if len(arms) == 1:
        name = f"{base.name}: " if base.name else ""
        return [f"{name}{base.instructions:,.0f} instructions a transaction; {equal}"]
    lines = []
    for other in arms[1:]:
        cost = costs(base, other)[0]
        change = other.instructions / base.instructions - 1
        figures = f"{base.instructions:,.0f} and {other.instructions:,.0f}; {equal}"
        metric, pairs = Metric.INSTRUCTIONS, len(base.counts.keys() & other.counts.keys())
        verdict = verdict_of(cost.interval, pairs, 0.0, metric.sign, metric.fewest_pairs)
        if verdict is Verdict.INCONCLUSIVE and change:
            lines.append(f"{other.name} vs {base.name}: no difference shown: {figures}")
        elif not change:
            lines.append(f"{other.name} executes as many instructions a transaction as {base.name}: {figures}")
        else:
            more = f"{percent(abs(change), plus=False)} {'more' if change > 0 else 'fewer'} instructions"
            lines.append(f"{other.name} executes {more} a transaction than {base.name}: {figures}")
    return lines


def _arm_json(of: CountedArm) -> dict[str, object]:
    first = next(iter(of.counts.values()))
    return {
        "name": of.name,
        "instructions": of.instructions,
        "spread": of.spread,
        "repeats": [each.instructions for each in of.counts.values()],
        "functions": of.functions(),
        "jit": first.jit,
        "counter": first.counter,
    }
