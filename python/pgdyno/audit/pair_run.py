"""Two arms, of one run or of two, as the two targets of one run: so that rules about pairs see both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.audit.subject import AuditRun
from pgdyno.records import Manifest, TargetRecord, TrialRecord
from pgdyno.store.tables import EventRow, IntervalRow, SeriesRow, SettingRow, StatementRow, WaitRow
from pgdyno.store.within import Metric, Stretches


@dataclass(frozen=True)
class Side:
    """A target of a run."""

    run: AuditRun
    target: str

    @property
    def imported(self) -> bool:
        """Whether another tool measured it."""
        return self.run.manifest.imported is not None

    @property
    def record(self) -> TargetRecord | None:
        """What the manifest says of it."""
        return next((each for each in self.run.manifest.targets if each.name == self.target), None)

    def called(self, beside: Side) -> str:
        """Its name; with its run where the other arm is of another run."""
        return self.target if self.run is beside.run else f"{self.target} of {self.run.manifest.run}"

    def trials(self) -> list[TrialRecord]:
        """Its trials."""
        return [trial for trial in self.run.trials if trial.target == self.target]

    def disks(self, name: str) -> dict[str, str]:
        """What its data and its WAL lie on, where that is known, as disks of the target `name`."""
        fingerprint = self.run.manifest.fingerprint
        known = fingerprint.host.disks if fingerprint is not None else {}
        either = known.get(f"data and WAL of {self.target}") or known.get("servers of pgdyno")
        found = {what: known.get(f"{what} of {self.target}") or either for what in ("data", "WAL")}
        return {f"{what} of {name}": disk for what, disk in found.items() if disk is not None}


class PairRun:
    """Trials of both arms, numbered through, with the manifest that a run of both would have."""

    def __init__(self, base: Side, other: Side) -> None:
        """Reads records; tables when a rule asks."""
        self._sides = (base, other)
        self._names = (base.called(other), other.called(base))
        self._shift = 1 + max((trial.number for trial in base.run.trials), default=0)
        self.trials: Sequence[TrialRecord] = [
            trial.model_copy(update={"number": self._number(at, trial.number), "target": self._names[at]})
            for at, side in enumerate(self._sides)
            for trial in side.trials()
        ]
        self.manifest = self._joined()

    def _number(self, side: int, trial: int) -> int:
        return trial + side * self._shift

    def _joined(self) -> Manifest:
        base, other = (side.run.manifest for side in self._sides)
        targets = [
            side.record.model_copy(update={"name": name})
            for side, name in zip(self._sides, self._names, strict=True)
            if side.record is not None
        ]
        changes: dict[str, object] = {"targets": targets, "preflight": [], "attempts": [], "host": None}
        if base.fingerprint is not None and other.fingerprint is not None:
            disks = {**self._sides[0].disks(self._names[0]), **self._sides[1].disks(self._names[1])}
            host = base.fingerprint.host.model_copy(update={"disks": disks})
            changes["fingerprint"] = base.fingerprint.model_copy(update={"host": host, "servers": {}})
        else:
            # what the hosts are is told by no fingerprint of both: the rule looks at their records
            hosts = [each for manifest in (base, other) for each in manifest.attempts]
            changes |= {"fingerprint": None, "attempts": hosts, "host": base.host}
        if base.imported is not None:
            changes["imported"] = base.imported.model_copy(update={"facts": {}})
        return base.model_copy(update=changes)

    def events(self) -> Sequence[EventRow]:
        """None: nor at what the engine said."""
        return ()

    # the protocol names what it asks for; nothing of it is looked at here

    def amounts_within(
        self,
        stretches: Stretches,  # noqa: ARG002
        wanted: Sequence[Metric],  # noqa: ARG002
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        """None: nor at what the probe saw."""
        return {}

    def series_within(
        self,
        stretches: Stretches,  # noqa: ARG002
        wanted: Sequence[Metric],  # noqa: ARG002
    ) -> Sequence[SeriesRow]:
        """None, likewise."""
        return ()

    def sessions_within(
        self,
        stretches: Stretches,  # noqa: ARG002
    ) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        """None, likewise."""
        return {}

    def intervals(self) -> Sequence[IntervalRow]:
        """None: no rule about pairs looks at seconds."""
        return ()

    def statements(self) -> Sequence[StatementRow]:
        """Statements of both arms."""
        return [
            replace(row, trial=self._number(at, row.trial))
            for at, side in enumerate(self._sides)
            for row in side.run.statements()
        ]

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Settings at the trials of both arms; those called `names` where some are."""
        return [
            replace(row, trial=self._number(at, row.trial))
            for at, side in enumerate(self._sides)
            for row in side.run.settings(names=names)
        ]
