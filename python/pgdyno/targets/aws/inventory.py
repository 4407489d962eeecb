"""Amazon's kinds of resources: how each is described, found by its tags or its name, and removed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, DeniedError, NotThereError
from pgdyno.targets.rented.rental import Resource
from pgdyno.targets.rented.rental_journal import Journal, NotedResource, moment_of, stamp

PREFIX = "pgdyno-"
"""Prefix of the names of all resources that pgdyno creates."""
RUN = "pgdyno:run"
EXPIRES = "pgdyno:expires"
TARGET = "pgdyno:target"
OWNER = "pgdyno:owner"


class Kind(StrEnum):
    """Kinds of resources in the order of removal."""

    DB_INSTANCE = "database instance"
    DB_CLUSTER = "database cluster"
    INSTANCE = "instance"
    DB_SNAPSHOT = "database snapshot"
    CLUSTER_SNAPSHOT = "cluster snapshot"
    SNAPSHOT = "snapshot"
    VOLUME = "volume"
    DB_PARAMETERS = "parameter group"
    CLUSTER_PARAMETERS = "cluster parameter group"
    SECURITY_GROUP = "security group"
    PLACEMENT_GROUP = "placement group"
    SCHEDULE = "schedule"
    """The dead-man switch of a database, which goes after it."""


@dataclass(frozen=True, slots=True)
class Api:
    """Amazon's names for one kind of resource."""

    wave: int
    """The place in the order of removal: resources of a wave may be used by those of earlier waves."""
    service: str
    describe: str
    listed: str
    """The list in the description, as a JMESPath expression."""
    key: str
    """The key of the identifier."""
    remove: str
    named: str = ""
    """The filter of EC2 that selects by the name in the journal; RDS selects by `key`."""
    size: str = ""
    """The key of the size in GB; empty without storage of its own."""
    storage: str = ""
    """The key of the type of storage."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the request for all of them."""


APIS: Mapping[str, Api] = {
    Kind.DB_INSTANCE: Api(
        0, "rds", "describe_db_instances", "DBInstances", "DBInstanceIdentifier", "delete_db_instance",
        size="AllocatedStorage", storage="StorageType",
    ),
    Kind.DB_CLUSTER: Api(1, "rds", "describe_db_clusters", "DBClusters", "DBClusterIdentifier", "delete_db_cluster"),
    Kind.INSTANCE: Api(
        0, "ec2", "describe_instances", "Reservations[].Instances[]", "InstanceId", "terminate_instances",
        named="client-token",
    ),
    Kind.DB_SNAPSHOT: Api(
        2, "rds", "describe_db_snapshots", "DBSnapshots", "DBSnapshotIdentifier", "delete_db_snapshot",
        size="AllocatedStorage", asked={"SnapshotType": "manual"},
    ),
    Kind.CLUSTER_SNAPSHOT: Api(
        2, "rds", "describe_db_cluster_snapshots", "DBClusterSnapshots", "DBClusterSnapshotIdentifier",
        "delete_db_cluster_snapshot", size="AllocatedStorage", asked={"SnapshotType": "manual"},
    ),
    Kind.SNAPSHOT: Api(
        2, "ec2", "describe_snapshots", "Snapshots", "SnapshotId", "delete_snapshot",
        size="VolumeSize", asked={"OwnerIds": ["self"]},
    ),
    Kind.VOLUME: Api(
        3, "ec2", "describe_volumes", "Volumes", "VolumeId", "delete_volume", size="Size", storage="VolumeType"
    ),
    Kind.DB_PARAMETERS: Api(
        4, "rds", "describe_db_parameter_groups", "DBParameterGroups", "DBParameterGroupName",
        "delete_db_parameter_group",
    ),
    Kind.CLUSTER_PARAMETERS: Api(
        4, "rds", "describe_db_cluster_parameter_groups", "DBClusterParameterGroups", "DBClusterParameterGroupName",
        "delete_db_cluster_parameter_group",
    ),
    Kind.SECURITY_GROUP: Api(
        4, "ec2", "describe_security_groups", "SecurityGroups", "GroupId", "delete_security_group", named="group-name"
    ),
    Kind.PLACEMENT_GROUP: Api(
        4, "ec2", "describe_placement_groups", "PlacementGroups", "GroupId", "delete_placement_group",
        named="group-name",
    ),
    Kind.SCHEDULE: Api(4, "scheduler", "list_schedules", "Schedules", "Name", "delete_schedule"),
}  # fmt: skip
LAST_WAVE = 4
"""The wave of what costs nothing."""
PARAMETERS = (Kind.DB_PARAMETERS, Kind.CLUSTER_PARAMETERS)
_OPTIONAL = (Kind.PLACEMENT_GROUP, Kind.SCHEDULE)
"""They cost nothing: an identity that may not look at them can still remove the rest."""
_GONE = ("deleted", "terminated")
_RUN_NAMED = re.compile(rf"{PREFIX}(\d{{8}}-\d{{6}}-[0-9a-f]{{6}})-")
"""A name of a resource, with the run in it."""


def is_free(kind: str) -> bool:
    return APIS[kind].wave == LAST_WAVE


def tags_of(journal: Journal, target: str, name: str) -> list[dict[str, str]]:
    """Return the tags of a resource of `target` in the form that RDS and EC2 accept."""
    ours = {RUN: journal.run, EXPIRES: stamp(journal.expires), TARGET: target, "Name": name}
    values = {**journal.more_tags, **ours, **({OWNER: journal.owner} if journal.owner else {})}
    return [{"Key": key, "Value": value} for key, value in values.items()]


def by_key(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return the values of a list of tags, by key."""
    return {each["Key"]: each.get("Value", "") for each in listed or ()}


def describe(cloud: Cloud, kind: str, name: str | None = None) -> Iterator[Resource]:
    """Yield the existing resources of `kind` with the journal's `name`; None: with pgdyno's tag. Raises AwsError."""
    api = APIS[kind]
    asked = dict(api.asked)
    if kind == Kind.SCHEDULE:
        asked = {"NamePrefix": name or PREFIX}
    elif api.service == "ec2":
        wanted = {"Name": "tag-key", "Values": [RUN]} if name is None else {"Name": api.named, "Values": [name]}
        asked["Filters"] = [wanted]
    elif name is not None:
        asked = {api.key: name}
    try:
        for each in cloud.list_elements(api.service, api.describe, api.listed, **asked):
            found = _schedule(cloud, each["Name"]) if kind == Kind.SCHEDULE else _resource(cloud, Kind(kind), api, each)
            if found is not None and found.state not in _GONE and (found.run or name is not None):
                yield found
    except NotThereError:
        return
    except AwsError as error:
        if not (isinstance(error, DeniedError) and kind in _OPTIONAL):
            raise


def _resource(cloud: Cloud, kind: Kind, api: Api, each: Mapping[str, Any]) -> Resource | None:
    id_ = each[api.key]
    arn = each.get(f"{api.key.removesuffix('Identifier').removesuffix('Name')}Arn", "")
    if kind in PARAMETERS:
        if not id_.startswith(PREFIX):
            return None
        tags = _tags_of_arn(cloud, arn)
    else:
        tags = by_key(each.get("TagList") or each.get("Tags"))
    state = each.get("DBInstanceStatus") or each.get("Status") or each.get("State", "")
    found = Resource(
        kind,
        id_,
        id_ if api.service == "rds" else each.get("GroupName") or tags.get("Name", id_),
        cloud.region,
        tags.get(RUN, ""),
        moment_of(tags.get(EXPIRES, "")),
        state["Name"] if isinstance(state, dict) else state,
        tags.get(OWNER, ""),
        each.get("DBInstanceClass") or each.get("InstanceType", ""),
        arn=arn,
    )
    # the storage of an instance in a cluster is the cluster's
    if not api.size or (kind is Kind.DB_INSTANCE and each.get("DBClusterIdentifier")):
        return found
    throughput = each.get("StorageThroughput") or each.get("Throughput") or 0
    storage = each.get(api.storage, "")
    return replace(
        found, size_gb=each.get(api.size, 0), storage=storage, iops=each.get("Iops") or 0, throughput=throughput
    )


def _tags_of_arn(cloud: Cloud, arn: str) -> dict[str, str]:
    try:
        return by_key(cloud.call("rds", "list_tags_for_resource", ResourceName=arn)["TagList"])
    except NotThereError:
        # The group was removed meanwhile.
        return {}


def _schedule(cloud: Cloud, name: str) -> Resource | None:
    """Return a schedule, which has no tags: its name contains the run."""
    named_run = _RUN_NAMED.match(name)
    if named_run is None:
        return None
    try:
        begins = cloud.call("scheduler", "get_schedule", Name=name).get("StartDate")
    except NotThereError:
        # It has removed itself meanwhile.
        return None
    return begins and Resource(Kind.SCHEDULE, name, name, cloud.region, named_run[1], begins.astimezone(UTC))


def by_name(cloud: Cloud, noted: Iterable[NotedResource], run: str) -> list[Resource]:
    """Return the existing resources that a journal of `run` notes for the region of `cloud`, with or without tags, in
    the order of removal. Raises AwsError.
    """
    here = [each for each in noted if each.region == cloud.region]
    found = [each for name in here for each in describe(cloud, name.kind, name.name)]
    return in_order(replace(each, run=each.run or run) for each in found)


class Search:
    """Finds, as often as it is asked, all resources that have pgdyno's tag or that journals name.

    The first search asks for each name in the journals. Later ones ask only for the names of resources without pgdyno's
    tag: a resource gets its tag when it is created, so that the search by tag finds the newer ones.
    """

    def __init__(self, clouds: Mapping[str, Cloud], journals: Iterable[Journal]) -> None:
        """Search in the regions of `clouds`."""
        self._clouds = clouds
        self._noted = [(each, journal.run) for journal in journals for each in journal.noted if each.region in clouds]

    def find(self) -> list[Resource]:
        """Return all resources that exist now, in the order of removal. Raises AwsError."""
        found = [each for cloud in self._clouds.values() for kind in Kind for each in describe(cloud, kind)]
        untagged: list[tuple[NotedResource, str]] = []
        for noted, run in self._noted:
            for each in describe(self._clouds[noted.region], noted.kind, noted.name):
                if not each.run:
                    untagged.append((noted, run))
                found.append(replace(each, run=each.run or run))
        self._noted = untagged
        return in_order(found)


def in_order(found: Iterable[Resource]) -> list[Resource]:
    """Return `found` in the order of removal, without duplicates."""
    distinct = {(each.kind, each.id): each for each in found}
    order = list(Kind)
    return sorted(distinct.values(), key=lambda each: (order.index(Kind(each.kind)), each.name))


def remove(cloud: Cloud, resource: Resource) -> None:
    """Request the removal of `resource`. Raises AwsError."""
    api = APIS[resource.kind]
    match resource.kind:
        case Kind.INSTANCE:
            asked: dict[str, Any] = {"InstanceIds": [resource.id]}
        case Kind.PLACEMENT_GROUP:
            asked = {"GroupName": resource.name}
        case Kind.DB_INSTANCE | Kind.DB_CLUSTER:
            # Only here does pgdyno discard data without a final snapshot: it created the database for the run, and the
            # plan can load it again.
            asked = {api.key: resource.id, "SkipFinalSnapshot": True}
        case _:
            asked = {api.key: resource.id}
    cloud.call(api.service, api.remove, **asked)


def change_expiry(cloud: Cloud, resource: Resource, expires: datetime) -> None:
    """Write another expiry into the tags of `resource`, which is no schedule. Raises AwsError."""
    tags = [{"Key": EXPIRES, "Value": stamp(expires)}]
    if APIS[resource.kind].service == "rds":
        cloud.call("rds", "add_tags_to_resource", ResourceName=resource.arn, Tags=tags)
    else:
        # An instance reads its expiry from its own tag.
        cloud.call("ec2", "create_tags", Resources=[resource.id], Tags=tags)
