"""The interface of what a cloud provider has rented for one plan: servers, generators, their metrics, their removal."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.model import servers_of
from pgdyno.plan.targets import RentedTarget
from pgdyno.records import CloudSource
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.home import target_errors
from pgdyno.targets.rented.estimate import Estimate
from pgdyno.targets.rented.rental_journal import Journal, Place

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

    def widen_to_periods(self, period_s: int) -> Span:
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


def missing_spans(span: Span, period_s: int, ends_us: Iterable[int]) -> list[Span]:
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


@dataclass(frozen=True, slots=True)
class Resource:
    """An existing resource at a provider that has pgdyno's tags or that a journal names."""

    kind: str
    id: str
    """The identifier that a request for its removal needs."""
    name: str
    region: str
    """Empty for a host of a pool."""
    run: str
    """The run that created it."""
    expires: datetime | None
    """The time of expiry; None if unknown."""
    state: str = ""
    owner: str = ""
    """The identity that created it; empty if unknown."""
    instance: str = ""
    """The instance class, which determines the price; empty for others."""
    size_gb: int | None = None
    """The size of its storage; None without one of its own."""
    storage: str = ""
    """The type of that storage: gp3; empty for a snapshot."""
    iops: int = 0
    throughput: int = 0
    """The IOPS and MB/s of that storage, as far as its description has them."""
    arn: str = ""
    """Amazon's full name of it, where its tags need that."""

    @property
    def words(self) -> str:
        """A description such as `database instance pgdyno-… (db.r8g.large, creating), eu-central-1`."""
        size = "" if self.size_gb is None else f"{self.size_gb} GB {self.storage}".rstrip()
        more = ", ".join(each for each in (self.instance, size, self.state) if each)
        name = self.name if self.id == self.name else f"{self.name} {self.id}"
        place = f", {self.region}" if self.region else ""
        return f"{self.kind} {name}{f' ({more})' if more else ''}{place}"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A resource that could not be removed."""

    resource: Resource
    message: Message
    """That it is still there, why, and whether it costs anything."""


def rented_servers(plan: Plan) -> dict[str, RentedTarget]:
    """Return the plan's rented servers by name: each instance of a target of several is one."""
    return {name: spec for name, spec in servers_of(plan).items() if isinstance(spec, RentedTarget)}


def wanted_names(plan: Plan) -> set[str]:
    """Return the names of all rented servers and generators, which must be ready."""
    return {*rented_servers(plan), *(generator_names(plan.generator.count) if plan.generator is not None else ())}


def digest_of(plan: Plan) -> str:
    """Return a digest of what the plan rents; plans with the same servers have the same digest."""
    asked: dict[str, object] = {
        name: spec.model_dump(mode="json", exclude={"instances"}) for name, spec in rented_servers(plan).items()
    }
    if plan.generator is not None:
        asked[GENERATOR] = plan.generator.model_dump(mode="json")
    if plan.cloud.placement is not None:
        asked["placement"] = plan.cloud.placement
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


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
        """Create all resources, as far as possible in parallel; after an error, those created so far still exist."""

    @abstractmethod
    def is_up(self) -> bool:
        """Return whether all servers and generators exist where the plan wants them."""

    @abstractmethod
    def ssh(self, name: str) -> SshSpec | None:
        """Return how to log in to the host of `name`; None if nobody can."""

    @abstractmethod
    def tls_root(self, name: str) -> Path:
        """Return the file of certificates that verify the server of target `name`."""

    def place(self, name: str) -> Place:
        return Place(**self.journal.ready[name])

    def connection(self, name: str) -> DsnTarget:
        """Return how to open the server of target `name`, as a target over the network."""
        spec = rented_servers(self.plan)[name]
        keys = ("database", "allow_existing", "settings")
        return DsnTarget.with_password_file(
            self.place(name).dsn(self.journal.passwords, self.tls_root(name)),
            ssh=self.ssh(name),
            **{key: getattr(spec, key) for key in keys if key in spec.model_fields_set},
        )

    @abstractmethod
    def server_id(self, name: str) -> str:
        """Return the provider's identifier of the server of target `name`."""

    def is_restored_often(self, name: str) -> bool:
        """Return whether the server of target `name` is replaced before every trial."""
        spec = rented_servers(self.plan).get(name)
        return spec is not None and spec.restore_s > 0

    def wants_restore(self, name: str) -> bool:
        """Return whether the server must be restored before the next trial."""
        return self.is_restored_often(name) and name not in self.fresh

    def has_snapshot(self, name: str, dataset: str) -> bool:
        """Return whether `take_snapshot` has taken one of the server of target `name` with `dataset`."""
        return (name, dataset) in self.journal.snapshots

    def take_snapshot(self, name: str, dataset: str) -> None:
        """Take a snapshot of the server of target `name`, which now has `dataset`; `down` deletes it.

        pgdyno calls it for targets whose `takes_snapshot` is true.
        """
        raise NotImplementedError

    def restore(self, name: str, dataset: str | None = None) -> None:
        """Replace the server by one from the snapshot with `dataset`, or for None from what the plan names."""
        raise NotImplementedError

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

    def accrued_usd(self, now: datetime, load: Load) -> tuple[float, float] | None:
        """Return what all resources have cost in USD until `now`, and what they could after the next trial of `load`.

        None if a price is unknown.
        """
        del now, load
        return 0.0, 0.0

    def request_cost(self, name: str, now: datetime) -> float | None:
        """Return what requests to the storage of target `name` have cost in USD until `now`; None if unknown."""
        del name, now
        return 0.0

    def generator_cost(self, name: str) -> Estimate:
        """Return the cost of the generator `name`."""
        raise NotImplementedError

    def load_hosts(self) -> list[RemoteHost]:
        """Return the generators; none if the load comes from this machine."""
        return []

    def through(self) -> tuple[str, ...]:
        """Return the words that precede a program to run it on the first generator; none for this machine."""
        hosts = self.load_hosts()
        if not hosts:
            return ()
        from pgdyno.remote.remote_host import relay_command

        file = self.journal.keys / "generator.json"
        with target_errors(file, "cannot write"):
            hosts[0].write(file)
        return relay_command(file)

    @abstractmethod
    def existing_resources(self) -> Sequence[Resource]:
        """Return all existing resources."""

    @abstractmethod
    def prolong(self, expires: datetime) -> None:
        """Give all resources another expiry; after an error, some may still have the earlier one."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Begin to remove the server of target `name`, which no further trial needs; `down` removes the rest."""

    @abstractmethod
    def remove_all(self) -> Sequence[Leftover]:
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
    left = rental.remove_all()
    for each in left:
        note(each.message)
    if left:
        note(Message("removal-again", "try again: pgdyno reap --run {run}", run=rental.journal.run))
    return len(left)
