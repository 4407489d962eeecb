"""A stored run whose tables are read at once: a file per trial and query would take seconds for a hundred trials."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from pgdyno.records import Manifest, TrialRecord
from pgdyno.store import EventRow, HistogramRow, IntervalRow, RunData, SettingRow, StatementRow
from pgdyno.store.probe_tables import Metric, Stretches
from pgdyno.store.tables import SeriesRow, WaitRow

_Row = TypeVar("_Row", IntervalRow, HistogramRow, StatementRow)


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector: rows have no cycles, and it would repeatedly scan a million of them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Gathered:
    """A run for analysis and audit, from memory; seconds' histograms are read when requested."""

    def __init__(self, run: RunData) -> None:
        self.run = run

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        return self.run.trials

    def intervals(self, trial: int | None = None) -> Sequence[IntervalRow]:
        return self._every if trial is None else self._intervals.get(trial, ())

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        return self._totals.get(trial, ()) if totals else self.run.histograms(trial, totals=False)

    def statements(self, trial: int | None = None) -> Sequence[StatementRow]:
        return self._said if trial is None else self._statements.get(trial, ())

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Return the server's settings at each trial; only `names` if given."""
        return self.run.settings(names=names)

    def events(self) -> Sequence[EventRow]:
        return self.run.events()

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        return self.run.amounts_within(stretches, wanted)

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        return self.run.series_within(stretches, wanted)

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
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
