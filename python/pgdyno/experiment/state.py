"""What the trials of a run share."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from pgdyno.analyse.series import Series, following, label, varying
from pgdyno.errors import PgdynoError
from pgdyno.experiment.ground import Ground
from pgdyno.experiment.workers import KnownWorkers
from pgdyno.plan import LoadedPlan, Plan, PlannedTrial
from pgdyno.prepare import Preparer
from pgdyno.probe.ahead_of import HERE, Ahead
from pgdyno.report.live import LiveView
from pgdyno.report.run_events import Noted, Requests
from pgdyno.store import RunFolder
from pgdyno.targets import Server


@dataclass(slots=True)
class RunState:
    """A run while it goes on."""

    loaded: LoadedPlan
    ground: Ground
    folder: RunFolder
    view: LiveView
    requests: Requests
    seed: int
    trials: list[PlannedTrial]
    """All that the plan comes to, also those that are whole already."""
    labels: dict[int, str] = field(default_factory=dict)
    """What each trial is called while it runs, by number."""
    later: int = 0
    """How many trials come behind the present one."""
    servers: dict[str, Server] = field(default_factory=dict)
    """Targets that are up. They stay up to the end: an idle server costs next to nothing, a load does."""
    preparers: dict[str, Preparer] = field(default_factory=dict)
    """What brings each of them back to the state in which a trial starts."""
    unavailable: dict[str, PgdynoError] = field(default_factory=dict)
    """Targets that could not be started, and are not tried again."""
    generator_ahead: Ahead = HERE
    """The clock of the host that the load comes from, before the present trial."""
    contexts: ExitStack = field(default_factory=ExitStack)
    done_again: dict[int, int] = field(default_factory=dict)
    """How often each trial, by number, was begun anew because a generator was lost."""
    opened: dict[str, ExitStack] = field(default_factory=dict)
    """What ends with each target that is up; `contexts` ends all of them."""
    workers: KnownWorkers = field(init=False)
    """Engine threads that earlier trials have found."""

    def __post_init__(self) -> None:
        """Names the trials, and reads what those that are whole have found. Raises StoreError."""
        self.labels = _labels(self.plan, self.trials)
        self.workers = KnownWorkers(self.folder.trials())

    def add(self, trial: PlannedTrial) -> None:
        """A trial that was not known in the beginning. Raises StoreError."""
        self.trials.append(trial)
        self.labels = _labels(self.plan, self.trials)
        self.folder.update_manifest(trials_planned=len(self.trials))

    @property
    def plan(self) -> Plan:
        """The plan that is carried out."""
        return self.loaded.plan

    def note(self, text: str) -> None:
        """Says something now, and keeps it with the run. Raises StoreError."""
        self.view.event(Noted(text))
        self.folder.update_manifest(notes=[*self.folder.manifest.notes, text])


def _labels(plan: Plan, trials: list[PlannedTrial]) -> dict[int, str]:
    workload = ", ".join(plan.workload.scripts)
    follow = following(plan.as_resolved(), (trial.point for trial in trials))
    series = {trial.number: Series.of(trial.target, trial.point, follow) for trial in trials}
    names = varying(list(series.values()))
    labels = {}
    for trial in trials:
        parts = [label(series[trial.number], names)] if names else []
        clients = trial.point.clients
        labels[trial.number] = " ".join([*parts, workload, f"{clients} client{'s' if clients != 1 else ''}"])
    return labels
