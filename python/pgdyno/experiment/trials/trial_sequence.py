"""The course of a run: its trials one after the other, and an end in good order whatever happens."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from pgdyno.errors import ExitCode, PgdynoError, StoreError
from pgdyno.experiment.generators import Generators
from pgdyno.experiment.limits.budget_left import BudgetLeft
from pgdyno.experiment.limits.cost_guard import CostGuard
from pgdyno.experiment.limits.disk_guard import StopRunError
from pgdyno.experiment.rented.cloud_recorder import CloudRecorder
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.servers import Servers, rent_of
from pgdyno.experiment.stopping import Looks
from pgdyno.experiment.trials.hooks_and_events import Hooks
from pgdyno.experiment.trials.trial_runner import TrialRunner
from pgdyno.messages import Message
from pgdyno.plan import PlannedTrial
from pgdyno.records import Outcome, TrialRecord
from pgdyno.run import HookError
from pgdyno.store import RunFolder, changed_script, load_run
from pgdyno.units import format_duration

DONE = "came to its end"


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


class Course:
    """Creates the owners of a run's state, runs its trials, and closes it."""

    def __init__(self, context: RunContext, resources: Resources, progress: RunProgress) -> None:
        """Raises StoreError if the trials of earlier attempts cannot be read."""
        self._context = context
        self._progress = progress
        self._guard = resources.guard
        self._cost = CostGuard(context.plan, resources.rental, resources.renting)
        self._rental = resources.rental
        self._alongside = resources.use.alongside
        self._cloud = CloudRecorder(context, resources.rental, progress)
        self._servers = Servers(context, resources, progress, self._cloud)
        self._hooks = Hooks(context, progress)
        rule = context.folder.manifest.stopping
        self._looks = None if rule is None else Looks(rule, progress.trials, lambda: load_run(context.folder))
        generators = Generators(context.engine, resources.cluster, context.folder.trials())
        self._runner = TrialRunner(context, progress, self._servers, generators, self._hooks, resources)

    def follow(self, todo: Iterable[PlannedTrial]) -> Finished:
        """Run the trials `todo` in turn, and store each as it ends.

        A trial that fails is stored as failed, and the plan decides whether the run continues. Ctrl-C and SIGTERM (as
        KeyboardInterrupt and SystemExit) store nothing of the current trial, close the manifest and reach the caller;
        so does StoreError if a trial cannot be stored.
        """
        stopped = None
        ended = DONE
        self._progress.run_began()
        try:
            try:
                if self._alongside is not None:
                    self._progress.note(Message("measured-alongside", "{text}", text=self._alongside))
                self._hooks.around_run("before_run")
                reason = self._run_trials(todo)
            except (StopRunError, HookError) as stop:
                reason = stopped = stop.message
            self._cloud.collect()
            if reason is not None:
                ended = f"was stopped: {reason}"
                self._progress.note(Message("stopped", "stopped: {reason}", reason=reason))
        except BaseException as error:
            # nothing that fails here may hide `error`; a second interruption ends the collection
            if not isinstance(error, StoreError):
                with suppress(PgdynoError, KeyboardInterrupt, SystemExit):
                    self._cloud.collect_at_once()
            with suppress(StoreError):
                self._close(_how(error))
            raise
        self._close(ended)
        return Finished(self._context.folder, self._context.folder.trials(), stopped)

    def _run_trials(self, todo: Iterable[PlannedTrial]) -> str | None:
        """Return why the trials ended before the last one, or None if they did not. Raises StopRunError, StoreError."""
        plan = self._context.plan
        budget = self._context.loaded.budget
        left = None if budget is None else BudgetLeft(plan, budget)
        for place, trials in enumerate(self._within(left, todo)):
            if place:
                self._pause()
            self._guard.check()
            self._cost.check(trials[0])
            self._progress.check_requests()
            self._check_scripts()
            used_up = None if left is None else left.begins()
            if used_up is not None:
                return used_up
            records = self._runner.run_all(trials)
            if left is not None:
                left.ended(records)
            self._after(records)
            if self._servers.none_available:
                return "no target can be started or reached"
            failed = any(record.outcome is not Outcome.FINISHED for record in records)
            if failed and plan.trial.on_failure == "stop":
                return 'the plan says on_failure = "stop"'
        return None

    def _after(self, records: Sequence[TrialRecord]) -> None:
        """Look at the comparison with the new trials, and give up servers that they have lost."""
        if self._looks is not None:
            for look in self._looks.look():
                self._progress.looked(look)
        for record in records:
            if record.failure is not None:
                self._servers.give_up_unreachable(record.target)

    def _within(self, left: BudgetLeft | None, todo: Iterable[PlannedTrial]) -> Iterator[list[PlannedTrial]]:
        """Yield the trials `todo`, one or those that run at the same time; at the start of each block, only those that
        fit into the time that is left.
        """
        if not isinstance(todo, Sequence):
            # a search does not know how many trials it needs
            self._progress.later = 0
            yield from ([trial] for trial in todo)
            return
        as_listed = self._context.plan.order() == "as-listed"
        waiting, block = self._needed(todo), 0
        while waiting:
            if left is not None and self._looks is None and (as_listed or waiting[0].block != block):
                waiting, dropped = left.fitting(waiting)
                if dropped is not None:
                    self._progress.note(Message("budget-dropped", "{text}", text=dropped))
            at_once = self._context.plan.at_once
            trials, waiting = waiting[:at_once], waiting[at_once:]
            block = trials[0].block
            self._progress.later = len(waiting)
            yield trials
            waiting = self._needed(waiting)

    def _needed(self, todo: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        """Return the trials of `todo` that could still decide something."""
        return [trial for trial in todo if self._looks is None or self._looks.needs(trial)]

    def _check_scripts(self) -> None:
        folder = self._context.folder
        changed = changed_script(folder.path, self._context.loaded.folder, folder.manifest.scripts or [])
        if changed is not None:
            raise StopRunError(changed, hint="put it back, and resume the run")

    def _pause(self) -> None:
        seconds = self._context.plan.trial.pause
        if seconds > 0:
            self._progress.set_up(f"pausing {format_duration(seconds)}")
            time.sleep(seconds)

    def _close(self, ended: str) -> None:
        """Stop the servers, run after_run, write the end into the manifest."""
        folder = self._context.folder
        try:
            self._servers.close()
        finally:
            done = folder.trials()
            numbers = {record.number for record in done}
            left = self._needed([trial for trial in self._progress.trials if trial.number not in numbers])
            outcome = _outcome(done, complete=not left, ended=ended)
            if self._looks is not None and not left and ended == DONE:
                self._note_looks(self._looks)
            try:
                self._run_last_hook(outcome)
            finally:
                self._write_end(ended, outcome)
            failed = sum(record.outcome is Outcome.FAILED for record in done)
            if left:
                redo = f"; with --redo-failed, {_trials(failed)} again, too" if failed else ""
                self._progress.show(f"to resume at trial {left[0].number}: pgdyno run --resume {folder.path}{redo}")
            elif failed:
                self._progress.show(f"to run {_trials(failed)} again: pgdyno run --resume {folder.path} --redo-failed")

    def _run_last_hook(self, outcome: Outcome) -> None:
        try:
            self._hooks.around_run("after_run", outcome.value)
        except HookError as error:
            self._progress.note(Message("hook-failed", "{error}", error=error.message))

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
        """Record why there are no more trials."""
        folder = self._context.folder
        rule = folder.manifest.stopping
        assert rule is not None
        folder.update_manifest(
            stopping=rule.model_copy(update={"ended": looks.ended}), trials_planned=len(folder.trials())
        )
        self._progress.note(looks.summary)


def _trials(failed: int) -> str:
    return f"{failed} failed trial{'' if failed == 1 else 's'}"


def _how(error: BaseException) -> str:
    """Return how the attempt ended, to follow the word "it"."""
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    if isinstance(error, SystemExit):
        return "was ended with its terminal" if error.code == ExitCode.HANGUP else "was terminated"
    return f"failed: {error.message if isinstance(error, PgdynoError) else repr(error)}"


def _outcome(done: Sequence[TrialRecord], *, complete: bool, ended: str) -> Outcome:
    if any(record.outcome is not Outcome.FINISHED for record in done):
        return Outcome.FAILED
    return Outcome.FINISHED if complete and ended == DONE else Outcome.INTERRUPTED
