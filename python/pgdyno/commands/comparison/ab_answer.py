"""What `pgdyno ab` measures and answers: one question, one answer."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from rich.text import Text

from pgdyno.analyse.comparison import Comparison, Verdict, compare
from pgdyno.analyse.pairs import usual_metric, usual_split, within
from pgdyno.commands.comparison.compared_runs import Compared, ComparedRuns
from pgdyno.commands.comparison.one_question import (
    answer_json,
    failure_lines,
    is_text,
    print_end,
    save_plan,
    write_plan,
)
from pgdyno.commands.comparison.print_comparisons import print_comparisons
from pgdyno.commands.support.carry_out import (
    How,
    carry_out,
    check_folder,
    check_reports,
    exit_code,
    experiment_of,
    write_page,
)
from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.commands.support.report_files import raise_first
from pgdyno.console import Console
from pgdyno.errors import ExitCode, PgdynoError, PlanError, UsageError
from pgdyno.experiment import Finished
from pgdyno.experiment.resume import loaded_of
from pgdyno.plan import LoadedPlan, load_plan
from pgdyno.plan.ab_plan import Question, ab_plan, in_options, question_of_plan
from pgdyno.plan.checks.question import settings_set_by_scripts
from pgdyno.plan.loaded_plan import load_text
from pgdyno.records import Outcome
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.report.answers.comparison_export import comparison_json
from pgdyno.report.answers.refusal import reasons_json, refusal_headline
from pgdyno.report.answers.workload_figures import point_tables, points_json
from pgdyno.report.full_report import whole_report
from pgdyno.report.run_events import Noted, RunBegan, RunEvent, TrialEnded
from pgdyno.report.sections.section_blocks import Reasons
from pgdyno.report.terminal.block_lines import block_lines
from pgdyno.report.terminal.progress import LiveView
from pgdyno.report.terminal.summary_file import Layout, print_lines
from pgdyno.run.run_trial import OF_TIMEOUT
from pgdyno.store import load_run
from pgdyno.targets import Use
from pgdyno.targets.server import is_correction
from pgdyno.units import quantity

READ_ONLY_TRANSACTION = "25006"
"""The SQLSTATE of a write in a read-only transaction."""
MOST_NAMED = 5
SYNTAX_OR_ACCESS = "42"
"""The class of SQLSTATEs of statements that are wrong, and fail each time."""


class NarrowingView(LiveView):
    """Adds a line per pair: the difference so far with its interval."""

    def __init__(self, shown: LiveView, pairs: int) -> None:
        self._shown = shown
        self._pairs = pairs
        self._folder: Path | None = None
        self._said = 1

    def __enter__(self) -> NarrowingView:
        self._shown.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.__exit__(kind, error, trace)

    def event(self, event: RunEvent) -> None:
        """Show `event`, and after a trial that completes a pair the difference so far."""
        self._shown.event(event)
        match event:
            case RunBegan(folder):
                self._folder = folder
            case TrialEnded() if self._folder is not None:
                # before the first pair there is no difference to print
                with suppress(PgdynoError):
                    self._show(self._folder)

    def _show(self, folder: Path) -> None:
        run = load_run(folder)
        by = usual_split(run)
        if by is None:
            return
        compared = compare(within(run, by, usual_metric(run)))
        pairs = min((point.pairs for each in compared for point in each.points), default=0)
        # the last difference is the answer itself
        if pairs <= self._said or pairs >= self._pairs:
            return
        self._said = pairs
        for each in compared:
            if each.chief is not None and each.chief.interval is not None:
                change, interval = percent(each.chief.change), low_to_high(each.chief.interval)
                text = (
                    f"{_arms(each)}: {change} {each.metric.words} so far ({interval}), {pairs} of {self._pairs} pairs"
                )
                self._shown.event(Noted(text))


def measure_and_answer(asked: Question, how: How) -> ExitCode:
    """Run the plan of the question and print its answer; return the exit code.

    Raises PgdynoError if nothing could be run, StoreError also after the answer if a file could not be written.
    """
    try:
        finished = _measure(asked, how)
    except PlanError as error:
        raise in_options(error) or error from None
    return _answer(finished, how, asked)


def _measure(asked: Question, how: How) -> Finished:
    check_folder(how.runs)
    check_reports(how.output)
    loaded = _load_question(asked, how)
    repeats = loaded.plan.trial.most_repeats
    use, experiment = Use(loaded.plan.name, how.when_busy), experiment_of(loaded, how)
    if loaded.plan.trial.stops_when_decided:
        return carry_out(how.output, use, experiment)
    return carry_out(how.output, use, experiment, lambda view: NarrowingView(view, repeats))


def _load_question(asked: Question, how: How) -> LoadedPlan:
    """Return the plan, which is in the file of --save if there is one. Raises UsageError, PlanError, StoreError."""
    save = how.save
    folder = Path.cwd() if save is None else save.resolve().parent
    loaded = within_budget(load_text(ab_plan(asked, folder), folder, "ab"), how.budget)
    without_effect = list(settings_set_by_scripts(loaded.plan, loaded.document, loaded.folder))
    if without_effect:
        raise PlanError(loaded.source, without_effect)
    if save is None:
        return loaded
    save_plan(save, ab_plan(question_of_plan(asked, loaded.plan), folder))
    return replace(load_plan(save), gave_up=loaded.gave_up, budget=loaded.budget)


def _save_measured(asked: Question, how: How, finished: Finished) -> PgdynoError | None:
    """Write the plan of --save again if the budget had less room than before the servers were there."""
    if how.save is None or how.budget is None:
        return None
    try:
        text = ab_plan(question_of_plan(asked, loaded_of(finished.folder).plan), how.save.resolve().parent)
        if not is_text(how.save, text):
            write_plan(how.save, text)
    except PgdynoError as error:
        return error
    return None


def _answer(finished: Finished, how: How, asked: Question) -> ExitCode:
    folder, output = finished.folder.path, how.output
    run = load_run(folder)
    report = whole_report([run])
    errors, pages = write_page(report, finished, output)
    errors.append(_save_measured(asked, how, finished))
    code = exit_code(finished)
    runs = ComparedRuns.read(Compared(str(folder), None, folder.parent, None, None, None, None))
    try:
        reasons = runs.reasons()
        comparisons = runs.comparisons()
    except UsageError:
        # one arm has no trial
        reasons, comparisons = [], []
    if reasons and code is ExitCode.OK:
        code = ExitCode.INVALID
    poolers = {each.name: each.facts.pooler for each in run.manifest.targets if each.facts is not None}
    any_finished = any(record.outcome is Outcome.FINISHED for record in finished.records)
    why = "the trials of one arm are missing" if any_finished else "no trial finished"
    lines = [verdict_line(each, poolers.get(each.other)) for each in comparisons] or [f"no answer: {why}"]
    if asked.runs is not None:
        changes = report.draft.extras.plan_changes
        lines = [queries_line(each, [change.name for change in changes]) for each in comparisons]
        lines = lines or [report.draft.said.text]
    if reasons:
        lines = [f"no answer: {refusal_headline(reasons)}; see the report"]
    hints = _hints(finished, asked)
    if output.json:
        found = [] if reasons else [comparison_json(each) for each in comparisons]
        queries = {} if asked.runs is None else {"queries": points_json(report.draft.of)}
        answer_json(finished, lines, hints=hints, invalid=reasons_json(reasons), comparisons=found, **queries)
    else:
        console = Console()
        if asked.runs is not None:
            print_lines(
                [*block_lines([*point_tables(report.draft.of)], Layout.for_console(console)), Text("")], console
            )
        if comparisons:
            print_comparisons(comparisons, reasons, list(map(str, runs.notes())), console)
            validity = report.draft.validity
            found_wrong = [Reasons(validity.reasons)] if validity is not None and validity.reasons else []
            print_lines([*block_lines(found_wrong, Layout.for_console(console)), Text("")], console)
        print_end([*pages, *failure_lines(finished, hints)], lines, console)
    raise_first(errors)
    return code


def _hints(finished: Finished, asked: Question) -> list[str]:
    failures = [record.failure for record in finished.failed if record.failure is not None]
    # on other servers, and with --writes, it is a setting or the server itself that refuses
    if asked.dsn and any(each.sqlstate == READ_ONLY_TRANSACTION for each in failures):
        if any(each.facts is not None and each.facts.is_standby for each in finished.folder.manifest.targets):
            return ["a script writes, which a standby does not allow: name the primary"]
        if not asked.writes:
            return ["a script writes; to allow that, in transactions that commit: --writes"]
    if any(is_correction(each.hint) for each in failures):
        # the run's plan has the wrong setting, too
        return ["correct --set, and run the command again"]
    if any((each.hint or "").startswith(OF_TIMEOUT) for each in failures):
        return [f"{OF_TIMEOUT}, the database or PGOPTIONS canceled it: reset it, or add --set statement_timeout=0"]
    if any((each.sqlstate or "").startswith(SYNTAX_OR_ACCESS) for each in failures):
        # a run whose script has changed cannot be resumed
        return ["correct the script, or what it needs in the database, and run the command again"]
    if finished.failed and not finished.began_no_load:
        place = shlex.quote(str(finished.folder.path))
        return [f"to run failed trials again: pgdyno run --resume {place} --redo-failed"]
    return []


def verdict_line(of: Comparison, pooler: str | None = None) -> str:
    """Return the answer: `64MB vs 4MB: no difference shown; smallest detectable difference 3.1 %`.

    For an arm behind a pooler: its difference at each point.
    """
    if of.unequal_control is not None:
        return f"{_arms(of)}: no answer, because {of.base} differs from itself"
    if pooler is not None and of.judged:
        name = pooler.partition(" ")[0] if pooler.startswith("PgBouncer") else "the pooler"
        points = (
            f"{'no difference shown' if each.verdict is Verdict.INCONCLUSIVE else percent(each.change)} at {each.label}"
            for each in of.judged
        )
        return f"through {name}: {', '.join(points)}"
    chief = of.chief
    if chief is None or chief.interval is None:
        return f"{_arms(of)}: no answer, too few finished trials"
    found = f"{percent(chief.change)} {of.metric.words}, 95 % interval {low_to_high(chief.interval)}"
    if chief.verdict is Verdict.SAME:
        return f"{_arms(of)}: no difference, within ±{percent(of.delta, plus=False)} {of.metric.words}"
    if chief.verdict is not Verdict.INCONCLUSIVE:
        return f"{_arms(of)}: {chief.verdict.value}, {found}"
    if chief.detectable is None:
        return f"{_arms(of)}: no difference shown; {found}"
    smallest = percent(chief.detectable, plus=False)
    return f"{_arms(of)}: no difference shown; smallest detectable difference {smallest}"


def queries_line(of: Comparison, changed: Collection[str]) -> str:
    """Return which queries are faster or slower, and which of them `changed` their plan."""
    said = []
    for verdict in (Verdict.FASTER, Verdict.SLOWER):
        points = sorted((each for each in of.judged if each.verdict is verdict), key=lambda each: -abs(each.change))
        named = ", ".join(f"{each.group} {percent(each.change)}" for each in points[:MOST_NAMED])
        more = f" and {len(points) - MOST_NAMED} more" if len(points) > MOST_NAMED else ""
        said += [f"{len(points)} {verdict.value} ({named}{more})"] if points else []
    same = [each for each in of.judged if each.verdict is Verdict.SAME]
    said += [f"{len(same)} the same within ±{percent(of.delta, plus=False)}"] if same else []
    unknown = [each for each in of.judged if each.verdict is Verdict.INCONCLUSIVE]
    said += [f"no difference shown for {len(unknown)}"] if unknown else []
    plans = f"; another plan: {', '.join(sorted(changed))}" if changed else ""
    return f"{_arms(of)}, of {quantity(len(of.judged), 'query', 'queries')}: {', '.join(said)}{plans}"


def _arms(of: Comparison) -> str:
    return f"{of.other} vs {of.base}"
