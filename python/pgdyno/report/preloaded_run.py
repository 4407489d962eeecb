"""A stored run whose tables are read at once: a file per trial and query would take seconds for a hundred trials."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from pgdyno.effect import Effect
from pgdyno.records import Manifest, TrialRecord
from pgdyno.store import EventRow, HistogramRow, IntervalRow, RunData, SettingRow, StatementRow
from pgdyno.store.probe_tables import Metric, Shares, Stretch, Stretches
from pgdyno.store.read_runs import KeptPlan
from pgdyno.store.seconds import Seconds
from pgdyno.store.trial_tables import SeriesRow, WaitRow

_Row = TypeVar("_Row", HistogramRow, StatementRow)
_Amounts = Mapping[int, Mapping[Metric, float]]
"""By number of the stretch."""


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
        self._amounts: dict[tuple[Metric, ...], dict[tuple[int, tuple[Stretch, ...]], _Amounts]] = {}

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        return self.run.trials

    def seconds(self, trial: int) -> Seconds:
        return self.run.seconds(trial)

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        return self.run.intervals(trial)

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        return self._totals.get(trial, ()) if totals else self.run.histograms(trial, totals=False)

    def statements(self, trial: int | None = None) -> Sequence[StatementRow]:
        return self._statement_rows if trial is None else self._statements.get(trial, ())

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Return the server's settings at each trial; only `names` if given."""
        return self.run.settings(names=names)

    def effect_of_script(self, name: str) -> Effect | None:
        return self.run.effect_of_script(name)

    def events(self) -> Sequence[EventRow]:
        return self._events

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        """Return the increase of counters; the audit and the comparison need the same ones."""
        known = self._amounts.setdefault(tuple(wanted), {})
        missing = {trial: spans for trial, spans in stretches.items() if (trial, tuple(spans)) not in known}
        read = self.run.amounts_within(missing, wanted)
        for trial, spans in missing.items():
            known[trial, tuple(spans)] = {at: read[trial, at] for at in range(len(spans)) if (trial, at) in read}
        return {
            (trial, at): amounts
            for trial, spans in stretches.items()
            for at, amounts in known[trial, tuple(spans)].items()
        }

    def shares_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Shares:
        return self.run.shares_within(stretches, wanted)

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        return self.run.series_within(stretches, wanted)

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        return self.run.sessions_within(stretches)

    def query_plans(self) -> Sequence[KeptPlan]:
        return self._query_plans

    @cached_property
    def _query_plans(self) -> Sequence[KeptPlan]:
        return self.run.query_plans()

    @cached_property
    def _events(self) -> Sequence[EventRow]:
        return self.run.events()

    @cached_property
    def _statement_rows(self) -> Sequence[StatementRow]:
        return self.run.statements()

    @cached_property
    def _totals(self) -> dict[int, list[HistogramRow]]:
        return _by_trial(self.run.histograms(totals=True))

    @cached_property
    def _statements(self) -> dict[int, list[StatementRow]]:
        return _by_trial(self._statement_rows)


def _by_trial(rows: Sequence[_Row]) -> dict[int, list[_Row]]:
    found: dict[int, list[_Row]] = defaultdict(list)
    for row in rows:
        found[row.trial].append(row)
    return found
