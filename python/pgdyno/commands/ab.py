"""`pgdyno ab`: one question, one answer."""

from __future__ import annotations

import json as json_module
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.text import Text

from pgdyno.analyse.comparison import Comparison, Verdict, compare
from pgdyno.analyse.pairs import usual_metric, usual_split, within
from pgdyno.commands.compare import print_comparisons
from pgdyno.commands.plan import within_budget
from pgdyno.commands.run import Output, Rent, carry_out, check_folder, exit_code, experiment_of
from pgdyno.commands.support.compared_runs import Compared, ComparedRuns
from pgdyno.commands.support.report_files import write_report_file
from pgdyno.console import Console
from pgdyno.errors import ExitCode, PgdynoError, StoreError, UsageError
from pgdyno.experiment import Finished
from pgdyno.plan import LoadedPlan, load_plan
from pgdyno.plan.ab_plan import FEWEST_PAIRS, Question, ab_plan
from pgdyno.plan.reading.read_plan import load_text
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.report.answers.comparison_export import comparison_json
from pgdyno.report.answers.refusal import reasons_json, refusal_headline
from pgdyno.report.full_report import whole_report
from pgdyno.report.run_events import Noted, RunBegan, RunEvent, TrialEnded
from pgdyno.report.terminal.progress import LiveView
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.store import load_run
from pgdyno.targets import Use, WhenBusy
from pgdyno.targets.server import CORRECT_SESSION_SETTINGS

READ_ONLY_TRANSACTION = "25006"
"""The SQLSTATE of a write in a read-only transaction."""


@dataclass(frozen=True, slots=True)
class How:
    """How `pgdyno ab` runs, apart from its question."""

    runs: Path
    output: Output
    save: Path | None = None
    budget: str | None = None
    when_busy: WhenBusy = WhenBusy.REFUSE
    check_first: bool = True


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


def ab(asked: Question, how: How) -> ExitCode:
    """Runs the plan of the question and prints its answer; returns the exit code.

    Raises PgdynoError if nothing could be run.
    """
    loaded = within_budget(_loaded(asked, how.save), how.budget)
    repeats = loaded.plan.trial.most_repeats
    if repeats < FEWEST_PAIRS:
        raise UsageError(f"the budget has no room for {FEWEST_PAIRS} pairs", hint="give a longer --budget")
    check_folder(how.runs)
    use = Use(loaded.plan.name, how.when_busy)
    renting = Rent().agreed(loaded.plan)
    experiment = experiment_of(loaded, how.runs, check_first=how.check_first, renting=renting)
    if loaded.plan.trial.stops_when_decided:
        finished = carry_out(how.output, use, experiment)
    else:
        finished = carry_out(how.output, use, experiment, lambda view: NarrowingView(view, repeats))
    return _answer(finished, how.output)


def _loaded(asked: Question, save: Path | None) -> LoadedPlan:
    """Returns the plan, which is in the file `save` if there is one. Raises UsageError, PlanError, StoreError."""
    if save is None:
        return load_text(ab_plan(asked, Path.cwd()), Path.cwd(), "ab")
    text = ab_plan(asked, save.absolute().parent)
    # the same question again, after a server that refused the connection
    if save.exists() and not _is_text(save, text):
        hint = f"run it: pgdyno run {save}; or give another name to --save"
        raise UsageError(f"{save} already exists, and asks something else", hint=hint)
    load_text(text, save.absolute().parent, "ab")
    try:
        save.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {save}: {(error.strerror or str(error)).lower()}") from error
    return load_plan(save)


def _is_text(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return False


def _answer(finished: Finished, output: Output) -> ExitCode:
    folder = finished.folder.path
    run = load_run(folder)
    page = output.html or folder / "report.html"
    write_report_file(page, whole_report([run]).html())
    code = exit_code(finished)
    runs = ComparedRuns.of(Compared(str(folder), None, folder.parent, None, None, None, None))
    try:
        reasons = runs.reasons()
        comparisons = compare(runs.arms())
    except UsageError:
        # one arm has no trial
        reasons, comparisons = [], []
    if reasons and code is ExitCode.OK:
        code = ExitCode.INVALID
    lines = [verdict_line(each) for each in comparisons] or ["no answer: the trials of one arm are missing"]
    if reasons:
        lines = [f"no answer: {refusal_headline(reasons)}; see the report"]
    if output.json:
        found = {
            "run": str(folder),
            "trials": len(finished.records),
            "failed": len(finished.failed),
            "invalid": reasons_json(reasons),
            "comparisons": [] if reasons else [comparison_json(each) for each in comparisons],
            "answer": lines,
        }
        print(json_module.dumps(found))
        return code
    console = Console()
    if comparisons:
        print_comparisons(comparisons, reasons, list(map(str, runs.notes())), console)
        console.print()
    console.print(f"report: {page}", soft_wrap=True)
    for line in _hints(finished):
        console.print(line, soft_wrap=True)
    for line in lines:
        console.print(Text(printable(line), "bold"), soft_wrap=True)
    return code


def _hints(finished: Finished) -> list[str]:
    states = {record.failure.sqlstate for record in finished.failed if record.failure is not None}
    remedies = {record.failure.hint for record in finished.failed if record.failure is not None}
    hints = []
    if READ_ONLY_TRANSACTION in states:
        hints.append("hint: a script writes; to allow that, in transactions that commit: --writes")
    elif CORRECT_SESSION_SETTINGS in remedies:
        # the run's plan has the wrong setting, too
        hints.append("hint: correct --set, and run the command again")
    elif finished.failed:
        hints.append(f"hint: to run failed trials again: pgdyno run --resume {finished.folder.path} --redo-failed")
    return hints


def verdict_line(of: Comparison) -> str:
    """Returns the answer: `64MB vs 4MB: no difference shown; smallest detectable difference 3.1 %`."""
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


def _arms(of: Comparison) -> str:
    return f"{of.other} vs {of.base}"
