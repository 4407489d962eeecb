"""The resources of a run, which pgdyno obtains before the first trial: engine, programs, rented servers, generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgdyno.experiment.generators import check_generators, open_cluster
from pgdyno.experiment.limits.budget_left import BudgetLeft
from pgdyno.experiment.limits.disk_guard import DiskGuard
from pgdyno.experiment.rented_servers import Renting, rent_servers, with_rented_address
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.plan.checks.reset import check_found
from pgdyno.plan.model import servers_of
from pgdyno.plan.targets import TargetSpec
from pgdyno.programs import Engine, find_engine
from pgdyno.report.run_events import BytesDone, Noted, RowsDone, SetUp
from pgdyno.report.terminal.progress import LiveView
from pgdyno.run.engine import check_scripts
from pgdyno.targets import Found, Home, Use, abilities_of, fetch_target, sweep_leftovers
from pgdyno.targets.rented.rental import Rental

if TYPE_CHECKING:
    from pgdyno.generators.generator_lifecycle import Cluster


class SetupProgress:
    """Shows the progress of preparing targets and datasets, and checks the disks, which these fill, and the budget.

    It is a `targets.Progress`, whose methods raise StopRunError here.
    """

    def __init__(self, view: LiveView, guard: DiskGuard, left: BudgetLeft | None) -> None:
        self._view = view
        self._guard = guard
        self._left = left

    def note(self, message: Message) -> None:
        """Show a note; there is no manifest yet."""
        self._view.event(Noted(str(message), message))

    def set_up(self, text: str) -> None:
        """Show a step that fills no disk."""
        self._view.event(SetUp(text))

    def step(self, text: str) -> None:
        self._view.event(SetUp(text))
        self._check()

    def bytes(self, done: int, total: int | None) -> None:
        self._view.event(BytesDone(done, total))
        self._check()

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        self._view.event(RowsDone(done, total, per_s, left_s))
        self._guard.check()
        if self._left is not None:
            self._left.check_load(total, per_s, left_s)

    def _check(self) -> None:
        self._guard.check()
        if self._left is not None:
            self._left.check()


@dataclass(frozen=True, slots=True)
class Resources:
    engine: Engine
    home: Home
    servers: Mapping[str, TargetSpec]
    """How to open each server at the start of the run: a rented one by its first address."""
    found: Mapping[str, Found]
    """The programs of each server, or the server that was reached."""
    guard: DiskGuard
    left: BudgetLeft | None
    """What is left of the budget; None without one."""
    progress: SetupProgress
    use: Use
    """What to do if another pgdyno measures on this host."""
    cluster: Cluster | None = None
    """The generators, if the plan names several; None for one engine."""
    rental: Rental | None = None
    """The servers that were rented for the run; None if the plan rents none."""
    renting: Renting = field(default_factory=Renting)


@contextmanager
def open_resources(
    loaded: LoadedPlan, view: LiveView, use: Use | None = None, renting: Renting | None = None
) -> Iterator[Resources]:
    """Find or fetch all programs, rent and reach all servers, and remove what killed runs left.

    Rented servers are removed after the block. Without `use`, a run while another pgdyno measures is refused. Raises
    PgdynoError.
    """
    use = use or Use(loaded.plan.name)
    engine = find_engine()
    # this comes first: a script with an error must not cost rented servers
    check_scripts(engine, loaded, execute=True)
    check_generators(loaded)
    home = Home.locate()
    guard = DiskGuard(loaded.plan.trial.min_free_disk)
    left = None if loaded.budget is None else BudgetLeft(loaded.plan, loaded.budget)
    progress = SetupProgress(view, guard, left)
    for removed in sweep_leftovers(home):
        progress.note(removed)
    guard.watch("pgdyno's home", home.root)
    servers = servers_of(loaded.plan)
    with rent_servers(loaded.plan, home.root, progress.step, progress.note, renting or Renting()) as rental:
        reached = {name: with_rented_address(rental, name, spec) for name, spec in servers.items()}
        found = {
            name: fetch_target(name, spec, home=home, progress=progress, use=use) for name, spec in reached.items()
        }
        majors = {name: each.major for name, each in found.items()}
        check_found(loaded.plan, majors, abilities_of(found), loaded.source, loaded.document, loaded.folder)
        if rental is not None:
            engine = engine._replace(through=rental.through())
        with open_cluster(loaded.plan, engine, rental, progress.step) as cluster:
            how = renting or Renting()
            yield Resources(engine, home, reached, found, guard, left, progress, use, cluster, rental, how)
