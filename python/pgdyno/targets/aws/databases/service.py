"""What RDS and Aurora have in common: servers from creation to restore, versions, waiting, snapshots."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

from pgdyno.targets.aws.boto3_clients import (
    Appearing,
    AwsError,
    CapacityError,
    Cloud,
    NotThereError,
    Patience,
    ThereAlreadyError,
    retry_until_settled,
)
from pgdyno.targets.aws.databases.dead_man import NONE, guard
from pgdyno.targets.aws.databases.parameters import INSTANCE, Level, make_group, values_for
from pgdyno.targets.aws.databases.schema import DatabaseTarget
from pgdyno.targets.aws.inventory import APIS, Kind, tags_of
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.network import allowed_networks, group_named, security_group, vpc_of
from pgdyno.targets.aws.schema import AwsMachine
from pgdyno.targets.rented.rental_journal import Place
from pgdyno.units import duration_words, parse_duration_s

PORT = 5432
_FAILED = (
    "failed", "inaccessible-encryption-credentials", "inaccessible-encryption-credentials-recoverable",
    "incompatible-create", "incompatible-network", "incompatible-option-group", "incompatible-parameters",
    "incompatible-restore", "insufficient-capacity", "restore-error", "storage-full",
)  # fmt: skip
_READY = ("available", "storage-initialization", "storage-optimization")
"""States of a server that takes connections and changes. A restored one may load its blocks from Amazon S3 for hours,
"storage-initialization", which `first_touch` of the plan shortens.
"""
INSIGHTS_DAYS = 7
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Release:
    """A PostgreSQL version that the service offers."""

    version: str
    family: str
    """The family of its parameter groups, such as `postgres17`."""


def find_release(cloud: Cloud, engine: str, asked: str) -> Release:
    """Return the newest version that matches `asked` ("17", "17.4"). Raises AwsError."""
    found = [
        Release(each["EngineVersion"], each["DBParameterGroupFamily"])
        for each in cloud.list_elements("rds", "describe_db_engine_versions", "DBEngineVersions", Engine=engine)
        if f"{each['EngineVersion']}.".startswith(f"{asked}.")
    ]
    if not found:
        message = f"the service has no {engine} {asked} in {cloud.region}"
        raise AwsError(message, hint=f"aws rds describe-db-engine-versions --engine {engine} lists what it has")
    return max(found, key=lambda each: tuple(int(part) for part in each.version.split(".") if part.isdigit()))


def new_password() -> str:
    """Return a random password of letters and digits: the services refuse some punctuation."""
    return secrets.token_hex(16)


def describe_resource(cloud: Cloud, kind: Kind, name: str) -> dict[str, Any]:
    """Return RDS's description of what is called `name`. Raises NotThereError, AwsError."""
    api = APIS[kind]
    with suppress(NotThereError):
        for each in cloud.list_elements("rds", api.describe, api.listed, **{api.key: name}):
            return each
    raise NotThereError(f"there is no {kind} {name} in {cloud.region}")


def wait_for(maker: Maker, spec: AwsMachine, look: Callable[[], tuple[str, T]], what: str) -> T:
    """Call `look` until its state is "available", and return the value that `look` returned with it.

    Raises AwsError if the state is a failure, or if the wait exceeds the plan's `ready_within`.
    """
    patience, appearing = Patience(parse_duration_s(spec.ready_within)), Appearing()
    told = ""
    while True:
        maker.stop.check()
        state, found = appearing.look(look)
        if state in _READY and found is not None:
            return found
        if state in _FAILED:
            raise AwsError(f"{what} is {state}", code=state, hint="see its events in Amazon's console")
        if patience.is_over():
            within = duration_words(parse_duration_s(spec.ready_within))
            message = f"{what} is still {state} after {within}"
            raise AwsError(message, code="Timeout", hint="give it more time: ready_within = …")
        if state != told:
            maker.say(f"{what} is {state}")
            told = state
        patience.pause()


def with_choices(maker: Maker, spec: AwsMachine, make: Callable[[str, str | None], T], zones: Sequence[str] = ()) -> T:
    """Return the result of `make` for the first instance class and zone for which Amazon has capacity.

    Raises AwsError: if no choice has capacity, the error of the last one.
    """
    places: Sequence[str | None] = [*zones] or [None]
    tried = [(each, zone) for each in (spec.instance, *spec.instead) for zone in places]
    for place, (instance, zone) in enumerate(tried):
        try:
            return make(instance, zone)
        except CapacityError as error:
            if place == len(tried) - 1:
                raise
            where = f" in {zone}" if zone else ""
            maker.say(f"no capacity for {instance}{where} ({error.code}): trying the next one")
    raise AssertionError("there is a first choice")


def wait_for_instance(maker: Maker, spec: DatabaseTarget, parameters: str | None) -> dict[str, Any]:
    """Return the instance once it is available with its parameters and modifications applied. Raises AwsError."""
    rebooted = False

    def look() -> tuple[str, dict[str, Any]]:
        nonlocal rebooted
        found = describe_resource(maker.cloud, Kind.DB_INSTANCE, maker.name)
        waits = _waits_for(found, parameters) if found["DBInstanceStatus"] in _READY else None
        if waits == _REBOOT and not rebooted:
            # A restored instance may start with the parameters of its snapshot.
            change(maker, spec, "reboot_db_instance", DBInstanceIdentifier=maker.name)
            rebooted = True
        return waits or found["DBInstanceStatus"], found

    return wait_for(maker, spec, look, f"the database instance {maker.name}")


def change(maker: Maker, spec: AwsMachine, operation: str, **asked: object) -> None:
    """Request a change of a server, again and again while RDS refuses it because it backs the server up.

    A first backup begins by itself when the server has become available, and may take long. Raises AwsError.
    """
    ask = partial(maker.cloud.call, "rds", operation, **asked)
    retry_until_settled(maker.stop.check, ask, parse_duration_s(spec.ready_within))


_REBOOT = "pending-reboot"


def _waits_for(instance: dict[str, Any], group: str | None) -> str | None:
    """Return what an available instance still waits for, as a state; None for nothing."""
    if instance.get("PendingModifiedValues"):
        return "modifying"
    ours = [each for each in instance.get("DBParameterGroups", []) if each["DBParameterGroupName"] == group]
    return _REBOOT if any(each.get("ParameterApplyStatus") == _REBOOT for each in ours) else None


@dataclass(frozen=True, slots=True)
class Database:
    """A server of RDS or Aurora that pgdyno creates."""

    maker: Maker
    spec: DatabaseTarget
    password: str

    engine: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]
    """What the service bills as the server: the instance, and on Aurora the cluster, of which snapshots are taken."""
    snapshot_kind: ClassVar[Kind]
    create_snapshot: ClassVar[str]

    @property
    def parameters(self) -> list[tuple[Level, Mapping[str, str]]]:
        """The plan's parameters by their level."""
        return [(INSTANCE, self.spec.parameters)]

    def up(self) -> Place:
        """Create the server and all that it needs, and wait until it is available. Raises AwsError, TargetError."""
        cloud, spec = self.maker.cloud, self.spec
        # Errors in the plan must be reported before anything is created.
        release = self.release()
        values = [(level, values_for(cloud, level, release.family, asked)) for level, asked in self.parameters]
        vpc = vpc_of(cloud, spec.subnet_group)
        allowed = allowed_networks(spec.allow)
        guard(self.maker, spec.dead_man, self.kinds)
        security = security_group(self.maker, vpc, allowed, [PORT])
        groups = [make_group(self.maker, level, release.family, asked) for level, asked in values]
        return self.create(release, security, groups)

    def restore(self) -> Place:
        """Create the removed server again from its snapshot or the origin of its clone, with its existing groups.

        Raises AwsError.
        """
        name = self.maker.name
        groups = [name if asked else None for _, asked in self.parameters]
        return self.create(self.release(), group_named(self.maker.cloud, name), groups)

    def create(self, release: Release, security: str, groups: Sequence[str | None]) -> Place:
        """Create the server in the security group, with its parameter groups. Raises AwsError."""
        raise NotImplementedError

    def release(self) -> Release:
        """Return the version that the service has for the plan or the snapshot. Raises AwsError."""
        cloud, version = self.maker.cloud, self.spec.version
        if self.spec.snapshot is not None:
            found = describe_resource(cloud, self.snapshot_kind, self.spec.snapshot)
            _check_snapshot(found, self.spec, self.engine)
            version = found["EngineVersion"]
        return find_release(cloud, self.engine, version)

    def take_snapshot(self, name: str) -> None:
        """Take a snapshot called `name` of the server, and wait until it is available. Raises AwsError."""
        maker, spec, kind = self.maker, self.spec, self.snapshot_kind
        if spec.dead_man != NONE:
            guard(maker, spec.dead_man, (kind,), name)
        maker.note(kind, name)
        identified = {APIS[self.kinds[-1]].key: maker.name, APIS[kind].key: name}
        # Names are random: an existing snapshot comes from our own first attempt, whose response was lost.
        with suppress(ThereAlreadyError):
            change(maker, spec, self.create_snapshot, **identified, Tags=tags_of(maker.journal, maker.target, name))

        def look() -> tuple[str, dict[str, Any]]:
            found = describe_resource(maker.cloud, kind, name)
            return found["Status"], found

        wait_for(maker, spec, look, f"the {kind} {name}")

    def request(self, operation: str, **asked: object) -> None:
        """Request a creation until Amazon knows all that it names. Raises AwsError."""
        # Names are random: an existing one comes from our own first attempt, whose response was lost.
        with suppress(ThereAlreadyError):
            retry_until_settled(self.maker.stop.check, partial(self.maker.cloud.call, "rds", operation, **asked))

    def take_over(self, operation: str, backup_days: int, **named: object) -> None:
        """Give a restored server the password of this run, and the backups of the plan. Raises AwsError."""
        kept = {"MasterUserPassword": self.password, "BackupRetentionPeriod": backup_days}
        change(self.maker, self.spec, operation, **named, **kept, ApplyImmediately=True)


def _check_snapshot(found: dict[str, Any], spec: DatabaseTarget, engine: str) -> None:
    """Raise AwsError if the plan's server cannot be restored from this snapshot."""
    name, version = spec.snapshot, found["EngineVersion"]
    if found["Engine"] != engine:
        raise AwsError(f"the snapshot {name} is one of {found['Engine']}, not of {engine}")
    if found["Status"] != "available":
        raise AwsError(f"the snapshot {name} is {found['Status']}", hint="wait until it is available")
    if not f"{version}.".startswith(f"{spec.version}."):
        raise AwsError(f"the snapshot {name} has version {version}, but the plan requires {spec.version}")


def place_of(instance: dict[str, Any], host: str, port: int, user: str) -> Place:
    """Return the location of the server on the described instance."""
    zone = instance.get("AvailabilityZone", "")
    return Place(host, int(port), user, zone, instance["DBInstanceClass"], instance["EngineVersion"])


def insights(spec: DatabaseTarget) -> dict[str, Any]:
    """Return the request's parameters for Performance Insights, which is free for seven days of history."""
    kept = {"PerformanceInsightsRetentionPeriod": INSIGHTS_DAYS} if spec.insights else {}
    return {"EnablePerformanceInsights": spec.insights, **kept}


def lifecycle(spec: DatabaseTarget) -> str:
    """Return the request's value for Extended Support.

    Amazon's default would enrol every server, and charge for it by the processor once its version is old. Disabled, it
    refuses such versions.
    """
    return f"open-source-rds-extended-support{'' if spec.extended_support else '-disabled'}"


def without_none(**asked: object) -> dict[str, Any]:
    """Return `asked` without the keys whose value is None."""
    return {name: value for name, value in asked.items() if value is not None}
