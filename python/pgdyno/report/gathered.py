"""A stored run whose tables are read all at once: a file a trial and question would take seconds for a hundred."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from pgdyno.records import Manifest, TrialRecord
from pgdyno.store import EventRow, HistogramRow, IntervalRow, RunData, SettingRow, StatementRow
from pgdyno.store.tables import SeriesRow, WaitRow
from pgdyno.store.within import Metric, Stretches

_Row = TypeVar("_Row", IntervalRow, HistogramRow, StatementRow)


@contextmanager
def without_collector() -> Iterator[None]:
    """Rows hold no cycles; while a million of them are made, the collector would walk them all, over and over."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Gathered:
    """What analysis and audit ask of a run, from memory; seconds' histograms are read when they are asked for."""

    def __init__(self, run: RunData) -> None:
        """Reads nothing yet."""
        self.run = run

    @property
    def manifest(self) -> Manifest:
        """What the run is."""
        return self.run.manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Its trials in their order."""
        return self.run.trials

    def intervals(self, trial: int | None = None) -> Sequence[IntervalRow]:
        """Seconds of a trial, or of all."""
        return self._every if trial is None else self._intervals.get(trial, ())

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        """Histograms of a trial: of its whole measured part, or of its seconds."""
        return self._totals.get(trial, ()) if totals else self.run.histograms(trial, totals=False)

    def statements(self, trial: int | None = None) -> Sequence[StatementRow]:
        """Statements of a trial, or of all."""
        return self._said if trial is None else self._statements.get(trial, ())

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Settings of the server at each trial, of `names` only where some are named."""
        return self.run.settings(names=names)

    def events(self) -> Sequence[EventRow]:
        """What else the engine said, at each trial."""
        return self.run.events()

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        """What counters of the probe gained within stretches of trials."""
        return self.run.amounts_within(stretches, wanted)

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        """The probe's figures within stretches of trials."""
        return self.run.series_within(stretches, wanted)

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        """Looks at sessions, and what these waited for, likewise."""
        return self.run.sessions_within(stretches)

    @cached_property
    def _every(self) -> Sequence[IntervalRow]:
        return self.run.intervals()

    @cached_property
    def _said(self) -> Sequence[StatementRow]:
        return self.run.statements()

    @cached_property
    def _intervals(self) -> dict[int, list[IntervalRow]]:
        return _by_trial(self._every)

    @cached_property
    def _totals(self) -> dict[int, list[HistogramRow]]:
        return _by_trial(self.run.histograms(totals=True))

    @cached_property
    def _statements(self) -> dict[int, list[StatementRow]]:
        return _by_trial(self._said)


def _by_trial(rows: Sequence[_Row]) -> dict[int, list[_Row]]:
    found: dict[int, list[_Row]] = defaultdict(list)
    for row in rows:
        found[row.trial].append(row)
    return found
