"""Several runs as one: their targets side by side, each named after its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgdyno.analyse.source import RunSource
from pgdyno.errors import UsageError
from pgdyno.records import Manifest, TrialRecord
from pgdyno.store.tables import HistogramRow, IntervalRow, StatementRow


@dataclass(frozen=True, slots=True)
class _Place:
    """The origin of a trial."""

    run: RunSource
    number: int


class Together:
    """Runs read as one; trials have consecutive numbers."""

    def __init__(self, runs: Sequence[RunSource]) -> None:
        """Read records only. Raises UsageError for fewer than one run, or the same one twice."""
        names = [run.manifest.run for run in runs]
        if len(set(names)) < len(names):
            raise UsageError(f"a run is named twice: {', '.join(names)}", hint="name each run once")
        self._names = target_names(runs)
        self._places: dict[int, _Place] = {}
        self._trials: list[TrialRecord] = []
        for at, run in enumerate(runs):
            for trial in run.trials:
                number = len(self._trials) + 1
                self._places[number] = _Place(run, trial.number)
                named = {"number": number, "target": self._names[at][trial.target]}
                self._trials.append(trial.model_copy(update=named))
        self._manifest = self._joined([run.manifest for run in runs])

    @property
    def manifest(self) -> Manifest:
        """Return the first run's manifest, with the targets of all."""
        return self._manifest

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Return the trials of all runs, one run after the other."""
        return self._trials

    def own_number(self, trial: int) -> tuple[RunSource, int]:
        """Return the run of trial number `trial`, and its number there."""
        place = self._places[trial]
        return place.run, place.number

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        run, number = self.own_number(trial)
        return [replace(row, trial=trial) for row in run.intervals(number)]

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        run, number = self.own_number(trial)
        return [replace(row, trial=trial) for row in run.histograms(number, totals=totals)]

    def statements(self, trial: int) -> Sequence[StatementRow]:
        run, number = self.own_number(trial)
        return [replace(row, trial=trial) for row in run.statements(number)]

    def _joined(self, manifests: Sequence[Manifest]) -> Manifest:
        first = manifests[0]
        targets = [
            target.model_copy(update={"name": self._names[at][target.name]})
            for at, manifest in enumerate(manifests)
            for target in manifest.targets
        ]
        rented = [
            each.model_copy(update={"target": self._names[at].get(each.target, each.target)})
            for at, manifest in enumerate(manifests)
            for each in manifest.rented
        ]
        notes = [f"{manifest.run}: {note}" for manifest in manifests for note in manifest.shown_notes]
        workloads = list(dict.fromkeys(manifest.workload for manifest in manifests))
        ended = [manifest.outcome for manifest in manifests]
        return first.model_copy(
            update={
                "run": " and ".join(manifest.run for manifest in manifests),
                "targets": targets,
                "rented": rented,
                "notes": notes,
                "workload": " beside ".join(workloads),
                "trials_planned": sum(manifest.trials_planned for manifest in manifests),
                "outcome": None if None in ended else first.outcome,
                "search": [],
            }
        )


def target_names(runs: Sequence[RunSource]) -> list[dict[str, str]]:
    """Return new names for each run's targets: `pg18` if only one run has it, otherwise `pg18 (quick-3f9a)`."""
    used = [
        dict.fromkeys([*(each.name for each in run.manifest.targets), *(t.target for t in run.trials)]) for run in runs
    ]
    counts: dict[str, int] = {}
    for names in used:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    short = [short_name(run.manifest.run) for run in runs]
    if len(set(short)) < len(short):
        short = [run.manifest.run for run in runs]
    return [
        {name: name if counts[name] == 1 else f"{name} ({short[at]})" for name in names}
        for at, names in enumerate(used)
    ]


def short_name(run: str) -> str:
    """Return a run's name without its time: `quick-3f9a` of `20261120T101500Z-quick-3f9a`."""
    time, dash, rest = run.partition("-")
    return rest if dash and time[:8].isdigit() else run
