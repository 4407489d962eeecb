"""The interface of a cloud provider: prices, servers for a run, their metrics, and the removal of all rented resources.

A provider is a package with an object `PROVIDER` in a module that `pgdyno.registry.PROVIDERS` names. Only that package
itself imports it. Its targets are `pgdyno.plan.targets.RentedTarget`s.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan.model import Plan, rented_targets
from pgdyno.records import CloudRecord, TrialRecord
from pgdyno.registry import PROVIDERS, load_module
from pgdyno.targets.rented.estimate import Estimate
from pgdyno.targets.rented.rental import Leftover, Rental, Resource, Say, digest_of, wanted_names
from pgdyno.targets.rented.rental_journal import Journal, journals

# ---- leftover resources ----


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filter for a search for resources."""

    run: str | None = None
    """Only resources of this run."""
    expired: bool = False
    """Only resources of runs that have expired."""

    def means(self, run: str, expires: datetime | None) -> bool:
        # no run can still need a resource without a readable expiry
        return self.run in (None, run) and (not self.expired or expires is None or expires <= datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Reaped:
    found: Sequence[Resource]
    left: Sequence[Leftover]
    """The resources that could not be removed."""


class Reaper(ABC):
    """Finds what runs left behind, by journals and by tags, and removes it. Methods raise TargetError."""

    places: Sequence[str]
    """The regions or hosts that it searches."""

    def strangers(self) -> Sequence[Journal]:
        """Return journals of other accounts, whose resources these credentials cannot see."""
        return []

    @abstractmethod
    def find(self, wanted: Wanted) -> Sequence[Resource]:
        """Return matching resources in the order of removal."""

    def of_others(self, found: Sequence[Resource]) -> Sequence[Resource]:
        """Return those of `found` that another identity created."""
        del found
        return []

    @abstractmethod
    def reap(self, wanted: Wanted, say: Say) -> Reaped:
        """Remove matching resources."""


# ---- the provider ----


@dataclass(frozen=True, slots=True)
class Tried:
    """What `pgdyno target selftest` rents."""

    kind: str
    keys: Mapping[str, object]
    """Keys of the target, and of the generator with the prefix `generator.`."""
    duration: str = "1m"
    """The duration of the trial."""


@dataclass(frozen=True, slots=True)
class SelftestTrial:
    """A trial that ran on the servers of a selftest."""

    record: TrialRecord
    folder: Path
    told: CloudRecord | None


class DeadManRole(Protocol):
    """A role of the account with which the provider removes expired databases, even if pgdyno is gone."""

    @property
    def name(self) -> str:
        """The name of the role in the account."""

    @property
    def documents(self) -> dict[str, Any]:
        """The policies that `create` attaches, by their names."""

    def create(self) -> str:
        """Create it, or correct the existing one; return what it did. Raises TargetError."""


class Provider(ABC):
    """A cloud provider. Methods raise TargetError; defaults are those of hosts that cost nothing."""

    title: ClassVar[str]
    """The name in messages: `Amazon`."""
    folder: ClassVar[str]
    """The folder of its journals in pgdyno's home."""

    def journals(self, root: Path) -> Iterator[Journal]:
        """Yield the journals of a home, the newest first."""
        return journals(root / self.folder)

    @abstractmethod
    def price(self, plan: Plan, root: Path, hours: float | None = None) -> Estimate:
        """Estimate the cost of `plan` for `hours`; None means the duration of its trials. `root` is pgdyno's home."""

    def slower_s(self, plan: Plan) -> float:
        """Return the seconds that loading and copying the data of `plan` take beyond what a local disk needs."""
        del plan
        return 0.0

    @abstractmethod
    def preflight(self, plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
        """Check the credentials; return a new rental that expires in `lasts_s`, of which nothing exists yet."""

    @abstractmethod
    def rental(self, plan: Plan, journal: Journal, root: Path, say: Say) -> Rental:
        """Return what `journal` records of a plan with that name."""

    def standing_rental(self, plan: Plan, root: Path, say: Say) -> Rental | None:
        """Return what `pgdyno target up` created for exactly this plan and left running, or None.

        Raises TargetError if the servers belong to another version of the plan: a second set would be paid for as well.
        """
        for journal in self.journals(root):
            if journal.plan != plan.name or not journal.ready:
                continue
            hint = f"remove them: pgdyno reap --run {journal.run}"
            if journal.digest != digest_of(plan):
                message = (
                    f"servers of a plan {plan.name} are up (run {journal.run}), but its targets have changed since"
                )
                raise TargetError(message, hint=hint)
            if journal.ready.keys() != wanted_names(plan):
                continue
            rental = self.rental(plan, journal, root, say)
            is_up = rental.is_up()
            if not journal.hold():
                raise TargetError(f"another pgdyno uses the servers of the plan {plan.name} (run {journal.run})")
            if is_up:
                return rental
            if rental.existing_resources():
                message = f"servers of run {journal.run} no longer exist, and other resources of it do"
                raise TargetError(message, hint=hint)
            # they have expired, or another machine has reaped them
            journal.close()
        return None

    def is_standing(self, plan: Plan, root: Path) -> bool:
        """Return whether `standing` returns a rental."""
        found = self.standing_rental(plan, root, lambda _: None)
        if found is not None:
            found.journal.release()
        return found is not None

    def left_of(self, plan: Plan, root: Path, say: Say) -> list[Rental]:
        """Return all rentals of plans of that name that journals record, complete or not, also with other targets."""
        return [self.rental(plan, each, root, say) for each in self.journals(root) if each.plan == plan.name]

    @abstractmethod
    def reaper(self, root: Path, regions: Sequence[str], *, all_regions: bool = False) -> Reaper:
        """Return a reaper that also searches `regions`, or all that are enabled for the account."""

    def has_run(self, root: Path, text: str) -> bool:
        """Return whether a journal here records a run whose name begins with `text`."""
        return any(each.run.startswith(text) for each in self.journals(root))

    def run_named(self, root: Path, text: str) -> str:
        """Return the one run in the journals whose name begins with `text`, or `text`."""
        found = [each.run for each in self.journals(root) if each.run.startswith(text)]
        if len(found) > 1 and text not in found:
            message = f"{len(found)} runs at {self.title} begin with {text}"
            raise TargetError(message, hint=f"name one: {', '.join(found)}")
        # a run of another machine has no journal here, but what it rented may have tags with its full name
        return text if len(found) != 1 else found[0]

    def hourly_costs(self, there: Sequence[Resource], root: Path) -> Message | None:
        """Says what existing resources cost per hour; None if they cost nothing."""
        del there, root
        return None

    def policy(self) -> dict[str, Any]:
        """Return the minimum permissions for an identity."""
        return {}

    def dead_man_role(self) -> DeadManRole | None:
        """Return the role with which the provider removes expired databases; None if it needs none."""
        return None

    def own_zone(self) -> str | None:
        """Return the zone of this machine; None if it is not at this provider."""
        return None

    def selftest(
        self,
        tried: Tried,
        root: Path,
        agree: Callable[[Plan, float], Estimate],
        trial: Callable[[Plan], SelftestTrial],
        say: Say,
    ) -> bool:
        """Rents, tests and removes; prints a line for each check. Returns whether all checks passed.

        `agree` shows the estimated cost for some hours and asks for consent; `trial` runs the plan on what was rented.
        """
        del tried, root, agree, trial, say
        raise TargetError(f"{self.title} has no selftest", hint="run a plan with a short trial there")


@cache
def provider(name: str) -> Provider | None:
    """Return the provider `name`; None if its package is not installed."""
    module = load_module(PROVIDERS[name])
    if module is None:
        return None
    found: Provider = module.PROVIDER
    return found


def providers() -> list[Provider]:
    return [each for name in PROVIDERS if (each := provider(name)) is not None]


def needed_providers() -> list[Provider]:
    """Return all installed providers. Raises TargetError if there are none."""
    found = providers()
    if not found:
        raise TargetError("pgdyno cannot rent servers: no package of a cloud provider is installed")
    return found


def provider_of(plan: Plan) -> Provider | None:
    """Return the provider of the rented targets of `plan`; None without any. Raises TargetError for several."""
    names = {spec.provider for spec in rented_targets(plan).values()}
    if len(names) > 1:
        raise TargetError(f"the plan rents from several providers: {', '.join(sorted(names))}", hint="name one for all")
    return provider(names.pop()) if names else None


def own_zone() -> str | None:
    """Return the zone of this machine at its provider; None if it is at none."""
    return next((zone for each in providers() if (zone := each.own_zone()) is not None), None)
