"""The interface of what a cloud provider has rented for one plan: servers, generators, their metrics, their removal."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.hosts import SshSpec
from pgdyno.records import CloudSource
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.estimate import Estimate
from pgdyno.targets.lock import JournalLock

if TYPE_CHECKING:
    from pgdyno.remote.remote_host import RemoteHost


SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One sample, which covers the period before its time."""

    t_us: int
    """The end of its period in microseconds since 1970, by the service's clock."""
    span_us: int
    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A period in microseconds since 1970."""

    from_us: int
    to_us: int

    def widened(self, period_s: int) -> Span:
        """Widens it to whole periods as the services count them."""
        period_us = period_s * SECOND_US
        return Span(self.from_us // period_us * period_us, -(-self.to_us // period_us) * period_us)


@dataclass(slots=True)
class Observed:
    """What one source reported about one period."""

    period_s: int
    figures: list[Figure] = field(default_factory=list)
    gaps: list[Span] = field(default_factory=list)
    complete: bool = False
    """Whether its end has been reported: delayed samples are not gaps yet."""


def missing(span: Span, period_s: int, ends_us: Iterable[int]) -> list[Span]:
    """Return the parts of `span`, which is whole periods, without a sample at their end; merge adjacent ones."""
    there = set(ends_us)
    period_us = period_s * SECOND_US
    found: list[Span] = []
    for end in range(span.from_us + period_us, span.to_us + 1, period_us):
        if end in there:
            continue
        if found and found[-1].to_us == end - period_us:
            found[-1] = Span(found[-1].from_us, end)
        else:
            found.append(Span(end - period_us, end))
    return found


def is_complete(span: Span, gaps: Sequence[Span]) -> bool:
    """Return whether the last period of `span` is present: samples arrive in order."""
    return not gaps or gaps[-1].to_us < span.to_us


Say = Callable[[str], None]
"""Receives the current step, for a person who watches."""
Note = Callable[[Message], None]
"""Receives what must be known later, too."""
GENERATOR = "@generator"
"""Stands in place of a target's name, and is not a valid one: the run's generator, or the first of several."""


def generator_names(count: int) -> list[str]:
    """Return the names that stand for this many generators in place of targets' names."""
    return [GENERATOR, *(f"{GENERATOR}-{number}" for number in range(2, count + 1))]


def is_generator(name: str) -> bool:
    return name.startswith(GENERATOR)


def stamp(moment: datetime) -> str:
    """Format a time as `2026-11-21T20:00:00Z`, which providers also accept in tags."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Resource(Protocol):
    """A resource at a provider that has pgdyno's tags, or that a journal names and that exists."""

    @property
    def id(self) -> str:
        """The identifier by which it is removed."""

    @property
    def run(self) -> str:
        """The run that created it."""

    @property
    def expires(self) -> datetime | None:
        """The time of expiry; None if unknown."""

    @property
    def owner(self) -> str:
        """The identity that created it; empty if unknown."""

    @property
    def words(self) -> str:
        """The type, name and location of the resource."""


class Left(Protocol):
    """A resource that could not be removed."""

    @property
    def resource(self) -> Resource:
        """The resource itself."""

    @property
    def message(self) -> Message:
        """That it is still there, why, and whether it costs anything."""


_NAMED = "%Y%m%d-%H%M%S"
_STAMPED = len("20261122-093000")


def new_run() -> str:
    """Return a unique name of letters, digits and single dashes, which RDS requires for its names."""
    return f"{datetime.now(UTC):{_NAMED}}-{secrets.token_hex(3)}"


@dataclass(slots=True)
class Journal:
    """The record of the resources of one run, which this machine wrote before it created them."""

    path: Path
    """Its file or folder, named after the run."""
    plan: str
    digest: str
    """The digest of what the plan rents, by which a changed plan is recognized."""
    expires: datetime
    """The time after which `pgdyno reap --expired` removes it."""
    account: str = ""
    """The account that owns the resources; empty for hosts of a pool."""
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The addresses of servers and generators, by target: instance, zone, version, host, login, ssh_port."""
    _lock: JournalLock = field(default_factory=JournalLock, repr=False)

    @property
    def run(self) -> str:
        return self.path.stem

    @property
    def begun(self) -> datetime:
        """The start of the run to a second, from its name."""
        return datetime.strptime(self.run[:_STAMPED], _NAMED).replace(tzinfo=UTC)

    @property
    def keys(self) -> Path:
        """The folder with the keys of its hosts, which only its owner can read."""
        return self.path

    def hold(self) -> bool:
        """Locks it until the process ends; returns False if another process has the lock, or closed it."""
        return self._lock.hold(self.path)

    def release(self) -> None:
        self._lock.release()


@dataclass(slots=True)
class SourceReport:
    """What one source of a provider reported about a server during a trial."""

    source: CloudSource
    name: Message
    """The name of the source: `CloudWatch's figures`."""
    message: Message | str | None = None
    """Why the report is missing or incomplete; an error is a sentence."""
    observed: Observed | None = None
    notes: list[Message] = field(default_factory=list)
    """Notes for the reader of the trial."""
    log: Sequence[str] | None = None
    """Lines of the server's log; None if this source is not a log."""
    checkpoints: Sequence[tuple[int, dict[str, Any]]] = ()
    """Checkpoints in the log: microseconds since 1970, and the fields of the probe's `checkpoint`."""


@dataclass(frozen=True, slots=True)
class Load:
    """When the servers of a run are under load: only then do they make requests to storage that are billed."""

    since: datetime
    """The start of the first trial."""
    busy_s: float
    """The time that the next trial may take, with its preparation."""
    idle_s: float
    """The time for which the servers exist in addition: until they are restored for it, and removed after it."""


@dataclass(slots=True)
class Rental(ABC):
    """The rented servers and generators of one plan. Methods raise TargetError; defaults are those of plain hosts."""

    plan: Plan
    """The plan whose targets it has; for a resumed search, only those that are not decided."""
    journal: Journal
    say: Say
    fresh: set[str] = field(default_factory=set)
    """Targets that are unchanged since they were created or restored."""
    since: dict[str, datetime] = field(default_factory=dict)
    """When each server was requested; without those that existed before."""
    released: dict[str, datetime] = field(default_factory=dict)
    """When each server was released before the end of the run."""
    unread: set[str] = field(default_factory=set)
    """Targets whose pages have not been read since they were restored."""
    notes: list[Message] = field(default_factory=list)
    """What the checks of `up` found that does not prevent the rental."""

    @abstractmethod
    def up(self) -> None:
        """Create all resources; after an error, those created so far still exist."""

    @abstractmethod
    def connection(self, name: str) -> DsnTarget:
        """Return how to open the server of target `name`, as a target over the network."""

    @abstractmethod
    def server_id(self, name: str) -> str:
        """Return the provider's identifier of the server of target `name`."""

    def is_restored_often(self, name: str) -> bool:
        """Return whether the server of target `name` is replaced before every trial."""
        del name
        return False

    def wants_restore(self, name: str) -> bool:
        """Return whether the server must be restored before the next trial."""
        return self.is_restored_often(name) and name not in self.fresh

    def has_snapshot(self, name: str, dataset: str) -> bool:
        """Return whether `take_snapshot` has taken one of the server of target `name` with `dataset`."""
        del name, dataset
        return False

    def take_snapshot(self, name: str, dataset: str) -> None:
        """Take a snapshot of the server of target `name`, which now has `dataset`; `down` deletes it.

        pgdyno calls it for targets whose `takes_snapshot` is true.
        """
        raise TargetError(f"target {name} cannot have a snapshot with {dataset}")

    def restore(self, name: str, dataset: str | None = None) -> None:
        """Replace the server by one from the snapshot with `dataset`, or for None from what the plan names."""
        del dataset
        raise TargetError(f"target {name} cannot be restored: its cluster lasts for the whole run")

    def reads_first(self, name: str) -> bool:
        """Return whether every page is to be read before the first trial after a restore."""
        del name
        return False

    def limits(self, name: str) -> list[Message]:
        """Describe the limits of the storage of target `name`."""
        del name
        return []

    def observe(self, name: str, span: Span, late_s: float, say: Say) -> Iterator[SourceReport]:
        """Return what the provider's services report about the server of target `name` in `span`.

        Waits up to `late_s` for delayed reports, and tells `say`. An error of a service becomes the message of its
        `SourceReport`.
        """
        del name, span, late_s, say
        yield from ()

    def accrued(self, now: datetime, load: Load) -> tuple[float, float] | None:
        """Return what all resources have cost in USD until `now`, and what they could after the next trial of `load`.

        None if a price is unknown.
        """
        del now, load
        return 0.0, 0.0

    def request_cost(self, name: str, now: datetime) -> float | None:
        """Return what requests to the storage of target `name` have cost in USD until `now`; None if unknown."""
        del name, now
        return 0.0

    @abstractmethod
    def generator_cost(self, name: str) -> Estimate:
        """Return the cost of the generator `name`."""

    def generator_ssh(self) -> SshSpec | None:
        """Return the SSH address of the first generator; None if the load comes from this machine."""
        return None

    def through(self) -> tuple[str, ...]:
        """Return the words that precede a program to run it on the first generator; none for this machine."""
        return ()

    def load_hosts(self) -> list[RemoteHost]:
        """Return the generators if there are several, else none."""
        return []

    @abstractmethod
    def existing(self) -> Sequence[Resource]:
        """Return all existing resources."""

    @abstractmethod
    def prolong(self, expires: datetime) -> None:
        """Extend the expiry of all resources."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Begins to remove the server of target `name`, which no further trial needs; `down` removes the rest."""

    @abstractmethod
    def down(self) -> Sequence[Left]:
        """Remove all resources; return those that remain."""


def take_down(rental: Rental, note: Note) -> int | None:
    """Remove all that `rental` created; return the number of remaining resources, None if that is unknown.

    It notes an error of the provider instead of raising it, because that error must not hide the one that led to the
    removal.
    """
    run = rental.journal.run
    try:
        return remove_rental(rental, note)
    except BaseException as error:
        why: Message | str = Message("removal-interrupted", "their removal was interrupted")
        if isinstance(error, TargetError):
            why = error.message
        note(
            Message(
                "removal-failed",
                "servers of run {run} may still be there: {why}; remove them: pgdyno reap --run {run}",
                run=run,
                why=why,
            )
        )
        if isinstance(error, TargetError):
            return None
        raise


def remove_rental(rental: Rental, note: Note) -> int:
    """Remove all that `rental` created, and note and count what remains. Raises TargetError."""
    left = rental.down()
    for each in left:
        note(each.message)
    if left:
        note(Message("removal-again", "try again: pgdyno reap --run {run}", run=rental.journal.run))
    return len(left)
