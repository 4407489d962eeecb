"""Trials whose load several generators make: done again when one of them was lost."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.errors import EngineError
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.records import Failure, Outcome, Stage
from pgdyno.run import TrialResult

DONE_AGAIN = 2
"""How often a trial is done again; if a generator is lost once more, the trial has failed."""


class GeneratorLostError(Exception):
    """A generator was lost: what was measured is no result, and is not kept."""

    def __init__(self, message: str) -> None:
        """In the load's words."""
        super().__init__(message)
        self.message = message


def with_generators(state: RunState, trial: PlannedTrial, load: Callable[[], TrialResult]) -> TrialResult:
    """What `load` gives; a failed trial where the generators cannot be had.

    Raises GeneratorLostError when the trial is to be done again.
    """
    if state.ground.cluster is None:
        return load()
    try:
        result = load()
    except EngineError as error:
        failure = Failure(stage=Stage.RUN, message=error.message, hint=error.hint)
        return TrialResult(Outcome.FAILED, [], None, None, failure)
    is_lost = bool(result.events) and result.events[-1].get("lost_generator") is not None
    if is_lost and result.failure is not None and state.done_again.get(trial.number, 0) < DONE_AGAIN:
        state.done_again[trial.number] = state.done_again.get(trial.number, 0) + 1
        state.preparers[trial.target].forget()
        raise GeneratorLostError(result.failure.message)
    return result
