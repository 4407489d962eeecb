"""Resources at Amazon: pgdyno creates them with journal entries and tags, in parallel, and finds them again."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pgdyno.errors import TargetError
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, NotThereError
from pgdyno.targets.aws.rental_journal import (
    EXPIRES,
    ORDER,
    OWNER,
    RUN,
    Journal,
    Kind,
    Noted,
    Resource,
    by_key,
    moment_of,
)
from pgdyno.targets.rental import Note

PREFIX = "pgdyno-"
"""Prefix of the names of all resources that pgdyno creates."""

_RUN_NAMED = re.compile(rf"{PREFIX}(\d{{8}}-\d{{6}}-[0-9a-f]{{6}})-")
"""A name of a resource, with the run in it."""
_TAGGED = [{"Name": "tag-key", "Values": [RUN]}]

Answer = dict[str, Any]


def by_tag(cloud: Cloud) -> list[Resource]:
    """Return all resources in the region that have pgdyno's tag, in the order of removal. Raises AwsError."""
    found = [*_databases(cloud), *_parameters(cloud), *_hosts(cloud), *_volumes(cloud), *_groups(cloud, _TAGGED)]
    return in_order(each for each in [*found, *_placements(cloud, _TAGGED), *_schedules(cloud)] if each.run)


def by_name(cloud: Cloud, noted: Iterable[Noted], run: str) -> list[Resource]:
    """Return the existing resources that a journal notes for the region of `cloud`, with or without tags.

    Raises AwsError.
    """
    found = [each for name in noted if name.region == cloud.region for each in resources_of_name(cloud, name)]
    return in_order(replace(each, run=each.run or run) for each in found)


class Search:
    """Finds, as often as it is asked, all resources that have pgdyno's tag or that journals name.

    The first search asks for each name in the journals. Later ones ask only for the names of resources without pgdyno's
    tag: a resource gets its tag when it is created, so that the search by tag finds the newer ones.
    """

    def __init__(self, clouds: Mapping[str, Cloud], noted: Iterable[tuple[Noted, str]]) -> None:
        """Search in the regions of `clouds`; `noted` are the journals' entries with their runs."""
        self._clouds = clouds
        self._noted = [each for each in noted if each[0].region in clouds]

    def find(self) -> list[Resource]:
        """Return all resources that exist now, in the order of removal. Raises AwsError."""
        found = [each for cloud in self._clouds.values() for each in by_tag(cloud)]
        untagged: list[tuple[Noted, str]] = []
        for noted, run in self._noted:
            for each in resources_of_name(self._clouds[noted.region], noted):
                if not each.run:
                    untagged.append((noted, run))
                found.append(replace(each, run=each.run or run))
        self._noted = untagged
        return in_order(found)


def in_order(found: Iterable[Resource]) -> list[Resource]:
    """Return `found` in the order of removal, without duplicates."""
    distinct = {(each.kind, each.id): each for each in found}
    return sorted(distinct.values(), key=lambda each: (ORDER.index(each.kind), each.name))


def resources_of_name(cloud: Cloud, noted: Noted) -> list[Resource]:
    """Return the existing resources of that kind and name. Raises AwsError."""
    by_group_name = [{"Name": "group-name", "Values": [noted.name]}]
    by_token = [{"Name": "client-token", "Values": [noted.name]}]
    look = {
        Kind.DB_INSTANCE: lambda: _instances(cloud, DBInstanceIdentifier=noted.name),
        Kind.DB_CLUSTER: lambda: _clusters(cloud, DBClusterIdentifier=noted.name),
        Kind.DB_SNAPSHOT: lambda: _snapshots(cloud, DBSnapshotIdentifier=noted.name),
        Kind.CLUSTER_SNAPSHOT: lambda: _cluster_snapshots(cloud, DBClusterSnapshotIdentifier=noted.name),
        Kind.DB_PARAMETERS: lambda: _db_parameters(cloud, DBParameterGroupName=noted.name),
        Kind.CLUSTER_PARAMETERS: lambda: _cluster_parameters(cloud, DBClusterParameterGroupName=noted.name),
        Kind.SECURITY_GROUP: lambda: _groups(cloud, by_group_name),
        Kind.PLACEMENT_GROUP: lambda: _placements(cloud, by_group_name),
        Kind.INSTANCE: lambda: _hosts(cloud, by_token),
        Kind.SCHEDULE: lambda: _schedules(cloud, noted.name),
    }
    if noted.kind not in look:
        return []
    try:
        return list(look[noted.kind]())
    except NotThereError:
        return []


def _resource(cloud: Cloud, kind: Kind, name: str, tags: dict[str, str], state: str = "") -> Resource:
    expires = moment_of(tags.get(EXPIRES, ""))
    return Resource(kind, name, name, cloud.region, tags.get(RUN, ""), expires, state, tags.get(OWNER, ""))


# ---- databases ----


def _databases(cloud: Cloud) -> Iterator[Resource]:
    yield from _instances(cloud)
    yield from _clusters(cloud)
    yield from _snapshots(cloud, SnapshotType="manual")
    yield from _cluster_snapshots(cloud, SnapshotType="manual")


def _instances(cloud: Cloud, **asked: str) -> Iterator[Resource]:
    for each in cloud.each("rds", "describe_db_instances", "DBInstances", **asked):
        name, state = each["DBInstanceIdentifier"], each["DBInstanceStatus"]
        found = _resource(cloud, Kind.DB_INSTANCE, name, by_key(each.get("TagList")), state)
        found = replace(found, instance=each["DBInstanceClass"])
        # the storage of an instance in a cluster is the cluster's
        if not each.get("DBClusterIdentifier"):
            found = replace(found, size_gb=each.get("AllocatedStorage", 0), storage=each.get("StorageType", ""))
            found = replace(found, iops=each.get("Iops") or 0, throughput=each.get("StorageThroughput") or 0)
        yield found


def _clusters(cloud: Cloud, **asked: str) -> Iterator[Resource]:
    for each in cloud.each("rds", "describe_db_clusters", "DBClusters", **asked):
        name, state = each["DBClusterIdentifier"], each["Status"]
        yield _resource(cloud, Kind.DB_CLUSTER, name, by_key(each.get("TagList")), state)


def _snapshots(cloud: Cloud, **asked: str) -> Iterator[Resource]:
    for each in cloud.each("rds", "describe_db_snapshots", "DBSnapshots", **asked):
        name, tags = each["DBSnapshotIdentifier"], by_key(each.get("TagList"))
        found = _resource(cloud, Kind.DB_SNAPSHOT, name, tags, each["Status"])
        yield replace(found, size_gb=each.get("AllocatedStorage", 0))


def _cluster_snapshots(cloud: Cloud, **asked: str) -> Iterator[Resource]:
    for each in cloud.each("rds", "describe_db_cluster_snapshots", "DBClusterSnapshots", **asked):
        name, tags = each["DBClusterSnapshotIdentifier"], by_key(each.get("TagList"))
        found = _resource(cloud, Kind.CLUSTER_SNAPSHOT, name, tags, each["Status"])
        yield replace(found, size_gb=each.get("AllocatedStorage", 0))


def _parameters(cloud: Cloud) -> Iterator[Resource]:
    yield from _db_parameters(cloud)
    yield from _cluster_parameters(cloud)


def _db_parameters(cloud: Cloud, **asked: str) -> Iterator[Resource]:
    for each in cloud.each("rds", "describe_db_parameter_groups", "DBParameterGroups", **asked):
        name = each["DBParameterGroupName"]
        if name.startswith(PREFIX):
            yield _resource(cloud, Kind.DB_PARAMETERS, name, _tags_of(cloud, each["DBParameterGroupArn"]))


def _cluster_parameters(cloud: Cloud, **asked: str) -> Iterator[Resource]:
    for each in cloud.each("rds", "describe_db_cluster_parameter_groups", "DBClusterParameterGroups", **asked):
        name = each["DBClusterParameterGroupName"]
        if name.startswith(PREFIX):
            tags = _tags_of(cloud, each["DBClusterParameterGroupArn"])
            yield _resource(cloud, Kind.CLUSTER_PARAMETERS, name, tags)


def _tags_of(cloud: Cloud, arn: str) -> dict[str, str]:
    try:
        return by_key(cloud.call("rds", "list_tags_for_resource", ResourceName=arn)["TagList"])
    except NotThereError:
        # The group was removed meanwhile.
        return {}


def _schedules(cloud: Cloud, prefix: str = PREFIX) -> Iterator[Resource]:
    try:
        for each in cloud.each("scheduler", "list_schedules", "Schedules", NamePrefix=prefix):
            named_run = _RUN_NAMED.match(each["Name"])
            begins = None if named_run is None else _begin_of(cloud, each["Name"])
            if named_run is not None and begins is not None:
                yield Resource(Kind.SCHEDULE, each["Name"], each["Name"], cloud.region, named_run[1], begins)
    except AwsError as error:
        # They cost nothing and end by themselves: an identity without this permission can still remove the rest.
        if not error.is_denied:
            raise


def _begin_of(cloud: Cloud, name: str) -> datetime | None:
    try:
        found = cloud.call("scheduler", "get_schedule", Name=name).get("StartDate")
    except NotThereError:
        # It has removed itself meanwhile.
        return None
    return found.astimezone(UTC) if isinstance(found, datetime) else None


# ---- hosts ----


def _hosts(cloud: Cloud, filters: list[Answer] = _TAGGED) -> Iterator[Resource]:
    for reservation in cloud.each("ec2", "describe_instances", "Reservations", Filters=filters):
        for each in reservation["Instances"]:
            state = each["State"]["Name"]
            if state != "terminated":
                found = _host_part(cloud, Kind.INSTANCE, each["InstanceId"], each, state)
                yield replace(found, instance=each["InstanceType"])


def _volumes(cloud: Cloud) -> Iterator[Resource]:
    for each in cloud.each("ec2", "describe_volumes", "Volumes", Filters=_TAGGED):
        found = _host_part(cloud, Kind.VOLUME, each["VolumeId"], each, each["State"])
        found = replace(found, size_gb=each["Size"], storage=each.get("VolumeType", ""))
        yield replace(found, iops=each.get("Iops") or 0, throughput=each.get("Throughput") or 0)
    for each in cloud.each("ec2", "describe_snapshots", "Snapshots", OwnerIds=["self"], Filters=_TAGGED):
        found = _host_part(cloud, Kind.SNAPSHOT, each["SnapshotId"], each, each["State"])
        yield replace(found, size_gb=each["VolumeSize"])


def _groups(cloud: Cloud, filters: list[Answer]) -> Iterator[Resource]:
    for each in cloud.each("ec2", "describe_security_groups", "SecurityGroups", Filters=filters):
        tags = by_key(each.get("Tags"))
        expires = moment_of(tags.get(EXPIRES, ""))
        run, owner = tags.get(RUN, ""), tags.get(OWNER, "")
        yield Resource(Kind.SECURITY_GROUP, each["GroupId"], each["GroupName"], cloud.region, run, expires, owner=owner)


def _placements(cloud: Cloud, filters: list[Answer]) -> Iterator[Resource]:
    try:
        for each in cloud.call("ec2", "describe_placement_groups", Filters=filters)["PlacementGroups"]:
            if each["State"] != "deleted":
                named = {**each, "Tags": [*each.get("Tags", []), {"Key": "Name", "Value": each["GroupName"]}]}
                yield _host_part(cloud, Kind.PLACEMENT_GROUP, each["GroupId"], named, each["State"])
    except AwsError as error:
        # They cost nothing: an identity without this permission can still remove the rest.
        if not error.is_denied:
            raise


def _host_part(cloud: Cloud, kind: Kind, id_: str, answer: Answer, state: str) -> Resource:
    tags = by_key(answer.get("Tags"))
    expires, owner = moment_of(tags.get(EXPIRES, "")), tags.get(OWNER, "")
    return Resource(kind, id_, tags.get("Name", id_), cloud.region, tags.get(RUN, ""), expires, state, owner)


class GivenUpError(TargetError):
    """The work was stopped because other work failed or the run was interrupted."""


class Stop:
    """Tells parallel workers to stop."""

    def __init__(self) -> None:
        """Create the signal, which is not set."""
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raise GivenUpError if the signal is set."""
        if self._event.is_set():
            raise GivenUpError("given up")


def side_by_side(work: Mapping[str, Callable[[], None]], stop: Stop) -> None:
    """Run all of `work` in parallel, and return once all has ended. Raises the first failure.

    If one function fails, or an interrupt arrives, `stop` tells the others.
    """
    if len(work) == 1:
        # A single function needs no thread, and in the main thread an interrupt reaches it everywhere.
        next(iter(work.values()))()
        return
    with ThreadPoolExecutor(max_workers=max(1, len(work)), thread_name_prefix="aws") as pool:
        futures = [pool.submit(each) for each in work.values()]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(each.done() and each.exception() is None for each in futures):
                stop.set()
    raised = [error for each in futures if (error := each.exception()) is not None]
    if raised:
        # GivenUpError is the consequence of another failure, which is the one to report.
        raise next((each for each in raised if not isinstance(each, GivenUpError)), raised[0])


@dataclass(frozen=True, slots=True)
class Maker:
    """Creates the resources of one target of a run."""

    cloud: Cloud
    journal: Journal
    target: str
    place: int | str
    """The target's position in the plan, from 1, or a generator's number: Amazon limits names."""
    say: Callable[[str], None]
    warn: Note
    """Receives what does not prevent the rental, and must be known."""
    stop: Stop = field(default_factory=Stop)
    """Set when the resources are no longer needed."""
    generator_group: str | None = None
    """The security group of the run's generators, which servers let in; None without rented generators."""
    placement_group: str | None = None
    """The placement group of the run's hosts; None without one."""

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.journal.run}-{self.place}"

    @property
    def tags(self) -> list[dict[str, str]]:
        return self.journal.tags(self.target, self.name)

    def note(self, kind: Kind, name: str | None = None) -> None:
        """Note the resource that the next request creates, by `name` or by the target's; the note is on disk on
        return.

        Raises TargetError.
        """
        self.stop.check()
        name = name or self.name
        self.journal.making(kind, name, self.cloud.region, self.target)
        self.say(f"making the {kind} {name}")
