"""The number of engine threads of a trial: what an earlier trial of the same load found.

The engine finds it while warming up. All later trials of a point begin with it, whatever their target and settings:
arms that are compared have the same generator, and no trial is disturbed by a search that was made before.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.records import Outcome, Point, TrialRecord


class KnownWorkers:
    """The numbers that trials of a run have found, by load."""

    def __init__(self, trials: Iterable[TrialRecord]) -> None:
        """Knows what `trials`, which are whole, have found."""
        self._by_load: dict[str, int] = {}
        for trial in trials:
            self.learn(trial)

    def of(self, point: Point) -> int | None:
        """The number for the load of `point`; None where no trial has found one."""
        return self._by_load.get(_load(point))

    def learn(self, trial: TrialRecord) -> None:
        """Keeps what `trial` found, if it is the first of its load that finished.

        Several generators that make a load together find none: each of them has its own.
        """
        generator = trial.generator
        if trial.outcome is Outcome.FINISHED and generator is not None and not generator.hosts:
            self._by_load.setdefault(_load(trial.point), generator.workers)


def _load(point: Point) -> str:
    """What the generator does at `point`: all but the settings of the server."""
    return point.model_copy(update={"settings": {}}).model_dump_json()
