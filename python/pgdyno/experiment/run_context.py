"""The parts of a run that never change while it is active."""

from dataclasses import dataclass

from pgdyno.plan import LoadedPlan, Plan, PlannedTrial
from pgdyno.programs import Engine
from pgdyno.store import RunFolder
from pgdyno.targets import Home


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a run executes, with which programs, and where it stores its results."""

    loaded: LoadedPlan
    folder: RunFolder
    """The folder stays the same; its manifest grows, and only the folder itself writes it."""
    engine: Engine
    home: Home
    seed: int

    @property
    def plan(self) -> Plan:
        return self.loaded.plan

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; valid as soon as the manifest lists it."""
        return len(self.folder.manifest.attempts)

    def seed_of(self, trial: PlannedTrial) -> int:
        """The engine's seed in `trial`.

        Queries that run once are the same in every trial: other parameters could give them other plans and other times.
        So are statements whose instructions are counted.
        """
        is_same = self.plan.workload.runs_once or self.plan.trial.measure == "instructions"
        return self.seed if is_same else self.seed + trial.number
