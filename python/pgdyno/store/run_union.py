"""Several runs, or some targets of them, read as one run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeVar

from pgdyno.effect import Effect, total_effect
from pgdyno.records import Manifest, TrialRecord
from pgdyno.store.probe_tables import Metric, Shares, Stretches
from pgdyno.store.read_runs import KeptPlan
from pgdyno.store.seconds import Seconds
from pgdyno.store.trial_tables import EventRow, HistogramRow, IntervalRow, SeriesRow, SettingRow, StatementRow, WaitRow

_Row = TypeVar("_Row", EventRow, HistogramRow, IntervalRow, SeriesRow, SettingRow, StatementRow)
_T = TypeVar("_T")


def shifts(runs: Sequence[Any]) -> list[int]:
    """Return what a union adds to the numbers of each run's trials."""
    last = (max((trial.number for trial in run.trials), default=0) for run in runs)
    return list(accumulate(last, initial=0))[:-1]


class RunUnion:
    """Trials of several runs, whose numbers continue from run to run. Tables are read when they are asked for."""

    def __init__(self, runs: Sequence[Any], names: Sequence[Mapping[str, str]], manifest: Manifest) -> None:
        """`runs` are of the protocol that the union is used by (`RunSource`, `AuditRun`); `names` has the targets of
        each whose trials belong to the union, with their names in it.
        """
        self.manifest = manifest
        self.timelines: dict[tuple[int, bool], Any] = {}
        self._runs, self._shifts = runs, shifts(runs)
        self._own: dict[int, tuple[int, int]] = {}
        self.trials: Sequence[TrialRecord] = [
            self._rename_trial(at, trial, names[at])
            for at, run in enumerate(runs)
            for trial in run.trials
            if trial.target in names[at]
        ]

    def _rename_trial(self, at: int, trial: TrialRecord, names: Mapping[str, str]) -> TrialRecord:
        number = trial.number + self._shifts[at]
        self._own[number] = at, trial.number
        changes: dict[str, object] = {"number": number, "target": names[trial.target]}
        partners = {each.number for each in self._runs[at].trials if each.target in names} if trial.duet else set()
        if trial.duet is not None and trial.duet.partner in partners:
            partner = trial.duet.partner + self._shifts[at]
            changes["duet"] = trial.duet.model_copy(update={"partner": partner})
        return trial.model_copy(update=changes)

    def _own_number(self, trial: int) -> tuple[Any, int]:
        at, number = self._own[trial]
        return self._runs[at], number

    def seconds(self, trial: int) -> Seconds:
        run, number = self._own_number(trial)
        seconds: Seconds = run.seconds(number)
        return seconds

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        run, number = self._own_number(trial)
        return [replace(row, trial=trial) for row in run.intervals(number)]

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        run, number = self._own_number(trial)
        return [replace(row, trial=trial) for row in run.histograms(number, totals=totals)]

    def statements(self, trial: int | None = None) -> Sequence[StatementRow]:
        if trial is None:
            return self._rows([run.statements() for run in self._runs])
        run, number = self._own_number(trial)
        return [replace(row, trial=trial) for row in run.statements(number)]

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        return self._rows([run.settings(names=names) for run in self._runs])

    def events(self) -> Sequence[EventRow]:
        return self._rows([run.events() for run in self._runs])

    def query_plans(self) -> Sequence[KeptPlan]:
        every = zip(self._runs, self._shifts, strict=True)
        return [plan.renumbered(shift.__add__) for run, shift in every for plan in run.query_plans()]

    def effect_of_script(self, name: str) -> Effect | None:
        known = [each for run in self._runs if (each := run.effect_of_script(name)) is not None]
        return total_effect(known) if known else None

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        return self._by_stretch([run.amounts_within(own, wanted) for run, own in self._with_own(stretches)])

    def shares_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Shares:
        return self._by_stretch([run.shares_within(own, wanted) for run, own in self._with_own(stretches)])

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        return self._by_stretch([run.sessions_within(own) for run, own in self._with_own(stretches)])

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        return self._rows([run.series_within(own, wanted) for run, own in self._with_own(stretches)])

    def _with_own(self, stretches: Stretches) -> Iterator[tuple[Any, Stretches]]:
        for at, run in enumerate(self._runs):
            yield (
                run,
                {self._own[number][1]: spans for number, spans in stretches.items() if self._own[number][0] == at},
            )

    def _by_stretch(self, found: Sequence[Mapping[tuple[int, int], _T]]) -> dict[tuple[int, int], _T]:
        every = zip(found, self._shifts, strict=True)
        return {(trial + shift, at): value for own, shift in every for (trial, at), value in own.items()}

    def _rows(self, found: Sequence[Sequence[_Row]]) -> list[_Row]:
        every = zip(found, self._shifts, strict=True)
        return [replace(row, trial=row.trial + shift) if shift else row for rows, shift in every for row in rows]
