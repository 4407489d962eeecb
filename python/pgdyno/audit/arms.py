"""Arms of a comparison, and two arms presented to the rules as the two targets of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pgdyno.audit.subject import AuditRun, Sample, Subject
from pgdyno.effect import Effect, total_effect
from pgdyno.records import Manifest, TargetRecord, TrialRecord
from pgdyno.store.probe_tables import Metric, Shares, Stretches
from pgdyno.store.read_runs import KeptPlan
from pgdyno.store.seconds import Seconds
from pgdyno.store.trial_tables import EventRow, SeriesRow, SettingRow, StatementRow, WaitRow

Arms = Mapping[str, Sequence[Sample]]
"""Finished trials by the name of their arm."""


def arms_of(trials: Sequence[TrialRecord]) -> dict[int, str]:
    """Return the arm of each trial by its number, as messages name it: `pg18`, or `pg18, work_mem=8MB`."""
    protocols = {trial.point.protocol for trial in trials}
    return {
        trial.number: ", ".join(
            [
                trial.target,
                *(f"{name}={value}" for name, value in trial.point.settings.items()),
                *([trial.point.protocol] if len(protocols) > 1 else []),
            ]
        )
        for trial in trials
    }


def point_of(trial: TrialRecord) -> str:
    """Return the point of `trial` without the parameters that define its arm."""
    return trial.point.model_copy(update={"settings": {}, "protocol": ""}).model_dump_json()


def order_is_drawn(manifest: Manifest) -> bool:
    """Return whether chance decides which arm of a point comes first, so that the interval accounts for their places.

    Earlier versions ran two arms A B B A, which cancels steady drift.
    """
    return manifest.plan.get("trial", {}).get("order") in ("interleaved", "randomised")


def compares_no_arms(manifest: Manifest) -> bool:
    """Return whether the arms of a run are the proposals of a search, or targets that it holds against a promise."""
    return manifest.finds_settings or manifest.finds_cheapest


def compared_arms(subject: Subject) -> Arms:
    """Return arms with their trials at the points that at least two arms share; empty if nothing can be compared.

    A search compares none of the arms that it tries, except in pairs of its own.
    """
    if compares_no_arms(subject.manifest):
        return {}
    names = arms_of(subject.run.trials)
    by_point: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in subject.samples:
        by_point[point_of(sample.trial)][names[sample.number]].append(sample)
    arms: dict[str, list[Sample]] = defaultdict(list)
    for by_arm in by_point.values():
        for name, samples in by_arm.items() if len(by_arm) > 1 else ():
            arms[name] += samples
    return arms


_Row = TypeVar("_Row", EventRow, SeriesRow)


@dataclass(frozen=True)
class Side:
    """A target of a run."""

    run: AuditRun
    target: str

    @property
    def imported(self) -> bool:
        return self.run.manifest.imported is not None

    @property
    def record(self) -> TargetRecord | None:
        return next((each for each in self.run.manifest.targets if each.name == self.target), None)

    def called(self, other: Side) -> str:
        """The target's name; with its run if the other arm is from another run."""
        return self.target if self.run is other.run else f"{self.target} of {self.run.manifest.run}"

    def trials(self) -> list[TrialRecord]:
        return [trial for trial in self.run.trials if trial.target == self.target]

    def disks(self, name: str) -> dict[str, str]:
        """Return the storage of the data and the WAL, where known, as disks of the target `name`."""
        fingerprint = self.run.manifest.fingerprint
        known = fingerprint.host.disks if fingerprint is not None else {}
        either = known.get(f"data and WAL of {self.target}") or known.get("servers of pgdyno")
        found = {what: known.get(f"{what} of {self.target}") or either for what in ("data", "WAL")}
        return {f"{what} of {name}": disk for what, disk in found.items() if disk is not None}


class PairRun:
    """Trials of both arms with consecutive numbers, and the manifest that a run of both would have."""

    def __init__(self, base: Side, other: Side) -> None:
        """Read records only; tables are read when a rule asks for them."""
        self._sides = (base, other)
        self._names = (base.called(other), other.called(base))
        self._shift = 1 + max((trial.number for trial in base.run.trials), default=0)
        self.trials: Sequence[TrialRecord] = [
            trial.model_copy(update={"number": self._number(at, trial.number), "target": self._names[at]})
            for at, side in enumerate(self._sides)
            for trial in side.trials()
        ]
        self.manifest = self._joint_manifest()

    def _number(self, side: int, trial: int) -> int:
        return trial + side * self._shift

    def _joint_manifest(self) -> Manifest:
        base, other = (side.run.manifest for side in self._sides)
        targets = [
            side.record.model_copy(update={"name": name})
            for side, name in zip(self._sides, self._names, strict=True)
            if side.record is not None
        ]
        # two runs of searches are compared, although each of them compares no arms
        plan = {name: each for name, each in base.plan.items() if name != "search"}
        changes: dict[str, object] = {"targets": targets, "plan": plan, "preflight": [], "attempts": [], "host": None}
        if base.fingerprint is not None and other.fingerprint is not None:
            disks = {**self._sides[0].disks(self._names[0]), **self._sides[1].disks(self._names[1])}
            host = base.fingerprint.host.model_copy(update={"disks": disks})
            changes["fingerprint"] = base.fingerprint.model_copy(update={"host": host, "servers": {}})
        else:
            # a fingerprint of both arms does not contain the hosts: the rule reads their records
            hosts = [each for manifest in (base, other) for each in manifest.attempts]
            changes |= {"fingerprint": None, "attempts": hosts, "host": base.host}
        if base.imported is not None:
            changes["imported"] = base.imported.model_copy(update={"facts": {}})
        return base.model_copy(update=changes)

    def effect_of_script(self, name: str) -> Effect | None:
        known = [each for side in self._sides if (each := side.run.effect_of_script(name)) is not None]
        return total_effect(known) if known else None

    def events(self) -> Sequence[EventRow]:
        return [row for at, side in enumerate(self._sides) for row in self._renumbered(at, side.run.events())]

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        return {
            (self._number(at, trial), stretch): amounts
            for at, own in self._by_side(stretches)
            for (trial, stretch), amounts in self._sides[at].run.amounts_within(own, wanted).items()
        }

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        return [
            row
            for at, own in self._by_side(stretches)
            for row in self._renumbered(at, self._sides[at].run.series_within(own, wanted))
        ]

    def shares_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Shares:
        return {
            (self._number(at, trial), stretch): shares
            for at, own in self._by_side(stretches)
            for (trial, stretch), shares in self._sides[at].run.shares_within(own, wanted).items()
        }

    # required by the protocol; nothing here uses it

    def sessions_within(
        self,
        stretches: Stretches,  # noqa: ARG002
    ) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        """Return None, because no rule about pairs uses waits."""
        return {}

    def seconds(self, trial: int) -> Seconds:
        at = int(trial >= self._shift)
        return self._sides[at].run.seconds(trial - at * self._shift)

    def _by_side(self, stretches: Stretches) -> Iterator[tuple[int, Stretches]]:
        for at in range(len(self._sides)):
            own = {
                number - at * self._shift: spans
                for number, spans in stretches.items()
                if (number >= self._shift) == bool(at)
            }
            if own:
                yield at, own

    def _renumbered(self, side: int, rows: Sequence[_Row]) -> Sequence[_Row]:
        return [replace(row, trial=self._number(side, row.trial)) for row in rows] if side else rows

    def statements(self) -> Sequence[StatementRow]:
        return [
            replace(row, trial=self._number(at, row.trial))
            for at, side in enumerate(self._sides)
            for row in side.run.statements()
        ]

    def query_plans(self) -> Sequence[KeptPlan]:
        return [
            each.renumbered(partial(self._number, at))
            for at, side in enumerate(self._sides)
            for each in side.run.query_plans()
        ]

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Return the settings at the trials of both arms; only those in `names` if it is given."""
        return [
            replace(row, trial=self._number(at, row.trial))
            for at, side in enumerate(self._sides)
            for row in side.run.settings(names=names)
        ]
