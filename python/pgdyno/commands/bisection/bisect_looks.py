"""How much slower one commit is than another: by pairs of trials, or by counted instructions."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.intervals import CONFIDENCE, Interval, paired_interval
from pgdyno.analyse.pairs import Metric, value_of, within
from pgdyno.bisection.commit_arms import Arms, NoSpaceError
from pgdyno.bisection.journal import Asked, Difference
from pgdyno.bisection.repository import Commit
from pgdyno.commands.support.carry_out import How, carry_out, experiment_of
from pgdyno.errors import StopRunError, TargetError
from pgdyno.experiment import Finished, resume_experiment
from pgdyno.live.run_journal import JournalView
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.plan.values import repeat_range
from pgdyno.records import Outcome
from pgdyno.store import RunFolder, load_run
from pgdyno.store.find_runs import list_runs
from pgdyno.store.read_runs import RunData
from pgdyno.targets import Use

_ENDED = (Outcome.FINISHED, Outcome.FAILED)


COUNTS = 2
"""Repeats of a count, which hardly scatters."""


class SkippedError(TargetError):
    """A commit cannot be built, started or measured."""


class Looks:
    """Compares two commits in a run of both, which stops when it is decided; counts each commit once."""

    def __init__(self, arms: Arms, asked: Asked, how: How) -> None:
        self._arms = arms
        self._metric = Metric(arms.by)
        self._how = how
        # another figure than the usual one of the load decides nothing before the last pair
        may_stop = arms.by == arms.usual and ".." in asked.pairs
        self._pairs: int | str = asked.pairs if may_stop else repeat_range(asked.pairs)[1]

    def compare(self, base: Commit, other: Commit, place: Path, threshold: float = 0.0) -> Difference:
        """Return by how much `other` is slower; `place` is the folder for a run of both.

        `threshold` is a logarithm: on which side of it the difference is, is to be decided. Raises SkippedError if
        `other` cannot be measured, other PgdynoErrors if nothing can.
        """
        if self._metric is Metric.INSTRUCTIONS:
            return self._compare_counts(base, other, place.parent)
        margin = max(self._metric.least_delta, math.expm1(threshold))
        text = f"{100 * min(margin, 0.5):.2f}%" if isinstance(self._pairs, str) else None
        run = self._measured(self._arms.plan_of([base, other], self._pairs, text), [base, other], place, other)
        (found,) = compare(within(run, "target", self._metric, base=base.short), delta=margin)
        point = found.chief
        if point is None or point.interval is None:
            raise SkippedError(f"{other.short} has no {self._metric.words}")
        slower = point.interval.inverse() if self._metric.sign > 0 else point.interval
        return _difference(slower, margin, point.base, point.other, [run])

    def _compare_counts(self, base: Commit, other: Commit, folder: Path) -> Difference:
        runs = [
            self._measured(self._arms.plan_of([each], COUNTS, None), [each], folder / f"count-{each.short}", judged)
            for each, judged in ((base, None), (other, other))
        ]
        counts = [[value_of(trial, self._metric) or 1.0 for trial in run.trials] for run in runs]
        logs = [math.log(after / before) for before, after in zip(*counts, strict=True)]
        interval = paired_interval(logs, CONFIDENCE)
        assert interval is not None
        return _difference(interval, self._metric.least_delta, fmean(counts[0]), fmean(counts[1]), runs)

    def _measured(self, loaded: LoadedPlan, commits: Sequence[Commit], place: Path, judged: Commit | None) -> RunData:
        """Return the run of `loaded` in `place`, resumed or begun if it has not ended.

        Raises SkippedError if `judged` cannot be built or measured, other PgdynoErrors for other commits.
        """
        begun = [RunFolder.open(each.path) for each in list_runs(place) if each.problem is None]
        if not begun or begun[0].manifest.outcome not in _ENDED:
            self.build(commits, judged)
            self._run(loaded, begun[0].path if begun else None, place)
        run = load_run(list_runs(place)[0].path)
        for trial in run.trials:
            if trial.failure is not None:
                try:
                    self._arms.check_space(trial.failure.message)
                except NoSpaceError:
                    # --resume measures it anew
                    shutil.rmtree(run.folder.path)
                    raise
                failed = SkippedError if judged is not None and trial.target == judged.short else TargetError
                raise failed(trial.failure.message, hint=trial.failure.hint)
        return run

    def build(self, commits: Sequence[Commit], judged: Commit | None = None) -> None:
        """Build `commits`. Raises SkippedError if `judged` cannot be built, other PgdynoErrors for other commits."""
        for commit in commits:
            try:
                self._arms.build(commit, kept=commits)
            except TargetError as error:
                if commit != judged:
                    raise
                self._arms.check_space(error.message)
                raise SkippedError(error.message, hint=error.hint) from error

    def _run(self, loaded: LoadedPlan, begun: Path | None, place: Path) -> None:
        begin = experiment_of(loaded, replace(self._how, runs=place))

        def experiment(view: JournalView, use: Use) -> Finished:
            if begun is None:
                return begin(view, use)
            return resume_experiment(begun, view, redo_failed=False, use=use)

        finished = carry_out(self._how.output, Use(loaded.plan.name, self._how.when_busy), experiment)
        self._how = replace(self._how, check_first=False)
        if finished.stopped is not None:
            raise StopRunError(Message("run-stopped", "{reason}", reason=finished.stopped))


def _difference(slower: Interval, margin: float, base: float, other: float, runs: Sequence[RunData]) -> Difference:
    return Difference(
        mean=slower.mean,
        low=slower.low,
        high=slower.high,
        error=slower.error,
        freedom=slower.freedom,
        shown=slower.low > math.log1p(margin),
        figures=(base, other),
        runs=[f"{run.folder.path.parent.name}/{run.folder.name}" for run in runs],
    )
