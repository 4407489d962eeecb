"""The rented servers of a plan, from their creation to their removal, which also follows errors and interrupts."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.model import Plan, servers_of
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.databases.aurora import Aurora
from pgdyno.targets.aws.databases.dead_man import move
from pgdyno.targets.aws.databases.rds import Rds
from pgdyno.targets.aws.databases.schema import AuroraTarget, DatabaseTarget, RdsTarget
from pgdyno.targets.aws.databases.service import new_password
from pgdyno.targets.aws.hosts.instances import KeyRing
from pgdyno.targets.aws.hosts.schema import Ec2Target
from pgdyno.targets.aws.inventory import Kind, Search, by_name, change_expiry, describe
from pgdyno.targets.aws.location import tls_root
from pgdyno.targets.aws.maker import Maker, Stop, side_by_side
from pgdyno.targets.aws.network import placement_group, wait_until_it_answers
from pgdyno.targets.aws.preflight.storage_limits import instance_limit, limits_of
from pgdyno.targets.aws.pricing.metering import RequestMeter, accrued_cost
from pgdyno.targets.aws.pricing.prices import Prices
from pgdyno.targets.aws.pricing.rental_costs import (
    configured_region,
    generator_estimate,
    generator_of,
    io_processors,
    items_of,
    rented_targets,
)
from pgdyno.targets.aws.removal import GOING, begin_removal, remove_all
from pgdyno.targets.aws.schema import PROVIDER, AwsTarget
from pgdyno.targets.rented import rental
from pgdyno.targets.rented.estimate import Estimate
from pgdyno.targets.rented.rental import Leftover, Load, Resource, Say, SourceReport, Span, digest_of
from pgdyno.targets.rented.rental_journal import Journal
from pgdyno.units import parse_duration_s

if TYPE_CHECKING:
    from pgdyno.remote.remote_host import RemoteHost
    from pgdyno.targets.aws.hosts.ec2 import Ec2
    from pgdyno.targets.aws.hosts.generator_hosts import RentedGenerator

_ZONE = "name one for all: zones = [...]"
_DATABASES = (Kind.DB_INSTANCE, Kind.DB_CLUSTER)
_MACHINES = (Kind.DB_INSTANCE, Kind.INSTANCE)
"""The kinds without which a target has no server."""
_SNAPSHOTS = (Kind.DB_SNAPSHOT, Kind.CLUSTER_SNAPSHOT)


@dataclass(slots=True)
class Rental(rental.Rental):
    """The rented servers of one plan."""

    root: Path = field(kw_only=True)
    """pgdyno's home."""
    clouds: dict[str, Cloud] = field(default_factory=dict)
    """Services by region."""
    zones: dict[str, list[str]] = field(default_factory=dict)
    """The zones to try for each target, which the checks before the rental found."""
    generator_group: str | None = None
    """The generators' security group, while servers are created."""
    placement_groups: dict[str, str] = field(default_factory=dict)
    """The placement groups of the run's hosts by region, while servers are created."""
    stop: Stop = field(default_factory=Stop)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Treats restored servers as unread: even those that are already up may have been restored just before."""
        self.unread |= {name for name, spec in self.specs.items() if isinstance(spec, DatabaseTarget) and spec.origin}

    @property
    def specs(self) -> dict[str, AwsTarget]:
        return rented_targets(self.plan)

    def up(self) -> None:
        self._check_before()
        # What the parallel workers share must exist before they start.
        if self._has_hosts:
            KeyRing(self.journal).public_key()
        self._place_together()
        generators = self._generators()
        if generators:
            self.generator_group = generators[0].group()
        side_by_side({name: partial(self._create_target, name) for name in self.specs}, self.stop)
        if generators:
            self._generators_up(generators)

    def _place_together(self) -> None:
        """Create the placement group of each region with hosts, if the plan asks for it. Raises TargetError."""
        if self.plan.cloud.placement is None:
            return
        specs = self.specs
        hosts = [name for name, spec in specs.items() if isinstance(spec, Ec2Target)]
        # Generators are in the region of the first target.
        for maker in map(self._maker, [*hosts, *list(specs)[:1]] if self.plan.generator else hosts):
            if maker.cloud.region not in self.placement_groups:
                self.placement_groups[maker.cloud.region] = placement_group(maker)

    def _check_before(self) -> None:
        """Find what Amazon would refuse, and the zones of the servers, before anything is created. Raises TargetError.

        The import takes long, because it includes the SSH modules.
        """
        from pgdyno.targets.aws.preflight.before_rental import check_before_rental
        from pgdyno.targets.aws.pricing.duration import hours_of

        hours, left_s = hours_of(self.plan), (self.journal.expires - datetime.now(UTC)).total_seconds()
        lasts_s = left_s if hours is None else min(hours * 3600, left_s)
        servers = {name: self._server(name, "") for name in self.specs}
        together = self.plan.cloud.placement == "cluster"
        self.zones = check_before_rental(servers, self._generators(), self._note, lasts_s, together=together)

    def _note(self, message: Message) -> None:
        """Keep a note for the run, and show it before anything is paid for."""
        self.notes.append(message)
        self.say(str(message))

    @property
    def _has_hosts(self) -> bool:
        specs = self.specs.values()
        return self.plan.generator is not None or any(isinstance(spec, Ec2Target) for spec in specs)

    def _generators(self) -> list[RentedGenerator]:
        hosts = generator_of(self.plan)
        if hosts is None:
            return []
        # The SSH modules take long to import.
        from pgdyno.targets.aws.hosts.generator_hosts import generators_of

        region = _region(self.clouds, next(iter(self.specs.values())))
        placement = self.placement_groups.get(region)
        return generators_of(hosts, self.clouds[region], self.journal, self.say, self._note, self.stop, placement)

    def _generators_up(self, generators: Sequence[RentedGenerator]) -> None:
        from pgdyno.targets.aws.hosts.generator_hosts import check_reach

        zones = {name: place["zone"] for name, place in self.journal.ready.items()}
        if len(set(zones.values())) > 1:
            listed = ", ".join(f"{name} in {zone}" for name, zone in sorted(zones.items()))
            raise TargetError(
                f"the servers are in several zones ({listed}), and the generator can be in one", hint=_ZONE
            )
        zone = next(iter(zones.values()))
        side_by_side({each.maker.target: partial(self._generator_up, each, zone) for each in generators}, self.stop)
        check_reach(generators[0].maker.cloud, self.journal)

    def _generator_up(self, generator: RentedGenerator, zone: str) -> None:
        name = generator.maker.target
        assert self.generator_group is not None
        self.since[name] = datetime.now(UTC)
        try:
            place = generator.up(self.generator_group, zone)
        except TargetError as error:
            raise type(error)(f"the generator: {error.message}", hint=error.hint) from error
        self.journal.is_ready(name, place)

    def load_hosts(self) -> list[RemoteHost]:
        if self.plan.generator is None:
            return []
        from pgdyno.targets.aws.hosts.generator_hosts import generator_hosts

        return generator_hosts(self.journal)

    def _create_target(self, name: str) -> None:
        self.since[name] = datetime.now(UTC)
        try:
            self._make_ready(name, self._server(name, new_password()))
        except TargetError as error:
            raise type(error)(f"target {name}: {error.message}", hint=error.hint) from error

    def ssh(self, name: str) -> SshSpec | None:
        return KeyRing(self.journal).ssh(self.place(name))

    def tls_root(self, name: str) -> Path:
        spec = self.specs[name]
        if isinstance(spec, DatabaseTarget):
            return tls_root(spec, self.root)
        return KeyRing(self.journal).certificate(name)

    def server_id(self, name: str) -> str:
        return self._maker(name).name

    def reads_first(self, name: str) -> bool:
        spec = self.specs[name]
        return isinstance(spec, DatabaseTarget) and spec.first_touch == "read"

    def limits(self, name: str) -> list[Message]:
        spec, instance = self.specs[name], self.journal.ready[name]["instance"]
        if not isinstance(spec, RdsTarget | Ec2Target):
            return []
        try:
            return limits_of(spec, instance, instance_limit(self._maker(name).cloud, instance))
        except AwsError as error:
            return [
                Message(
                    "storage-limits-unknown", "the limits of its storage are not known: {error}", error=error.message
                )
            ]

    def accrued_usd(self, now: datetime, load: Load) -> tuple[float, float] | None:
        got = {name: place["instance"] for name, place in self.journal.ready.items()}
        items = items_of(self.plan, Prices(self.root), configured_region(self.plan), got)
        since = {name: self.since.get(name, self.journal.begun) for name in self.journal.ready}
        requests = {name: self._requests(name) for name in self.specs}
        return accrued_cost(items, since, requests, now, load, self.released)

    def request_cost(self, name: str, now: datetime) -> float | None:
        meter = self._requests(name)
        until = self.released.get(name, now)
        return 0.0 if meter is None else meter.cost(self.since.get(name, self.journal.begun), until)

    def _requests(self, name: str) -> RequestMeter | None:
        """Return the meter of requests to storage that are billed; None if they are not."""
        spec = self.specs[name]
        if not isinstance(spec, AuroraTarget) or spec.storage_type != "standard":
            return None
        maker, got = self._maker(name), self.journal.ready[name]["instance"]
        count = io_processors(spec.model_copy(update={"instance": got}))
        return RequestMeter(maker.cloud, maker.name, count, Prices(self.root))

    def generator_cost(self, name: str) -> Estimate:
        # The generator is in the region of the servers, which the name of a zone does not always contain.
        region = self._maker(next(iter(self.specs))).cloud.region
        return generator_estimate(self.plan, Prices(self.root), region, self.journal.ready[name]["instance"])

    def observe(self, name: str, span: Span, late_s: float, say: Say) -> Iterator[SourceReport]:
        from pgdyno.targets.aws.observe.reports import database_reports, host_reports

        maker = self._maker(name)
        if isinstance(self.specs[name], Ec2Target):
            # On a host, the probe itself collects what Performance Insights and RDS's log would report.
            yield from host_reports(maker.cloud, self.tokens(name), span, late_s, say)
        else:
            yield from database_reports(maker.cloud, maker.name, span, late_s, say)

    def tokens(self, name: str) -> list[str]:
        """Return the tokens of all requests for the instance of target `name`, one of which created it."""
        return [each.name for each in self.journal.noted if each.target == name and each.kind == Kind.INSTANCE]

    def take_snapshot(self, name: str, dataset: str) -> None:
        server = self._server(name, "")
        assert isinstance(server, Rds | Aurora)
        earlier = sum(each.target == name and each.kind in _SNAPSHOTS for each in self.journal.noted)
        snapshot = f"{server.maker.name}-s{earlier + 1}"
        server.take_snapshot(snapshot)
        self.journal.snapshot_taken(name, dataset, snapshot)
        # Every trial is to start alike: the server that loaded the data is restored, too.
        self.fresh.discard(name)

    def restore(self, name: str, dataset: str | None = None) -> None:
        maker, within_s = self._maker(name), parse_duration_s(self.specs[name].ready_within)
        clouds = {maker.cloud.region: maker.cloud}
        left = remove_all(clouds, lambda: self._of_target(name, _DATABASES), self.say, within_s)
        if left:
            raise AwsError(f"cannot restore {name}: {left[0].message}")
        snapshot = None if dataset is None else self.journal.snapshots[name, dataset]
        self._make_ready(name, self._server(name, new_password(), snapshot), restore=True)
        self.unread.add(name)

    def release(self, name: str) -> None:
        begin_removal(self._maker(name).cloud, self._of_target(name, (*_DATABASES, Kind.INSTANCE)), self.say)
        self.journal.is_released(name)
        self.released[name] = datetime.now(UTC)

    def _of_target(self, name: str, kinds: Collection[Kind]) -> list[Resource]:
        noted = [each for each in self.journal.noted if each.target == name and each.kind in kinds]
        return by_name(self._maker(name).cloud, noted, self.journal.run)

    def remove_all(self) -> list[Leftover]:
        journal, search = self.journal, Search(self.clouds, [self.journal])
        known = [
            Resource(each.kind, each.name, each.name, each.region, journal.run, journal.expires)
            for each in dict.fromkeys(journal.noted)
        ]
        left = remove_all(self.clouds, lambda: self._find_own(search), self.say, known=known)
        if not left:
            journal.close()
        return left

    def existing_resources(self) -> list[Resource]:
        return self._find_own(Search(self.clouds, [self.journal]))

    def _find_own(self, search: Search) -> list[Resource]:
        return [each for each in search.find() if each.run == self.journal.run]

    def is_up(self) -> bool:
        """Return whether all servers and generators exist, which may have expired or been reaped.

        Raises AwsError if they are not where the plan and boto3's configuration want them now.
        """
        wanted = _clouds(self.plan)
        if there := {each.region for each in self.journal.noted} - wanted.keys():
            message = (
                f"servers of the plan {self.plan.name} are up in {', '.join(sorted(there))} (run {self.journal.run}), "
                f"and it now asks for {', '.join(wanted)}, which is boto3's region"
            )
            hint = f"set AWS_DEFAULT_REGION to that region, or remove them: pgdyno reap --run {self.journal.run}"
            raise AwsError(message, hint=hint)
        exist = {
            noted.target
            for noted in self.journal.noted
            if noted.kind in _MACHINES
            and any(each.state not in GOING for each in describe(self.clouds[noted.region], noted.kind, noted.name))
        }
        return exist >= self.journal.ready.keys()

    def prolong(self, expires: datetime) -> None:
        for each in self.existing_resources():
            if each.kind == Kind.SCHEDULE:
                move(self.clouds[each.region], each.id, expires)
            else:
                change_expiry(self.clouds[each.region], each, expires)
        # The journal is last, so that it never has a later expiry than a tag.
        self.journal.prolong(expires)

    def _make_ready(self, name: str, server: Rds | Aurora | Ec2, *, restore: bool = False) -> None:
        # Only databases can be restored from a snapshot.
        place = server.restore() if restore and isinstance(server, (Rds, Aurora)) else server.up()
        spec, passwords = self.specs[name], self.journal.passwords
        with self._lock:
            self.journal.keep_password(place, server.password)
        wait_until_it_answers(server.maker, spec, place, passwords, self.tls_root(name))
        self.journal.is_ready(name, place)
        self.fresh.add(name)

    def _server(self, name: str, password: str, snapshot: str | None = None) -> Rds | Aurora | Ec2:
        spec, maker = self._target_in_zones(name), self._maker(name)
        if snapshot is not None:
            spec = spec.model_copy(update={"snapshot": snapshot})
        if isinstance(spec, Ec2Target):
            # The SSH modules take long to import.
            from pgdyno.targets.aws.hosts.ec2 import Ec2

            return Ec2(maker, spec, password)
        if isinstance(spec, RdsTarget):
            return Rds(maker, spec, password)
        assert isinstance(spec, AuroraTarget)
        return Aurora(maker, spec, password)

    def _target_in_zones(self, name: str) -> AwsTarget:
        spec = self.specs[name]
        before = self.journal.ready.get(name)
        zones = self.zones.get(name, spec.zones) if before is None else [before["zone"]]
        return spec if zones == spec.zones else spec.model_copy(update={"zones": zones})

    def _maker(self, name: str) -> Maker:
        spec = self.specs[name]
        cloud = self.clouds[_region(self.clouds, spec)]
        place = 1 + list(servers_of(self.plan)).index(name)
        placement = self.placement_groups.get(cloud.region)
        return Maker(cloud, self.journal, name, place, self.say, self._note, self.stop, self.generator_group, placement)


def _region(clouds: Mapping[str, Cloud], spec: AwsTarget) -> str:
    # Targets without a region are in the configured one, which is the first.
    return spec.region or next(iter(clouds))


def _clouds(plan: Plan) -> dict[str, Cloud]:
    specs = rented_targets(plan).values()
    configured = [Cloud()] if any(spec.region is None for spec in specs) else []
    named = [Cloud(spec.region) for spec in specs if spec.region is not None]
    return {cloud.region: cloud for cloud in [*configured, *named]}


def begin(plan: Plan, root: Path, say: Say, lasts_s: float) -> Rental:
    """Start a rental that expires in `lasts_s`, without a server yet. Raises TargetError without credentials."""
    clouds = _clouds(plan)
    who = next(iter(clouds.values())).identity()
    expires = datetime.now(UTC) + timedelta(seconds=lasts_s)
    journal = Journal.begin(
        root / PROVIDER,
        plan.name,
        digest_of(plan),
        expires,
        account=who.account,
        owner=who.owner,
        more_tags=plan.cloud.tags,
    )
    return Rental(plan, journal, say, root=root, clouds=clouds)


def open_rental(plan: Plan, journal: Journal, root: Path, say: Say) -> Rental:
    """Return what `journal` records. Raises AwsError if these credentials do not belong to its account."""
    clouds = _clouds(plan) | {each.region: Cloud(each.region) for each in journal.noted}
    account = next(iter(clouds.values())).identity().account
    if account != journal.account:
        message = f"run {journal.run} belongs to account {journal.account}, but these credentials belong to {account}"
        raise AwsError(message, hint="use those of the other account")
    return Rental(plan, journal, say, root=root, clouds=clouds)
