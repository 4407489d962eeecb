"""The probes beside a trial: one here, and one on the database's host where the plan says how to get there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.probe import Beside, Said, StandbyProbes, read_lines
from pgdyno.probe.far import with_far
from pgdyno.records import OverSshRecord
from pgdyno.run.stream import Event
from pgdyno.store import TrialWriter
from pgdyno.targets import Server

if TYPE_CHECKING:
    from pgdyno.probe.over_ssh import OverSsh


class Probing:
    """Runs while the block does. Whatever becomes of a probe, the trial goes on."""

    def __init__(
        self,
        state: RunState,
        trial: PlannedTrial,
        server: Server,
        settings: Sequence[tuple[str, str, str | None, str]],
        writer: TrialWriter,
    ) -> None:
        """Of `server`, whose pg_settings are `settings`; lines and logs go to the places of `writer`."""
        self._state, self._trial, self._lines = state, trial, writer.probe_lines
        spec, target = state.plan.probe, state.ground.targets[trial.target]
        data = server.machine.data_directory if server.machine else None
        through = state.ground.engine.through
        self._near = Beside(spec, server.environment(), data, self._lines, writer.log / "probe.log", through)
        names = server.replica_names() if spec.enabled and spec.server else []
        self._standbys = StandbyProbes(
            spec, names, server.replica_environments() if names else [], self._lines, writer.log
        )
        self._far: OverSsh | None = None
        if (host := target.probed_host) is not None and spec.enabled and spec.host:
            # SSH takes a while to load
            from pgdyno.probe.over_ssh import OverSsh

            places = _places(host.data, {name: value for name, value, _, _ in settings})
            options = ["--no-server", *places, *map(shlex.quote, spec.log_options())]
            self._far = OverSsh(host, options, self._lines, writer.log / "probe-ssh.log")
        self._both = ExitStack()

    def __enter__(self) -> Probing:
        """Starts them."""
        if self._far is not None:
            self._both.enter_context(self._far)
        self._both.enter_context(self._near)
        self._both.enter_context(self._standbys)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends them."""
        self._both.close()

    def said(self, events: Sequence[Event]) -> Said | None:
        """What they wrote beside an engine that said `events`; what is missing or badly placed is noted."""
        near = read_lines(self._lines, events, self._near.problem)
        if near is not None:
            near = self._standbys.added(near, events)
        if self._far is None:
            return near
        said = with_far(near, self._far, events, self._state.generator_ahead)
        if said.record.over_ssh is not None:
            self._note(said.record.over_ssh)
        return said

    def _note(self, far: OverSshRecord) -> None:
        for text in worth_knowing(far, self._trial.number):
            # the same in every trial is said once
            if text not in self._state.folder.manifest.notes:
                self._state.note(text)


def worth_knowing(far: OverSshRecord, trial: int) -> list[str]:
    """What whoever reads the figures of `trial` should know of the probe on the database's host."""
    texts = [] if far.message is None else [f"not all is known of the database's host: {far.message}"]
    if far.clock is not None and not far.clock.aligned:
        only = f"{far.clock.uncertainty_us / 1e3:.0f} ms only"
        texts.append(f"trial {trial}: seconds of {far.host} line up with the load's to {only}")
    return texts


def _places(data: str | None, settings: dict[str, str]) -> list[str]:
    """Options that tell which disk and which processes are the server's; for a shell.

    Its processes are found by the cluster's name where it has one: postmaster.pid is closed to most users.
    """
    directory = data or settings.get("data_directory")
    options = [] if not directory else [f"--data={directory}"]
    if settings.get("cluster_name"):
        options.append(f"--cluster-name={settings['cluster_name']}")
    return [shlex.quote(option) for option in options]
