"""What analysis needs of a run: its records, and its tables a trial at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pgdyno.records import Manifest, TrialRecord
from pgdyno.store.tables import HistogramRow, IntervalRow, StatementRow

MEASURE = "measure"
WARM_UP = "warm-up"


class RunSource(Protocol):
    """A run as this room reads it: `store.read.RunData` is one."""

    @property
    def manifest(self) -> Manifest:
        """What the run is."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Its trials in their order, failed ones too."""

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Seconds of trial number `trial`, in order; empty when it never ran."""

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Histograms of trial number `trial`: those of its whole measured part, or those of its seconds."""

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Statements of trial number `trial`, in the order of its scripts."""


class Remembered:
    """A run whose tables are read once each: several analyses ask for the same seconds."""

    def __init__(self, run: RunSource) -> None:
        """Reads nothing yet."""
        self._run = run
        self._intervals: dict[int, Sequence[IntervalRow]] = {}
        self._totals: dict[int, Sequence[HistogramRow]] = {}
        self.timelines: dict[tuple[int, bool], Any] = {}
        """Of `pgdyno.analyse.timeline`, by trial and whether with percentiles."""

    @property
    def manifest(self) -> Manifest:
        """What the run is."""
        return self._run.manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Its trials in their order."""
        return self._run.trials

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Seconds of a trial."""
        if trial not in self._intervals:
            self._intervals[trial] = self._run.intervals(trial)
        return self._intervals[trial]

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Histograms of a trial; those of its seconds are many and are not kept."""
        if not totals:
            return self._run.histograms(trial, totals=False)
        if trial not in self._totals:
            self._totals[trial] = self._run.histograms(trial, totals=True)
        return self._totals[trial]

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Statements of a trial."""
        return self._run.statements(trial)
