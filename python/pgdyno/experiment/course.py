"""Goes through the trials of a run, and ends it in good order whatever happens."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from pgdyno.errors import ExitCode, PgdynoError, StoreError
from pgdyno.experiment.cloud import keep_told, keep_told_at_once
from pgdyno.experiment.hooks import run_level_hook
from pgdyno.experiment.rented import rent_of
from pgdyno.experiment.state import RunState
from pgdyno.experiment.stop import StopRunError
from pgdyno.experiment.trial import one_trial
from pgdyno.experiment.watched import tell_watchers
from pgdyno.plan import PlannedTrial
from pgdyno.records import Outcome, TrialRecord
from pgdyno.report.run_events import Noted, RunEnded, SetUp
from pgdyno.run import HookError
from pgdyno.store import RunFolder, changed_script
from pgdyno.units import format_duration

DONE = "came to its end"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run came to."""

    folder: RunFolder
    records: list[TrialRecord]
    """All that are whole, also those of earlier attempts."""
    stopped: str | None = None
    """Why the run ended before its last trial, if a limit, a hook or a changed script ended it."""

    @property
    def failed(self) -> list[TrialRecord]:
        """Trials that are no results."""
        return [record for record in self.records if record.outcome is not Outcome.FINISHED]


def carry_out(state: RunState, todo: Iterable[PlannedTrial]) -> Finished:
    """Does the trials `todo` in turn and stores each as it ends.

    A trial that fails is stored as failed; the run goes on or ends as the plan says. Ctrl-C and SIGTERM (as
    KeyboardInterrupt and SystemExit) store nothing of the trial in flight, close the manifest and go on to
    the caller; so does StoreError when a trial cannot be stored.
    """
    stopped = None
    ended = DONE
    tell_watchers(state)
    try:
        try:
            if state.ground.use.alongside is not None:
                state.note(state.ground.use.alongside)
            run_level_hook(state, "before_run")
            reason = _trials(state, todo)
        except (StopRunError, HookError) as stop:
            reason = stopped = stop.message
        keep_told(state)
        if reason is not None:
            ended = f"was stopped: {reason}"
            state.note(f"stopped: {reason}")
    except BaseException as error:
        # what could not be stored must not be hidden by what cannot be closed, and who interrupts again waits no more
        if not isinstance(error, StoreError):
            with suppress(PgdynoError, KeyboardInterrupt, SystemExit):
                keep_told_at_once(state)
        with suppress(StoreError):
            _close(state, _how(error))
        raise
    _close(state, ended)
    return Finished(state.folder, state.folder.trials(), stopped)


def _trials(state: RunState, todo: Iterable[PlannedTrial]) -> str | None:
    """Why the trials ended before the last one, in an ordinary way; None when they did not."""
    manifest = state.folder.manifest
    for place, trial in enumerate(todo):
        if place:
            _pause(state)
        # a search does not know how many
        state.later = len(todo) - place - 1 if isinstance(todo, Sequence) else 0
        state.ground.guard.check()
        wanted = state.requests.stop_wanted()
        if wanted is not None:
            raise StopRunError(wanted)
        changed = changed_script(state.folder.path, state.loaded.folder, manifest.scripts or [])
        if changed is not None:
            raise StopRunError(changed, hint="put it back, and resume the run")
        record = one_trial(state, trial)
        if len(state.unavailable) == len(state.plan.target):
            return "no target can be started"
        if record.outcome is not Outcome.FINISHED and state.plan.trial.on_failure == "stop":
            return 'the plan says on_failure = "stop"'
    return None


def _pause(state: RunState) -> None:
    seconds = state.plan.trial.pause
    if seconds > 0:
        state.view.event(SetUp(f"pausing {format_duration(seconds)}"))
        time.sleep(seconds)


def _how(error: BaseException) -> str:
    """How the attempt ended, behind "it"."""
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    if isinstance(error, SystemExit):
        return "was ended with its terminal" if error.code == ExitCode.HANGUP else "was terminated"
    return f"failed: {error.message if isinstance(error, PgdynoError) else repr(error)}"


def _close(state: RunState, ended: str) -> None:
    """Stops the servers, runs after_run, writes the manifest's end."""
    try:
        state.contexts.close()
    finally:
        done = state.folder.trials()
        numbers = {record.number for record in done}
        left = [trial for trial in state.trials if trial.number not in numbers]
        outcome = _outcome(done, complete=not left, ended=ended)
        try:
            _after(state, outcome)
        finally:
            _write_end(state, ended, outcome)
        if left:
            state.view.event(Noted(f"pgdyno run --resume {state.folder.path} goes on with trial {left[0].number}"))


def _write_end(state: RunState, ended: str, outcome: Outcome) -> None:
    now = datetime.now(UTC)
    attempts = state.folder.manifest.attempts
    last = attempts[-1].model_copy(update={"ended_at": now, "ended": ended})
    rented = [*state.folder.manifest.rented, *rent_of(state, now)]
    state.folder.update_manifest(ended_at=now, outcome=outcome, attempts=[*attempts[:-1], last], rented=rented)
    state.view.event(RunEnded(ended, outcome))


def _after(state: RunState, outcome: Outcome) -> None:
    try:
        run_level_hook(state, "after_run", outcome.value)
    except HookError as error:
        state.note(error.message)


def _outcome(done: Sequence[TrialRecord], *, complete: bool, ended: str) -> Outcome:
    if any(record.outcome is not Outcome.FINISHED for record in done):
        return Outcome.FAILED
    return Outcome.FINISHED if complete and ended == DONE else Outcome.INTERRUPTED
