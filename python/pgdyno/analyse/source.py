"""What the analysis needs of a run: its records, and its tables by trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pgdyno.records import Manifest, TrialRecord
from pgdyno.store.tables import HistogramRow, IntervalRow, StatementRow

MEASURE = "measure"
WARM_UP = "warm-up"


class RunSource(Protocol):
    """A run that can be analysed; `store.read.RunData` implements it."""

    @property
    def manifest(self) -> Manifest:
        """Return the run's manifest."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Return the trials in order, with failed ones."""

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Return the seconds of trial number `trial`, in order; empty if it never ran."""

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Return the histograms of trial number `trial`: of its whole measured part, or of its seconds."""

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Return the statements of trial number `trial`, in the order of its scripts."""


class Remembered:
    """A run whose tables are read only once, because several analyses need the same seconds."""

    def __init__(self, run: RunSource) -> None:
        self._run = run
        self._intervals: dict[int, Sequence[IntervalRow]] = {}
        self._totals: dict[int, Sequence[HistogramRow]] = {}
        self.timelines: dict[tuple[int, bool], Any] = {}
        """Timelines (`pgdyno.analyse.timeline`) by trial and whether with percentiles."""

    @property
    def manifest(self) -> Manifest:
        """Return the run's manifest."""
        return self._run.manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Return the trials in order."""
        return self._run.trials

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Return the seconds of a trial."""
        if trial not in self._intervals:
            self._intervals[trial] = self._run.intervals(trial)
        return self._intervals[trial]

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Return the histograms of a trial; those of its seconds are not cached, because they are large."""
        if not totals:
            return self._run.histograms(trial, totals=False)
        if trial not in self._totals:
            self._totals[trial] = self._run.histograms(trial, totals=True)
        return self._totals[trial]

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Return the statements of a trial."""
        return self._run.statements(trial)
