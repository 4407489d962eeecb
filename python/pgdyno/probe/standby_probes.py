"""Runs one probe per standby, over SQL, on this machine, whose host is sampled anyway."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe.lines import ProbeOutput, read_lines
from pgdyno.probe.local_probe import LocalProbe
from pgdyno.records import StandbyProbeRecord
from pgdyno.run.process import Event

WAITS_KEPT = 5
_WAITS = b'{"event":"waits"'
_CLIENT = "client backend"


class StandbyProbes:
    """Probes that run during the block. A probe's failure does not end the trial."""

    def __init__(
        self,
        spec: ProbeSpec,
        names: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        lines: Path,
        logs: Path,
    ) -> None:
        """Takes names of standbys with their variables; writes to `lines` with a suffix."""
        # statement costs are sampled on the primary; a standby without load has none
        own = spec.model_copy(update={"waits_hz": spec.hz(local=True), "statements": 0})
        self._probes: list[tuple[str, Path, LocalProbe]] = []
        for number, (name, environment) in enumerate(zip(names, environments, strict=True), start=1):
            if spec.standbys:
                file = lines.with_name(f"{lines.name}.replica-{number}")
                log = logs / f"replica-{number}-probe.log"
                self._probes.append((name, file, LocalProbe(own, environment, None, file, log)))
        self._all = ExitStack()

    def __enter__(self) -> StandbyProbes:
        for _, _, probe in self._probes:
            self._all.enter_context(probe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all.close()

    def added(self, said: ProbeOutput, events: Sequence[Event]) -> ProbeOutput:
        """Adds to `said`, of the primary during the engine's `events`, what these probes wrote."""
        for name, lines, probe in self._probes:
            own = read_lines(lines, events, probe.problem)
            if own is not None:
                said = _with(said, name, lines, own)
        return said


def _with(said: ProbeOutput, name: str, lines: Path, own: ProbeOutput) -> ProbeOutput:
    active, waits = _activity(lines)
    record = StandbyProbeRecord(
        name=name,
        cpu_us=own.record.cpu_us,
        gaps=own.record.gaps,
        warnings=own.record.warnings,
        message=own.record.message,
        active=active,
        waits=waits,
    )
    standbys = [*said.record.standbys, record]
    # separate kinds: a gap here is not a gap in the primary's figures
    events = [{**each, "event": f"standby_{each['event']}", "standby": name} for each in own.events]
    return ProbeOutput(
        said.record.model_copy(update={"standbys": standbys}),
        [*said.files, *(replace(file, standby=name) for file in own.files)],
        [*said.events, *events],
    )


def _activity(lines: Path) -> tuple[float | None, dict[str, float]]:
    """Returns mean numbers of active client sessions, and of all sessions by their most frequent waits."""
    sums: Counter[str] = Counter()
    clients = looks = 0
    with lines.open("rb") as file:
        for line in file:
            if not line.startswith(_WAITS):
                continue
            try:
                rows = json.loads(line)["rows"]
            except ValueError:
                # truncated when the probe was killed
                continue
            looks += 1
            for row in rows:
                sums[_name(row)] += row["sessions"]
                clients += row["sessions"] if _is_client(row) else 0
    if not looks:
        return None, {}
    return clients / looks, {name: round(count / looks, 3) for name, count in sums.most_common(WAITS_KEPT)}


def _is_client(row: Event) -> bool:
    return row["backend_type"] in (None, _CLIENT)


def _name(row: Event) -> str:
    wait = ":".join(part for part in (row["wait_type"], row["wait"]) if part)
    return wait if _is_client(row) else f"{row['backend_type']}: {wait}"
