"""What pgdyno asks of a cloud provider: prices, servers for a run, their figures, and the removal of all of it.

A provider is a package with an object `PROVIDER` in a module that `pgdyno.registry.PROVIDERS` names. Nothing outside
of that package imports it. Targets that it rents are `pgdyno.plan.targets.RentedTarget`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pgdyno.errors import TargetError
from pgdyno.plan.model import Plan
from pgdyno.plan.targets import rented_targets
from pgdyno.records import CloudRecord, TrialRecord
from pgdyno.registry import PROVIDERS, loaded
from pgdyno.targets.estimate import Estimate
from pgdyno.targets.rental import Journal, Left, Rental, Resource, Say

# ---- what is left behind ----


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose things are looked for."""

    run: str | None = None
    """Of this run alone."""
    expired: bool = False
    """Only of runs whose time is over."""

    def means(self, resource: Resource, now: datetime) -> bool:
        """Whether `resource` is looked for."""
        if self.run is not None and resource.run != self.run:
            return False
        # without a readable expiry nobody waits for it any more
        return not self.expired or resource.expires is None or resource.expires <= now


class Reaped(Protocol):
    """What a removal came to."""

    @property
    def found(self) -> Sequence[Resource]:
        """What was there."""

    @property
    def left(self) -> Sequence[Left]:
        """What could not be removed."""


class Reaper(Protocol):
    """Finds what runs left behind, by journals and by tags, and removes it. Methods raise TargetError."""

    @property
    def places(self) -> Sequence[str]:
        """Regions in which it looks."""

    def strangers(self) -> Sequence[Journal]:
        """Journals of other accounts, of which these credentials see nothing."""

    def find(self, wanted: Wanted) -> Sequence[Resource]:
        """What is there, in the order of removal."""

    def reap(self, wanted: Wanted, say: Say) -> Reaped:
        """Removes it."""


# ---- the provider ----


@dataclass(frozen=True, slots=True)
class Tried:
    """What `pgdyno target selftest` rents."""

    kind: str
    version: str
    instance: str | None
    region: str | None
    tls_root: str | None
    generator: str | None = None
    """Its instance type; None: a small one of this machine's architecture."""
    snapshot: str | None = None
    duration: str = "1m"
    """Of the trial."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the target, and of the generator behind `generator.`."""


@dataclass(frozen=True, slots=True)
class SelftestTrial:
    """A trial that was run on the servers of a selftest."""

    record: TrialRecord
    folder: Path
    told: CloudRecord | None


class Provider(Protocol):
    """A cloud provider. Methods raise TargetError."""

    @property
    def title(self) -> str:
        """`Amazon`."""

    def price(self, plan: Plan, root: Path, hours: float | None = None) -> Estimate:
        """What the servers of `plan` cost for `hours`; None: as long as its trials take. `root` is pgdyno's home."""

    def preflight(self, plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
        """A new rental that expires in `lasts_s`, of which nothing is made yet: credentials are looked at."""

    def standing(self, plan: Plan, root: Path, say: Say) -> Rental | None:
        """What `pgdyno target up` left up for this very plan; None when there is nothing."""

    def is_standing(self, plan: Plan, root: Path) -> bool:
        """Whether `standing` would give something, or say why not."""

    def left_of(self, plan: Plan, root: Path, say: Say) -> Sequence[Rental]:
        """All that journals know of plans of that name, whole or not."""

    def reaper(self, root: Path, regions: Sequence[str]) -> Reaper:
        """Looks in `regions`, too."""

    def run_named(self, root: Path, text: str) -> str:
        """The run whose name is `text`, or begins with it."""

    def hourly_lines(self, there: Sequence[Any], root: Path) -> list[str]:
        """What things that are there cost an hour; nothing where that is nothing."""

    def policy(self) -> dict[str, Any]:
        """The least that an identity must be allowed."""

    def own_zone(self) -> str | None:
        """The zone of this machine; None where it is none of this provider's."""

    def selftest(
        self,
        tried: Tried,
        root: Path,
        agree: Callable[[Plan, float], Estimate],
        trial: Callable[[Plan], SelftestTrial],
        say: Say,
    ) -> bool:
        """Rents, tries, removes; prints a line for each check. Whether all was as it should be.

        `agree` shows what a plan costs for some hours and asks for consent, `trial` runs the plan on what is up.
        """


@cache
def provider(name: str) -> Provider | None:
    """The provider `name`; None where its package is not there."""
    module = loaded(PROVIDERS[name])
    if module is None:
        return None
    found: Provider = module.PROVIDER
    return found


def providers() -> list[Provider]:
    """All that are there."""
    return [each for name in PROVIDERS if (each := provider(name)) is not None]


def needed_providers() -> list[Provider]:
    """The same. Raises TargetError without any."""
    found = providers()
    if not found:
        raise TargetError("this pgdyno rents no servers: the package of a cloud provider is missing")
    return found


def provider_of(plan: Plan) -> Provider | None:
    """Whom the rented targets of `plan` are rented from; None where it has none. Raises TargetError for several."""
    names = {spec.provider for spec in rented_targets(plan).values()}
    if len(names) > 1:
        raise TargetError(f"the plan rents from several providers: {', '.join(sorted(names))}", hint="name one for all")
    return provider(names.pop()) if names else None


def own_zone() -> str | None:
    """The zone of this machine at a provider; None where it is at none."""
    return next((zone for each in providers() if (zone := each.own_zone()) is not None), None)
