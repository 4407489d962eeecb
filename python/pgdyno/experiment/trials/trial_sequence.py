"""The sequence of a run: its trials one after the other, and an orderly end whatever happens."""

import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import groupby
from operator import attrgetter

from pgdyno.errors import ExitCode, PgdynoError, StopRunError, StoreError
from pgdyno.experiment.captured_load import CapturedLoad
from pgdyno.experiment.changes_since_begin import changed_data
from pgdyno.experiment.cloud_recorder import CloudRecorder
from pgdyno.experiment.generators import Generators
from pgdyno.experiment.limits.budget_left import BudgetUsedError, LoadTooLongError
from pgdyno.experiment.limits.cost_guard import CostGuard
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.servers import Servers, rent_of
from pgdyno.experiment.stopping import Looks
from pgdyno.experiment.trials.hooks_and_events import Hooks
from pgdyno.experiment.trials.profiling import Profiles
from pgdyno.experiment.trials.trial_runner import TrialRunner
from pgdyno.messages import Message
from pgdyno.plan import PlannedTrial
from pgdyno.records import Outcome, Stage, TrialRecord
from pgdyno.run.hook_command import HookError
from pgdyno.run.run_trial import OF_TIMEOUT
from pgdyno.store import RunFolder, changed_script, load_run
from pgdyno.targets.server import is_correction
from pgdyno.units import duration_words, quantity


class Ending(Enum):
    """How an attempt ended, with the predicate that the manifest keeps; that of a stop also says why."""

    COMPLETE = "came to its end"
    WITHIN_BUDGET = "completed within its budget"
    STOPPED = "was stopped"


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a run that ended in good order."""

    folder: RunFolder
    records: list[TrialRecord]
    """All complete trials, including those of earlier attempts."""
    stopped: str | None = None
    """Why the run ended before its last trial, if a limit, a hook or a changed script ended it."""

    @property
    def failed(self) -> list[TrialRecord]:
        return [record for record in self.records if record.outcome is not Outcome.FINISHED]

    @property
    def began_no_load(self) -> bool:
        """Whether no trial began its load, so that there is nothing to report."""
        return _failed_before_load(self.records)


class TrialSequence:
    """Creates the owners of a run's state, runs its trials, and closes it."""

    servers: Servers
    """The servers of the run, which a search asks and releases, too."""

    def __init__(self, context: RunContext, resources: Resources, progress: RunProgress) -> None:
        """Raise StoreError if the trials of earlier attempts cannot be read."""
        self._context = context
        self._progress = progress
        self._guard = resources.guard
        self._left = resources.left
        self._cost = CostGuard(context.plan, resources.rental, resources.renting)
        self._rental = resources.rental
        self._alongside = resources.use.alongside
        self._cloud = CloudRecorder(context, resources.rental, progress)
        self.servers = Servers(context, resources, progress, self._cloud)
        self._hooks = Hooks(context, progress)
        rule = context.folder.manifest.stopping
        self._looks = None if rule is None else Looks(rule, progress.trials, lambda: load_run(context.folder))
        generators = Generators(context.engine, resources.cluster, context.folder.trials())
        self._captured = CapturedLoad(context, progress, resources.guard)

        def runner(context: RunContext, progress: RunProgress) -> TrialRunner:
            return TrialRunner(context, progress, self.servers, generators, self._hooks, resources, self._captured)

        self._runner = runner(context, progress)
        self._profiles = Profiles(context, progress, resources.left, runner)

    def follow(self, todo: Iterable[PlannedTrial]) -> Finished:
        """Run the trials `todo` in turn, and store each as it ends.

        A trial that fails is stored as failed, and the plan decides whether the run continues. Ctrl-C and SIGTERM (as
        KeyboardInterrupt and SystemExit) store nothing of the current trial, close the manifest and reach the caller;
        so does StoreError if a trial cannot be stored.
        """
        reason = stopped = hint = None
        ending, why = Ending.COMPLETE, ""
        self._progress.run_began()
        try:
            try:
                if self._alongside is not None:
                    self._progress.note(self._alongside)
                self._hooks.around_run("before_run")
                with self._captured.file():
                    reason = self._run_trials(todo)
                if reason is None:
                    self._profiles.take()
            except (StopRunError, HookError) as stop:
                if not self._is_complete_without(stop):
                    reason, stopped, hint = stop.reason, stop.message, stop.hint
            self._cloud.collect()
            if reason is not None:
                ending, why = Ending.STOPPED, f": {reason}"
                self._progress.note(Message("stopped", "stopped: {reason}", reason=reason))
                if hint is not None:
                    self._progress.show(f"hint: {hint}")
            elif self._left is not None and self._left.is_used_up and (dropped := self._missing_trials()):
                ending = Ending.WITHIN_BUDGET
                self._note_dropped(dropped, self._left.in_words)
        except BaseException as error:
            # nothing that fails here may hide `error`; a second interruption ends the collection
            if not isinstance(error, StoreError):
                with suppress(PgdynoError, KeyboardInterrupt, SystemExit):
                    self._cloud.collect_at_once()
            with suppress(StoreError):
                self._close(Ending.STOPPED, _end_words(error))
            raise
        self._close(ending, f"{ending.value}{why}")
        return Finished(self._context.folder, self._context.folder.trials(), stopped)

    def _run_trials(self, todo: Iterable[PlannedTrial]) -> Message | None:
        """Return why the trials ended before the last one, or None if they did not. Raises StopRunError, StoreError."""
        plan, left = self._context.plan, self._left
        for place, trials in enumerate(self._fit_budget(todo)):
            if place and plan.trial.pause > 0:
                self._progress.set_up(f"pausing {duration_words(plan.trial.pause)}")
                time.sleep(plan.trial.pause)
            self._guard.check()
            self._cost.check(trials[0])
            self._progress.check_requests()
            self._check_scripts()
            if left is not None:
                left.begins(trials)
            records = self._runner.run_all(trials)
            if left is not None:
                left.note_ended(records)
            self._note_results(records)
            if self.servers.none_available:
                return Message("no-target-available", "no target can be started or reached")
            failed = any(record.outcome is not Outcome.FINISHED for record in records)
            if failed and plan.trial.on_failure == "stop":
                return Message("stopped-on-failure", 'the run ends after its first failed trial (on_failure = "stop")')
        return None

    def _note_results(self, records: Sequence[TrialRecord]) -> None:
        if self._looks is not None:
            for look in self._looks.look():
                self._progress.report_look(look)
        for record in records:
            if record.failure is not None:
                self.servers.give_up_unreachable(record.target)

    def _fit_budget(self, todo: Iterable[PlannedTrial]) -> Iterator[list[PlannedTrial]]:
        if not isinstance(todo, Sequence):
            # a search does not know how many trials it needs
            self._progress.later = 0
            yield from ([trial] for trial in todo)
            return
        as_listed = self._context.plan.order() == "as-listed"
        waiting, block = self._needed_trials(todo), 0
        while waiting:
            if self._left is not None and self._looks is None and (as_listed or waiting[0].block != block):
                waiting, dropped = self._left.select_fitting(waiting)
                if dropped is not None:
                    self._progress.note(dropped)
            trials = list(next(groupby(waiting, attrgetter("place")))[1])
            waiting = waiting[len(trials) :]
            block = trials[0].block
            self._progress.later = len({trial.place for trial in waiting})
            yield trials
            waiting = self._needed_trials(waiting)

    def _needed_trials(self, todo: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        return [trial for trial in todo if self._looks is None or self._looks.needs(trial)]

    def _check_scripts(self) -> None:
        folder = self._context.folder
        loaded = self._context.loaded
        changed = changed_script(folder.path, loaded.folder, folder.manifest.scripts or [])
        changed = changed or changed_data(folder, loaded)
        if changed is not None:
            raise StopRunError(changed, hint="restore it, and resume the run")

    def _close(self, ending: Ending, words: str) -> None:
        folder = self._context.folder
        try:
            self.servers.close()
        finally:
            done, left = folder.trials(), self._missing_trials()
            outcome = _outcome(done, complete=not left, ending=ending)
            if self._looks is not None and not left and ending is Ending.COMPLETE:
                self._note_looks(self._looks)
            try:
                self._hooks.around_run("after_run", outcome.value)
            except HookError as error:
                self._progress.note(error.reason)
            finally:
                self._write_end(words, outcome)
            step = self._next_step(done, left, ending)
            if step is not None:
                self._progress.show(step)

    def _next_step(self, done: Sequence[TrialRecord], left: Sequence[PlannedTrial], ending: Ending) -> str | None:
        """Return how to get the trials that are missing or failed; None if there are none, or resuming cannot help."""
        failed = sum(record.outcome is Outcome.FAILED for record in done)
        plan = self._context.plan
        allowed = " --allow-restart" if plan.system_names else ""
        resume = f"pgdyno run --resume {shlex.quote(str(self._context.folder.path))}{allowed}"
        refused = any(record.failure is not None and is_correction(record.failure.hint) for record in done)
        if (done and _failed_before_load(done)) or (
            refused and plan.trial.on_failure == "stop" and plan.search is None
        ):
            # a run without figures is begun anew, and a resumed run keeps the settings that the server refuses
            return None
        if left and ending is Ending.WITHIN_BUDGET:
            return f"to measure what was left out: {resume}"
        if left:
            redo = f"; with --redo-failed, also {_trials(failed)}" if failed else ""
            return f"to resume at trial {left[0].number}: {resume}{redo}"
        if ending is Ending.STOPPED and plan.search is not None:
            # it does not know its next trial
            return f"to resume the search: {resume}"
        hints = [record.failure.hint or "" for record in done if record.failure is not None]
        # a timeout of the role cancels the same statement again
        can_help = failed and not all(hint.startswith(OF_TIMEOUT) for hint in hints)
        return f"to run {_trials(failed)} again: {resume} --redo-failed" if can_help else None

    def _missing_trials(self) -> list[PlannedTrial]:
        numbers = {record.number for record in self._context.folder.trials()}
        return self._needed_trials([trial for trial in self._progress.trials if trial.number not in numbers])

    def _is_complete_without(self, stop: PgdynoError) -> bool:
        is_used_up = isinstance(stop, BudgetUsedError) and not isinstance(stop, LoadTooLongError)
        return is_used_up and self._context.plan.search is None and bool(self._context.folder.trials())

    def _note_dropped(self, dropped: Sequence[PlannedTrial], budget: str) -> None:
        folder = self._context.folder
        if folder.manifest.budget is not None:
            slugs = [trial.slug for trial in dropped]
            folder.update_manifest(budget=folder.manifest.budget.model_copy(update={"dropped": slugs}))
        if folder.manifest.stopping is not None:
            folder.update_manifest(stopping=folder.manifest.stopping.model_copy(update={"ended": "undecided"}))
        for note in self._progress.left_out_points(dropped, folder.trials(), budget):
            self._progress.note(note)

    def _write_end(self, ended: str, outcome: Outcome) -> None:
        now = datetime.now(UTC)
        manifest = self._context.folder.manifest
        last = manifest.attempts[-1].model_copy(update={"ended_at": now, "ended": ended})
        rent = rent_of(self._rental, manifest, now) if self._rental is not None else []
        self._context.folder.update_manifest(
            ended_at=now, outcome=outcome, attempts=[*manifest.attempts[:-1], last], rented=[*manifest.rented, *rent]
        )
        self._progress.run_ended(ended, outcome)

    def _note_looks(self, looks: Looks) -> None:
        folder = self._context.folder
        rule = folder.manifest.stopping
        assert rule is not None
        folder.update_manifest(
            stopping=rule.model_copy(update={"ended": looks.ended}), trials_planned=len(folder.trials())
        )
        self._progress.note(looks.summary)


def _failed_before_load(records: Sequence[TrialRecord]) -> bool:
    stages = {None if record.failure is None else record.failure.stage for record in records}
    return stages <= {Stage.TARGET, Stage.PREPARE, Stage.HOOK}


def _trials(failed: int) -> str:
    return quantity(failed, "failed trial")


def _end_words(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    if isinstance(error, SystemExit):
        return "was ended with its terminal" if error.code == ExitCode.HANGUP else "was terminated"
    return f"failed: {error.message if isinstance(error, PgdynoError) else repr(error)}"


def _outcome(done: Sequence[TrialRecord], *, complete: bool, ending: Ending) -> Outcome:
    if any(record.outcome is not Outcome.FINISHED for record in done):
        return Outcome.FAILED
    is_finished = ending is Ending.WITHIN_BUDGET or (complete and ending is Ending.COMPLETE)
    return Outcome.FINISHED if is_finished else Outcome.INTERRUPTED
