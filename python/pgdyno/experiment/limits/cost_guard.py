"""Ends a run before it costs more than its limit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pgdyno.errors import StopRunError
from pgdyno.experiment.rented_servers import Renting
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.targets import RentedTarget
from pgdyno.plan.time_budget.time_and_disk import loading_s, overhead_s
from pgdyno.plan.workload import trial_s
from pgdyno.targets.rented.estimate import CURRENCY, RESERVE
from pgdyno.targets.rented.rental import Load, Rental

REMOVAL_S = 1800.0
"""An upper estimate of the time until servers are removed, for which they cost money, too."""
SNAPSHOT_S = 1800.0
"""An upper estimate of the time until a snapshot of a server is complete."""


@dataclass(slots=True)
class CostGuard:
    """Compares what a run has cost with its limit."""

    plan: Plan
    rental: Rental | None
    renting: Renting
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    _loaded: set[str] = field(default_factory=set)
    """Servers whose first trial has loaded the data."""
    _busy_since: datetime | None = None
    """The start of the first trial."""

    def check(self, trial: PlannedTrial) -> None:
        """Raise StopRunError if `trial` and the removal after it could exceed the limit."""
        most = self.renting.most
        if self.rental is None or most is None:
            return
        idle_s = REMOVAL_S + self._restore_s(trial)
        now = self.now()
        self._busy_since = self._busy_since or now
        accrued = self.rental.accrued_usd(now, Load(self._busy_since, RESERVE * self._needed_s(trial), idle_s))
        if accrued is None:
            raise StopRunError(
                Message(
                    "price-unknown", "a price is unknown, so pgdyno cannot tell when the run costs more than agreed"
                )
            )
        so_far, then = (self.renting.spent + each for each in accrued)
        if then > most:
            raise StopRunError(
                Message(
                    "cost-limit",
                    "the run has cost {spent:.2f} {currency}, and with its next trial and the removal it could cost "
                    "{could:.2f}, more than {most:.2f}; resume it with a higher --max-cost",
                    spent=so_far,
                    currency=CURRENCY,
                    could=then,
                    most=most,
                )
            )

    def _restore_s(self, trial: PlannedTrial) -> float:
        spec = self.plan.target[trial.target]
        if not isinstance(spec, RentedTarget):
            return 0.0
        takes_one = spec.takes_snapshot and trial.server not in self._loaded
        return spec.restore_s + (SNAPSHOT_S if takes_one else 0.0)

    def _needed_s(self, trial: PlannedTrial) -> float:
        # The first trial of a server loads; later ones of another scale count as overhead.
        load_s = 0.0 if trial.server in self._loaded else loading_s(self.plan, self.plan.points())
        self._loaded.add(trial.server)
        return load_s + overhead_s(self.plan, trial.point) + (trial_s(self.plan) or 0.0)
