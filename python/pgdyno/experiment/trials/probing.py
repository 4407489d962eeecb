"""The probes of a trial: one on this host, one for each standby, and one on the database's host over SSH."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.hosts import SshSpec
from pgdyno.probe import LocalProbe, ProbeOutput, StandbyProbes, read_lines
from pgdyno.probe.clock_offset import Ahead
from pgdyno.probe.placed_lines import with_far
from pgdyno.probe.pooler_samples import PoolerSamples
from pgdyno.programs import Engine
from pgdyno.records import OverSshRecord
from pgdyno.run.process import Event
from pgdyno.store import TrialWriter
from pgdyno.targets import Server

if TYPE_CHECKING:
    from pgdyno.probe.over_ssh import OverSsh


class Probing:
    """Runs the probes while its block runs. A probe that fails does not end the trial."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        server: Server,
        host: SshSpec | None,
        settings: Sequence[tuple[str, str, str | None, str]],
        writer: TrialWriter,
    ) -> None:
        """Probe `server`, whose pg_settings are `settings`, and its `host`; write to the paths of `writer`."""
        self._lines = writer.probe_lines
        spec = plan.probe
        data = server.machine.data_directory if server.machine else None
        log = writer.log / "probe.log"
        self._near = LocalProbe(spec, server.environment(), data, self._lines, log, engine.through)
        names = server.replica_names() if spec.enabled and spec.server else []
        self._standbys = StandbyProbes(
            spec, names, server.replica_environments() if names else [], self._lines, writer.log
        )
        self._pooler: PoolerSamples | None = None
        if spec.enabled and spec.server and (path := server.path) is not None:
            file = self._lines.with_name(f"{self._lines.name}.pooler")
            self._pooler = PoolerSamples(path.name, path.pool, path.open_console, file)
        self._far: OverSsh | None = None
        if host is not None and spec.enabled and spec.host:
            # asyncssh takes a while to load
            from pgdyno.probe.over_ssh import OverSsh

            places = _server_options(host.data, {name: value for name, value, _, _ in settings})
            options = ["--no-server", *places, *map(shlex.quote, spec.log_options())]
            self._far = OverSsh(host, options, self._lines, writer.log / "probe-ssh.log")
        self._running = ExitStack()

    def __enter__(self) -> Probing:
        if self._far is not None:
            self._running.enter_context(self._far)
        self._running.enter_context(self._near)
        self._running.enter_context(self._standbys)
        if self._pooler is not None:
            self._running.enter_context(self._pooler)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def read(
        self, trial: PlannedTrial, events: Sequence[Event], clock_ahead: Ahead, progress: RunProgress
    ) -> ProbeOutput | None:
        """Return what the probes wrote, in the time of the engine that wrote `events`; None if none ran.

        `clock_ahead` is that of the host with the engine. Notes what is missing or placed imprecisely in time. Raises
        StoreError.
        """
        near = read_lines(self._lines, events, self._near.problem)
        for each in near.events if near is not None else ():
            if each["event"] == "probe_warning" and each["source"] == "queries":
                # one error in every trial is one note
                progress.note_once(Message("probe-query", "probe.query {problem}", problem=each["message"]))
        if near is not None:
            near = self._standbys.add_output(near, events)
            if self._pooler is not None:
                record, files = self._pooler.read(events)
                near = replace(
                    near, record=near.record.model_copy(update={"pooler": record}), files=[*near.files, *files]
                )
                if record.message is not None:
                    progress.note_once(
                        Message("pooler-unknown", "the pooler's figures are unknown: {why}", why=record.message)
                    )
        if self._far is None:
            return near
        said = with_far(near, self._far, events, clock_ahead)
        if said.record.over_ssh is not None:
            for note in worth_knowing(said.record.over_ssh, trial.number):
                progress.note_once(note)
        return said


def worth_knowing(far: OverSshRecord, trial: int) -> list[Message]:
    """Return what readers of the figures of `trial` should know about the probe on the database's host."""
    notes = []
    if far.message is not None:
        notes.append(
            Message("host-incomplete", "figures of the database's host are incomplete: {why}", why=far.message)
        )
    if far.clock is not None and not far.clock.aligned:
        precision_ms = far.clock.uncertainty_us / 1e3
        notes.append(
            Message(
                "host-clock-imprecise",
                "trial {trial}: the clock of {host} is aligned with the load's only to within {precision_ms:.0f} ms",
                trial=trial,
                host=far.host,
                precision_ms=precision_ms,
            )
        )
    return notes


def _server_options(data: str | None, settings: dict[str, str]) -> list[str]:
    """Return the options that identify the server's disk and processes, quoted for a shell.

    The processes are found by cluster_name if it is set, because most users cannot read postmaster.pid.
    """
    directory = data or settings.get("data_directory")
    options = [] if not directory else [f"--data={directory}"]
    if settings.get("cluster_name"):
        options.append(f"--cluster-name={settings['cluster_name']}")
    return [shlex.quote(option) for option in options]
