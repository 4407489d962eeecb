"""What every go at a run needs before its first trial: engine, programs, and that they suit the plan."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.experiment.disk import DiskGuard
from pgdyno.plan import BUILTIN_SCRIPTS, LoadedPlan
from pgdyno.plan.reset_checks import check_found_versions
from pgdyno.report.live import LiveView
from pgdyno.run import Engine, check_scripts, find_engine, script_options
from pgdyno.target import Home, Installation, fetch_target, sweep_leftovers


class Preparing:
    """What targets and datasets say while they are made ready, for the live view.

    As that is where disks fill up, it is also where they are looked at.
    """

    def __init__(self, view: LiveView, guard: DiskGuard) -> None:
        """Shows on `view`."""
        self._view = view
        self._guard = guard

    def step(self, text: str) -> None:
        """Shows a step."""
        self._view.set_up(text)
        self._guard.check()

    def bytes(self, done: int, total: int | None) -> None:
        """Shows how far it is."""
        self._view.bytes(done, total)
        self._guard.check()

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Shows how far a load is."""
        self._view.rows(done, total, per_s, left_s)
        self._guard.check()


@dataclass(frozen=True, slots=True)
class Ground:
    """What was found on this machine."""

    engine: Engine
    home: Home
    installations: dict[str, Installation]
    """Programs of each target, by its name."""
    guard: DiskGuard
    progress: Preparing


def scripts_of(loaded: LoadedPlan) -> list[str]:
    """The engine's options for the plan's scripts."""
    return script_options(loaded.plan.workload.scripts, BUILTIN_SCRIPTS)


def prepare_ground(loaded: LoadedPlan, view: LiveView) -> Ground:
    """Finds or fetches all programs, and cleans up behind runs that were killed. Raises PgdynoError."""
    engine = find_engine()
    check_scripts(engine, scripts_of(loaded), loaded.source, loaded.folder)
    home = Home.locate()
    for left in sweep_leftovers(home):
        view.note(left)
    guard = DiskGuard(loaded.plan.trial.min_free_disk)
    guard.watch("pgdyno's home", home.root)
    progress = Preparing(view, guard)
    installations = {
        name: fetch_target(name, spec, home=home, progress=progress) for name, spec in loaded.plan.target.items()
    }
    majors = {name: each.major for name, each in installations.items()}
    check_found_versions(loaded.plan, majors, loaded.source, loaded.document)
    return Ground(engine, home, installations, guard, progress)
