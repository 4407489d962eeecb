"""What every go at a run needs before its first trial: engine, programs, and that they suit the plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgdyno.experiment.disk import DiskGuard
from pgdyno.experiment.generators import brought_up, check_copies
from pgdyno.experiment.renting import Renting, connected, rented
from pgdyno.plan import BUILTIN_SCRIPTS, LoadedPlan
from pgdyno.plan.reset_checks import check_found
from pgdyno.plan.targets import TargetSpec
from pgdyno.report.live import LiveView
from pgdyno.report.run_events import BytesDone, Noted, RowsDone, SetUp
from pgdyno.run import Engine, check_scripts, find_engine, script_options, workload_options
from pgdyno.targets import Found, Home, Use, abilities_of, fetch_target, sweep_leftovers
from pgdyno.targets.rental import Rental

if TYPE_CHECKING:
    from pgdyno.cluster.cluster import Cluster


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
        self._view.event(SetUp(text))
        self._guard.check()

    def bytes(self, done: int, total: int | None) -> None:
        """Shows how far it is."""
        self._view.event(BytesDone(done, total))
        self._guard.check()

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Shows how far a load is."""
        self._view.event(RowsDone(done, total, per_s, left_s))
        self._guard.check()


@dataclass(frozen=True, slots=True)
class Ground:
    """What was found on this machine."""

    engine: Engine
    home: Home
    targets: dict[str, TargetSpec]
    """How each is opened, by its name: a rented one by the address that it has now."""
    found: dict[str, Found]
    """Programs of each target, or its server that was reached, by its name."""
    guard: DiskGuard
    progress: Preparing
    use: Use
    """What to do where another pgdyno measures."""
    cluster: Cluster | None = None
    """The generators, where the plan names some; None: the engine here."""
    rental: Rental | None = None
    """The servers that were rented for the run; None: it has no such targets."""


def scripts_of(loaded: LoadedPlan) -> list[str]:
    """The engine's options for the plan's scripts."""
    return workload_options(loaded.plan.workload, BUILTIN_SCRIPTS)


@contextmanager
def prepared_ground(
    loaded: LoadedPlan, view: LiveView, use: Use | None = None, renting: Renting | None = None
) -> Iterator[Ground]:
    """Finds or fetches all programs, rents and reaches all servers, cleans up behind runs that were killed.

    Behind the block rented servers are gone. `use` is what to do where another pgdyno measures; without it that is
    refused. Raises PgdynoError.
    """
    use = use or Use(loaded.plan.name)
    engine = find_engine()
    # before anything is rented or started
    check_scripts(engine, scripts_of(loaded), loaded.source, loaded.folder, execute=True)
    if loaded.plan.replica_load is not None:
        beside = script_options(loaded.plan.replica_load.scripts, BUILTIN_SCRIPTS)
        check_scripts(engine, beside, loaded.source, loaded.folder, "replica_load.scripts")
    check_copies(loaded)
    home = Home.locate()
    for left in sweep_leftovers(home):
        view.event(Noted(left))
    guard = DiskGuard(loaded.plan.trial.min_free_disk)
    guard.watch("pgdyno's home", home.root)
    progress = Preparing(view, guard)
    with rented(
        loaded.plan, home.root, progress.step, lambda text: view.event(Noted(text)), renting or Renting()
    ) as rental:
        targets = {name: connected(rental, name, spec) for name, spec in loaded.plan.target.items()}
        found = {
            name: fetch_target(name, spec, home=home, progress=progress, use=use) for name, spec in targets.items()
        }
        majors = {name: each.major for name, each in found.items()}
        check_found(loaded.plan, majors, abilities_of(found), loaded.source, loaded.document)
        if rental is not None:
            engine = replace(engine, through=rental.through())
        with brought_up(loaded.plan, engine, rental, progress.step) as cluster:
            yield Ground(engine, home, targets, found, guard, progress, use, cluster, rental)
