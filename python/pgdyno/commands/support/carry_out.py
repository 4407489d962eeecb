"""Runs a plan, with its progress and reports: what `run`, `tune`, `ab` and `gate --confirm` share."""

import json as json_module
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.commands.support.kept_summary import keep_summary
from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.commands.support.rental_cost import Consent, agree_for_run
from pgdyno.commands.support.report_files import check_report_file, raise_first, try_write_report
from pgdyno.console import Console
from pgdyno.errors import ExitCode, InvalidValueError, PgdynoError, StoreError, UsageError
from pgdyno.experiment import Finished, resume_experiment, run_experiment
from pgdyno.experiment.rented_servers import Renting, spent_on
from pgdyno.experiment.resume import loaded_of
from pgdyno.experiment.search.cheapest_search import left_to_measure
from pgdyno.experiment.search.settings.settings_journal import RESTORE
from pgdyno.live.run_journal import JournalView
from pgdyno.live.server.start_background import serve_in_background
from pgdyno.mounts import is_folder
from pgdyno.plan import LoadedPlan, Plan, load_plan
from pgdyno.plan.hosts import generators
from pgdyno.plan.model import rented_targets
from pgdyno.plan.output.executed_code import list_executed_code
from pgdyno.plan.scenario.loads import all_loads
from pgdyno.plan.values import refuse_undecodable
from pgdyno.records import Stage
from pgdyno.report.answers.answer import refusing_findings
from pgdyno.report.answers.promises import Judgement, Verdict, promises_at
from pgdyno.report.export import to_csv
from pgdyno.report.full_report import WholeReport, whole_report
from pgdyno.report.run_events import Noted
from pgdyno.report.terminal.progress import LiveView, live_view
from pgdyno.report.terminal.run_report import print_report
from pgdyno.safe_output import print_json
from pgdyno.store import find_run, load_run
from pgdyno.store.find_runs import note_attempt
from pgdyno.store.object_storage.address import is_remote
from pgdyno.targets import SilentProgress, Use, WhenBusy, host_in_use
from pgdyno.units import parse_duration_s


class Waiting(SilentProgress):
    """Shows that a run waits for another one to finish."""

    def __init__(self, view: LiveView) -> None:
        self._view = view

    def step(self, text: str) -> None:
        self._view.event(Noted(text))


@dataclass(frozen=True, slots=True)
class Output:
    """How a run shows its progress and its results."""

    html: Path | None
    csv: Path | None
    quiet: bool
    json: bool
    live: bool = False
    """Serve a live page on which users can set marks and stop the run."""
    require: bool = False
    """Whether the exit code says that a promise was not held."""


def when_busy(*, wait: bool, alongside: bool) -> WhenBusy:
    """Translate --wait and --alongside. Raises UsageError for both."""
    if wait and alongside:
        raise UsageError("--wait and --alongside exclude each other")
    if wait:
        return WhenBusy.WAIT
    return WhenBusy.ALONGSIDE if alongside else WhenBusy.REFUSE


@dataclass(frozen=True, slots=True)
class Rent:
    """The options for rented servers."""

    keep: str | None = None
    consent: Consent = field(default_factory=Consent)

    def confirm_renting(self, plan: Plan, spent: float = 0.0) -> Renting:
        """Return how to rent the servers, once the user has confirmed the cost; `spent` is what the run has cost so
        far, in USD.

        Raises UsageError.
        """
        try:
            keep_s = None if self.keep is None else parse_duration_s(self.keep)
        except ValueError as error:
            raise UsageError(f"--keep: {error}") from error
        if keep_s is not None and not rented_targets(plan):
            raise UsageError("--keep applies to rented servers, and the plan rents none")
        price, most = agree_for_run(plan, self.consent, spent)
        return Renting(keep_s, price, most, spent)


@dataclass(frozen=True, slots=True)
class How:
    """How a plan is run, whatever it measures: the options that `run`, `tune` and `ab` share."""

    runs: Path
    output: Output
    save: Path | None = None
    """Where `ab` writes its plan."""
    budget: str | None = None
    when_busy: WhenBusy = WhenBusy.REFUSE
    check_first: bool = True
    metrics: str | None = None
    rent: Rent = field(default_factory=Rent)
    allow_restart: bool = False


def generators_override(places: Sequence[str] | None) -> list[str]:
    """Return --generators as an override for --set. Raises UsageError."""
    if not places:
        return []
    try:
        generators(places)
    except InvalidValueError as error:
        raise UsageError(f"--generators: {error.message}", hint=error.hint) from error
    return [f"generators={json_module.dumps(list(places))}"]


def run_plan(source: str, overrides: Sequence[str], how: How, on: str | None = None) -> ExitCode:
    """Run a plan, print results, write reports; return the exit code. Raises PgdynoError if nothing could run."""
    note_attempt(how.runs, source)
    loaded = within_budget(load_plan(source, overrides, on), how.budget)
    _show_inherited(loaded)
    check_folder(how.runs)
    check_reports(how.output)
    _check_required(loaded.plan, how.output)
    return _show(carry_out(how.output, Use(loaded.plan.name, how.when_busy), experiment_of(loaded, how)), how.output)


def check_folder(runs: Path) -> None:
    """Raise StoreError, before anything is measured, if `runs` is no folder, or one that cannot be written to.

    Raises UsageError if its path is not UTF-8, which DuckDB does not take.
    """
    refuse_undecodable(f"the folder of runs {runs.absolute()}", str(runs.absolute()))
    if os.path.lexists(runs) and not is_folder(runs):
        raise StoreError(f"{runs} is not a folder", hint="name a folder of runs; pgdyno makes it if it does not exist")
    there = next(each for each in (runs.absolute(), *runs.absolute().parents) if os.path.lexists(each))
    hint = "choose a folder that you may write to with --runs"
    if not is_folder(there):
        raise StoreError(f"cannot make a run folder in {runs}: {there} is not a folder", hint=hint)
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        raise StoreError(f"cannot make a run folder in {runs}: {there}: permission denied", hint=hint)


def check_reports(output: Output) -> None:
    """Raise StoreError, before anything is measured, if a report cannot be written where `output` says."""
    for path in (output.html, output.csv):
        if path is not None:
            check_report_file(path)


def _check_required(plan: Plan, output: Output) -> None:
    """Raise UsageError for --require if `plan` promises nothing."""
    resolved = plan.as_resolved()
    if output.require and not any(promises_at(resolved, load) for load in all_loads(plan)):
        hint = "such as --set 'trial.promise=\"p99 < 20ms\"'"
        raise UsageError("--require needs a plan with a promise", hint=hint)


def experiment_of(loaded: LoadedPlan, how: How) -> Callable[[JournalView, Use], Finished]:
    """Return what runs the plan into a new folder, once its cost is agreed. Raises UsageError."""
    renting = how.rent.confirm_renting(loaded.plan)
    _check_consent(loaded.plan, allow_restart=how.allow_restart)

    def experiment(view: JournalView, use: Use) -> Finished:
        from pgdyno.metrics.endpoint import open_endpoint

        with open_endpoint(view, how.metrics) as told:
            return run_experiment(
                loaded, how.runs, told, use, check_first=how.check_first, renting=renting, requests=view
            )

    return experiment


def _show_inherited(loaded: LoadedPlan) -> None:
    """List the commands that run because of a plan that this one extends: the user's own file does not show them."""
    inherited = [each for each in list_executed_code(loaded) if each.inherited]
    if not inherited:
        return
    console = Console(stderr=True)
    for line in ("the plans that this one extends run on this host:", *(f"  {each.text()}" for each in inherited)):
        console.print(line, soft_wrap=True)


def resume_run(run: str, how: How, *, redo_failed: bool = False) -> ExitCode:
    """Resumes an unfinished run and reports as `run_plan` does. Raises PgdynoError if the run cannot be resumed."""
    if is_remote(run):
        raise UsageError("runs on object storage cannot be resumed", hint="download the run first, with pgdyno copy")
    check_reports(how.output)
    folder = find_run(run, how.runs)
    use = Use(folder.name, how.when_busy)
    plan = left_to_measure(loaded_of(folder).plan, folder, redo_failed=redo_failed)
    _check_required(plan, how.output)
    _check_consent(plan, allow_restart=how.allow_restart, resumes=True)
    renting = how.rent.confirm_renting(plan, spent_on(folder.manifest.rented))

    def experiment(view: JournalView, use: Use) -> Finished:
        from pgdyno.metrics.endpoint import open_endpoint

        with open_endpoint(view, how.metrics) as told:
            return resume_experiment(
                folder.path, told, redo_failed=redo_failed, use=use, renting=renting, requests=view
            )

    return _show(carry_out(how.output, use, experiment), how.output)


def _check_consent(plan: Plan, *, allow_restart: bool, resumes: bool = False) -> None:
    """Raise UsageError unless the user allows what the plan changes on a server that pgdyno did not start."""
    names = ", ".join(sorted(plan.system_names))
    if allow_restart and not names:
        raise UsageError(
            "--allow-restart is for a search that changes the configuration of your own server, and the plan has none",
            hint="list settings of the server under search.over, or remove --allow-restart",
        )
    if names and not allow_restart:
        restarts = any(target.restart_command for target in plan.target.values())
        what = "changes and restarts" if restarts else "changes"
        others = f"to restore its settings only: {RESTORE}" if resumes else f"or do not search {names}"
        raise UsageError(
            f"this search {what} a server that pgdyno did not start: ALTER SYSTEM sets {names}",
            hint=f"allow it with --allow-restart, {others}",
        )


def carry_out(
    output: Output,
    use: Use,
    experiment: Callable[[JournalView, Use], Finished],
    around: Callable[[LiveView], LiveView] = lambda view: view,
) -> Finished:
    """Run `experiment` while this host is free for it, and show its progress; `around` may add to what is shown."""
    # progress is for eyes: standard output is kept for what was measured
    with _view(output, around) as view, host_in_use(use, Waiting(view)) as alongside:
        return experiment(view, replace(use, alongside=alongside))


def _show(finished: Finished, output: Output) -> ExitCode:
    run = load_run(finished.folder)
    report = whole_report([run])
    errors, shown = write_page(report, finished, output)
    if output.csv is not None:
        errors.append(try_write_report(output.csv, to_csv(run)))
    if output.json:
        last = {"run": str(finished.folder.path), "trials": len(finished.records), "failed": len(finished.failed)}
        print_json(last)
    else:
        print_report(report.draft.of, Console(), report.draft.extras, shown)
    with suppress(StoreError):
        # the summary saves time, and nothing else: the report's own error says that the folder cannot be written
        keep_summary(run, report.draft.of, report.draft.extras)
    raise_first(errors)
    code = exit_code(finished)
    if code is ExitCode.OK and refusing_findings(report.draft.extras):
        return ExitCode.INVALID
    return _promises_exit_code(report.draft.said.promises) if code is ExitCode.OK and output.require else code


def write_page(report: WholeReport, finished: Finished, output: Output) -> tuple[list[PgdynoError | None], list[str]]:
    """Write the report's page, which a run that began no load has only if the user named it.

    Returns the error of writing it, and the line that says where it is.
    """
    if finished.began_no_load and output.html is None:
        return [], []
    page = output.html or finished.folder.path / "report.html"
    error = try_write_report(page, report.html())
    return [error], [f"report: {page}"] if error is None else []


def _promises_exit_code(judged: Sequence[Judgement]) -> ExitCode:
    verdicts = {each.verdict for each in judged}
    if Verdict.BROKEN in verdicts:
        return ExitCode.PROMISE_BROKEN
    return ExitCode.OK if verdicts == {Verdict.HELD} else ExitCode.INCONCLUSIVE


def _view(output: Output, around: Callable[[LiveView], LiveView]) -> JournalView:
    shown = around(live_view(Console(stderr=True), quiet=output.quiet))

    def began(folder: Path) -> None:
        if output.live:
            address = serve_in_background(folder)
            shown.event(Noted(f"live: {address}" if address else "no live page: its server could not be started"))

    return JournalView(shown, began, controlled=output.live)


def exit_code(finished: Finished) -> ExitCode:
    """Return the exit code of a run that ended in good order."""
    if finished.stopped is not None:
        return ExitCode.STOPPED
    if not finished.failed:
        return ExitCode.OK
    is_hook = any(each.failure is not None and each.failure.stage is Stage.HOOK for each in finished.failed)
    return ExitCode.TARGET if finished.began_no_load and not is_hook else ExitCode.TRIALS_FAILED
