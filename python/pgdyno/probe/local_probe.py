"""Runs pgprobe on this machine during a trial, one per server. Its failure does not end the trial."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pgdyno.errors import EngineError
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe.lines import ProbeOutput, read_lines
from pgdyno.programs import end_process, locate
from pgdyno.records import StandbyProbeRecord
from pgdyno.run.process import Event, without_libpq
from pgdyno.units import parse_duration_s

PROGRAM = "pgprobe"
ENVIRONMENT = "PGDYNO_PGPROBE"
STOP_S = 3.0
"""How long a probe may take to stop before it is killed."""
READY_S, LOOK_S = 15.0, 0.05
"""How long a trial waits for a remote probe to begin, and the polling interval."""


class LocalProbe:
    """A probe that runs during the block, and writes into a file: pgdyno does no work for it during the trial."""

    def __init__(
        self,
        spec: ProbeSpec,
        environment: Mapping[str, str],
        data_directory: Path | None,
        lines: Path,
        log: Path,
        through: Sequence[str] = (),
    ) -> None:
        """Write to `lines`, and errors to `log`; `through` precedes the command if it runs remotely.

        `environment` are libpq's variables of the server; a server over the network has no `data_directory`.
        """
        self.options = _options(spec, data_directory)
        """pgprobe's options; None if nothing is sampled."""
        self._environment = environment
        self._lines, self._log, self._through = lines, log, through
        self._process: subprocess.Popen[bytes] | None = None
        self._broke_off = False
        self.problem: str | None = None
        """Why samples are missing; None if they are complete, or if none are wanted."""

    def __enter__(self) -> LocalProbe:
        """Start it; wait for a remote one to sample or end. Raises nothing: see `problem`."""
        if self.options is None:
            return self
        try:
            program = locate(PROGRAM, ENVIRONMENT, "the probe")
            with ExitStack() as files:
                self._process = subprocess.Popen(
                    [*self._through, program, *self.options],
                    stdin=subprocess.PIPE,
                    stdout=files.enter_context(self._lines.open("wb")),
                    stderr=files.enter_context(self._log.open("wb")),
                    env=without_libpq(os.environ) | dict(self._environment),
                    # Ctrl-C is for pgdyno alone
                    start_new_session=True,
                )
        except EngineError as error:
            self.problem = error.message
        except OSError as error:
            self.problem = f"cannot start the probe: {error}"
        if self._through:
            self._wait()
        return self

    def _wait(self) -> None:
        """Wait for a remote probe, which must connect and may have to be copied first."""
        process, end = self._process, time.monotonic() + READY_S
        while process is not None and process.poll() is None and time.monotonic() < end:
            if self._lines.stat().st_size > 0:
                return
            time.sleep(LOOK_S)

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is None:
            return
        self._broke_off = process.poll() is not None
        if not self._broke_off:
            end_process(process, STOP_S)
        assert process.stdin is not None
        process.stdin.close()
        if self._broke_off or process.returncode != 0:
            when = "before the trial's end" if self._broke_off else "when it was told to end"
            self.problem = f"the probe ended {when}, with exit code {process.returncode}{self._stderr_text()}"

    def _stderr_text(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""


def _options(spec: ProbeSpec, data_directory: Path | None) -> list[str] | None:
    local = data_directory is not None
    host, server = spec.host and local, spec.server
    if not spec.enabled or not (host or server):
        return None
    options = ["--parent-lease", f"--waits-hz={spec.hz(local=local)}"]
    options += [f"--data={data_directory}", *spec.log_options()] if host else ["--no-host"]
    if not server:
        return [*options, "--no-server"]
    own = [f"--query={each.name}:{parse_duration_s(each.every):g}:{each.sql}" for each in spec.query]
    return [*options, f"--statements={spec.statements}", *own]


WAITS_KEPT = 5
_WAITS = b'{"event":"waits"'
_CLIENT = "client backend"


class StandbyProbes:
    """Probes that run during the block. A probe's failure does not end the trial."""

    def __init__(
        self, spec: ProbeSpec, names: Sequence[str], environments: Sequence[Mapping[str, str]], lines: Path, logs: Path
    ) -> None:
        """Take names of standbys with their variables; write to `lines` with a suffix."""
        # statement costs are sampled on the primary; a standby without load has none
        own = spec.model_copy(update={"waits_hz": spec.hz(local=True), "statements": 0, "query": []})
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

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def add_output(self, said: ProbeOutput, events: Sequence[Event]) -> ProbeOutput:
        """Add to `said`, of the primary during the engine's `events`, what these probes wrote."""
        for name, lines, probe in self._probes:
            own = read_lines(lines, events, probe.problem)
            if own is not None:
                said = _add_standby(said, name, lines, own)
        return said


def _add_standby(said: ProbeOutput, name: str, lines: Path, own: ProbeOutput) -> ProbeOutput:
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
    """Return mean numbers of active client sessions, and of all sessions by their most frequent waits."""
    sums: Counter[str] = Counter()
    clients = looks = 0
    if not lines.exists():
        # the probe could not be started
        return None, {}
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
