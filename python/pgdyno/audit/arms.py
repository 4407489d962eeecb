"""Arms of a comparison, and two arms presented to the rules as the two targets of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.audit.subject import AuditRun, Sample, Subject
from pgdyno.records import Manifest, TargetRecord, TrialRecord
from pgdyno.store.run_union import RunUnion

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


@dataclass(frozen=True)
class Side:
    run: AuditRun
    target: str

    @property
    def imported(self) -> bool:
        return self.run.manifest.imported is not None

    @property
    def record(self) -> TargetRecord | None:
        return next((each for each in self.run.manifest.targets if each.name == self.target), None)

    def name_next_to(self, other: Side) -> str:
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


def pair_run(base: Side, other: Side) -> RunUnion:
    """Return the trials of both arms as one run."""
    names = (base.name_next_to(other), other.name_next_to(base))
    runs, shown = (base.run, other.run), ({base.target: names[0]}, {other.target: names[1]})
    return RunUnion(runs, shown, _joint_manifest((base, other), names))


def _joint_manifest(sides: tuple[Side, Side], names: tuple[str, str]) -> Manifest:
    base, other = (side.run.manifest for side in sides)
    targets = [
        side.record.model_copy(update={"name": name})
        for side, name in zip(sides, names, strict=True)
        if side.record is not None
    ]
    # two runs of searches are compared, although each of them compares no arms
    plan = {name: each for name, each in base.plan.items() if name != "search"}
    changes: dict[str, object] = {"targets": targets, "plan": plan, "preflight": [], "attempts": [], "host": None}
    if base.fingerprint is not None and other.fingerprint is not None:
        disks = {**sides[0].disks(names[0]), **sides[1].disks(names[1])}
        host = base.fingerprint.host.model_copy(update={"disks": disks})
        changes["fingerprint"] = base.fingerprint.model_copy(update={"host": host, "servers": {}})
    else:
        # a fingerprint of both arms does not contain the hosts: the rule reads their records
        hosts = [each for manifest in (base, other) for each in manifest.attempts]
        changes |= {"fingerprint": None, "attempts": hosts, "host": base.host}
    if base.imported is not None:
        changes["imported"] = base.imported.model_copy(update={"facts": {}})
    return base.model_copy(update=changes)
