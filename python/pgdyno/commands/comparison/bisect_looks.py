"""How much slower one commit is than another: by pairs of trials, or by counted instructions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from pgdyno.analyse.comparison import LEAST_DELTA, compare
from pgdyno.analyse.pairs import Metric, within
from pgdyno.bisection.commit_arms import Arms
from pgdyno.bisection.journal import Asked, Difference
from pgdyno.bisection.repository import Commit
from pgdyno.commands.support.carry_out import How, carry_out, experiment_of
from pgdyno.errors import StopRunError, TargetError
from pgdyno.experiment import resume_experiment
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.plan.values import repeat_range
from pgdyno.records import Outcome
from pgdyno.store import RunFolder, load_run
from pgdyno.store.find_runs import list_runs
from pgdyno.store.read_runs import RunData
from pgdyno.targets import Use

_ENDED = (Outcome.FINISHED, Outcome.FAILED)


class SkippedError(TargetError):
    """A commit cannot be built, started or measured."""


class Looks:
    """Compares two commits in a run of its own, which stops when it is decided."""

    def __init__(self, arms: Arms, asked: Asked, how: How) -> None:
        self._arms = arms
        self._metric = Metric(asked.by)
        # another figure than the usual one of the load decides nothing before the last pair
        is_usual = self._metric is (Metric.P99 if arms.has_rates else Metric.TPS)
        self._pairs: int | str = asked.pairs if is_usual and ".." in asked.pairs else repeat_range(asked.pairs)[1]
        self._how = how

    def compare(self, base: Commit, other: Commit, place: Path, threshold: float = 0.0) -> Difference:
        """Return by how much `other` is slower; `place` is the folder of the run.

        `threshold` is a logarithm: on which side of it the difference is, is to be decided. Raises SkippedError if
        `other` cannot be measured, other PgdynoErrors if nothing can.
        """
        self._arms.build(base)
        try:
            self._arms.build(other, kept=[base])
        except TargetError as error:
            raise SkippedError(error.message, hint=error.hint) from error
        margin = max(LEAST_DELTA, math.expm1(threshold))
        text = f"{100 * min(margin, 0.5):.2f}%" if isinstance(self._pairs, str) else None
        run = self._measured(self._arms.plan_of([base, other], self._pairs, text), place)
        for trial in run.trials:
            if trial.failure is not None:
                failed = SkippedError if trial.target == other.short else TargetError
                raise failed(trial.failure.message, hint=trial.failure.hint)
        return self._difference(run, base, other, margin)

    def _measured(self, loaded: LoadedPlan, place: Path) -> RunData:
        use = Use(loaded.plan.name, self._how.when_busy)
        begun = [RunFolder.open(each.path) for each in list_runs(place) if each.problem is None]
        if begun and begun[0].manifest.outcome in _ENDED:
            return load_run(begun[0])
        if begun:
            path = begun[0].path
            finished = carry_out(
                self._how.output, use, lambda view, used: resume_experiment(path, view, redo_failed=False, use=used)
            )
        else:
            finished = carry_out(self._how.output, use, experiment_of(loaded, replace(self._how, runs=place)))
            self._how = replace(self._how, check_first=False)
        if finished.stopped is not None:
            raise StopRunError(Message("run-stopped", "{reason}", reason=finished.stopped))
        return load_run(finished.folder)

    def _difference(self, run: RunData, base: Commit, other: Commit, margin: float) -> Difference:
        (found,) = compare(within(run, "target", self._metric, base=base.short), delta=margin)
        point = found.chief
        if point is None or point.interval is None:
            raise SkippedError(f"{other.short} has no {self._metric.words}")
        slower = point.interval.negated() if self._metric.sign > 0 else point.interval
        return Difference(
            mean=slower.mean,
            low=slower.low,
            high=slower.high,
            error=slower.error,
            freedom=slower.freedom,
            shown=slower.low > math.log1p(margin),
            figures=(point.base, point.other),
            run=f"{run.folder.path.parent.name}/{run.folder.name}",
        )
