"""The number of engine threads of a trial: the one that an earlier trial of the same load found.

The engine finds it while warming up. All later trials of a point begin with it, whatever their target and settings:
arms that are compared have the same generator, and a search disturbs only the first trial of a load.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.records import Outcome, Point, TrialRecord


class KnownWorkers:
    """The numbers of engine threads that the trials of a run have found, by load."""

    def __init__(self, trials: Iterable[TrialRecord]) -> None:
        self._by_load: dict[str, int] = {}
        for trial in trials:
            self.learn(trial)

    def of(self, point: Point) -> int | None:
        """Return the number for the load of `point`; None if no trial has found one."""
        return self._by_load.get(_load(point))

    def learn(self, trial: TrialRecord) -> None:
        """Remember what `trial` found, if it is the first of its load that finished.

        The engines of a cluster are ignored: each of them finds a number of its own.
        """
        generator = trial.generator
        if trial.outcome is Outcome.FINISHED and generator is not None and not generator.hosts:
            self._by_load.setdefault(_load(trial.point), generator.workers)


def _load(point: Point) -> str:
    """Return all of `point` but the settings of the server: what the generator does."""
    return point.model_copy(update={"settings": {}}).model_dump_json()
