"""kind = "aurora": an Aurora PostgreSQL cluster and its writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.databases.dead_man import guard
from pgdyno.targets.aws.databases.parameters import CLUSTER, INSTANCE, make_group, values_for
from pgdyno.targets.aws.databases.schema import AuroraTarget, Capacity
from pgdyno.targets.aws.databases.service import (
    Database,
    Release,
    check_snapshot,
    find_release,
    insights,
    lifecycle,
    one,
    place_of,
    take_snapshot,
    wait_for,
    wait_for_instance,
    with_choices,
    without_none,
)
from pgdyno.targets.aws.location import USER, Place
from pgdyno.targets.aws.network import allowed_networks, group_named, security_group, vpc_of
from pgdyno.targets.aws.rental_journal import Kind

ENGINE = "aurora-postgresql"
PORT = 5432
STORAGE = {"standard": "aurora", "io-optimized": "aurora-iopt1"}
"""Amazon's names of the plan's storage types."""


@dataclass(frozen=True, slots=True)
class _Groups:
    security: str
    instance: str | None
    cluster: str | None


@dataclass(frozen=True, slots=True)
class Aurora(Database):
    spec: AuroraTarget

    def up(self) -> Place:
        """Create the server and all that it needs, and wait until it is available. Raises AwsError, TargetError."""
        cloud, spec = self.maker.cloud, self.spec
        # Errors in the plan must be reported before anything is created.
        release = self.release()
        of_instance = values_for(cloud, INSTANCE, release.family, spec.parameters)
        of_cluster = values_for(cloud, CLUSTER, release.family, spec.cluster_parameters)
        vpc = vpc_of(cloud, spec.subnet_group)
        allowed = allowed_networks(spec.allow)
        guard(self.maker, spec.dead_man, (Kind.DB_INSTANCE, Kind.DB_CLUSTER))
        groups = _Groups(
            security_group(self.maker, vpc, allowed, [PORT]),
            make_group(self.maker, INSTANCE, release.family, of_instance),
            make_group(self.maker, CLUSTER, release.family, of_cluster),
        )
        return self._create_server(release, groups)

    def restore(self) -> Place:
        """Create the removed server again from its snapshot or the origin of its clone, with its existing groups.

        Raises AwsError.
        """
        name, spec = self.maker.name, self.spec
        security = group_named(self.maker.cloud, name)
        groups = _Groups(security, name if spec.parameters else None, name if spec.cluster_parameters else None)
        return self._create_server(self.release(), groups)

    def take_snapshot(self, name: str) -> None:
        """Take a snapshot called `name` of the cluster. Raises AwsError."""
        take_snapshot(self.maker, self.spec, Kind.CLUSTER_SNAPSHOT, name)

    def release(self) -> Release:
        """Return the version that the service has for the plan or the snapshot. Raises AwsError."""
        cloud, spec = self.maker.cloud, self.spec
        if spec.snapshot is not None:
            asked = {"DBClusterSnapshotIdentifier": spec.snapshot}
            listed = cloud.each("rds", "describe_db_cluster_snapshots", "DBClusterSnapshots", **asked)
            found = one(listed, f"snapshot {spec.snapshot} of a cluster in {cloud.region}")
            check_snapshot(found, spec, ENGINE)
            return find_release(cloud, ENGINE, found["EngineVersion"])
        if spec.clone_of is not None:
            return find_release(cloud, ENGINE, cluster_of(cloud, spec.clone_of)["EngineVersion"])
        return find_release(cloud, ENGINE, spec.version)

    def _create_server(self, release: Release, groups: _Groups) -> Place:
        maker = self.maker
        maker.note(Kind.DB_CLUSTER)
        self._request_cluster(release, groups)
        self._wait()
        maker.note(Kind.DB_INSTANCE)
        with_choices(
            maker, self.spec, lambda instance, zone: self._request_instance(groups, instance, zone), self.spec.zones
        )
        writer = wait_for_instance(maker, self.spec, groups.instance)
        if self._is_copy:
            self.take_over("modify_db_cluster", self.spec.backup_days, DBClusterIdentifier=maker.name)
        cluster = self._wait()
        return place_of(writer, cluster["Endpoint"], cluster["Port"], cluster["MasterUsername"])

    @property
    def _is_copy(self) -> bool:
        return self.spec.snapshot is not None or self.spec.clone_of is not None

    def _request_cluster(self, release: Release, groups: _Groups) -> None:
        spec = self.spec
        asked: dict[str, Any] = {
            "DBClusterIdentifier": self.maker.name,
            "VpcSecurityGroupIds": [groups.security],
            "StorageType": STORAGE[spec.storage_type],
            "Port": PORT,
            "Tags": self.maker.tags,
            "EngineLifecycleSupport": lifecycle(spec),
            **without_none(
                ServerlessV2ScalingConfiguration=_scaling(spec.capacity),
                DBSubnetGroupName=spec.subnet_group,
                DBClusterParameterGroupName=groups.cluster,
                KmsKeyId=spec.kms_key,
            ),
        }
        if spec.clone_of is not None:
            origin = {"SourceDBClusterIdentifier": spec.clone_of, "RestoreType": "copy-on-write"}
            self.request("restore_db_cluster_to_point_in_time", **asked, **origin, UseLatestRestorableTime=True)
            return
        asked |= {"Engine": ENGINE, "EngineVersion": release.version}
        if spec.snapshot is not None:
            self.request("restore_db_cluster_from_snapshot", **asked, SnapshotIdentifier=spec.snapshot)
            return
        first = {"MasterUsername": USER, "MasterUserPassword": self.password}
        more = {"StorageEncrypted": spec.encrypted, "BackupRetentionPeriod": spec.backup_days}
        self.request("create_db_cluster", **asked, **first, **more)

    def _request_instance(self, groups: _Groups, instance: str, zone: str | None) -> None:
        self.request(
            "create_db_instance",
            DBInstanceIdentifier=self.maker.name,
            DBClusterIdentifier=self.maker.name,
            DBInstanceClass=instance,
            Engine=ENGINE,
            PubliclyAccessible=self.spec.public,
            AutoMinorVersionUpgrade=False,
            Tags=self.maker.tags,
            **insights(self.spec),
            **without_none(AvailabilityZone=zone, DBParameterGroupName=groups.instance),
        )

    def _wait(self) -> dict[str, Any]:
        """Return the cluster once it is available. Raises AwsError."""

        def look() -> tuple[str, dict[str, Any]]:
            found = cluster_of(self.maker.cloud, self.maker.name)
            waits = found["Status"] == "available" and bool(found.get("PendingModifiedValues"))
            return "modifying" if waits else found["Status"], found

        return wait_for(self.maker, self.spec, look, f"the database cluster {self.maker.name}")


def _scaling(capacity: Capacity | None) -> dict[str, float] | None:
    return None if capacity is None else {"MinCapacity": capacity.min, "MaxCapacity": capacity.max}


def cluster_of(cloud: Cloud, name: str) -> dict[str, Any]:
    """Return RDS's description of the cluster. Raises NotThereError, AwsError."""
    found = cloud.each("rds", "describe_db_clusters", "DBClusters", DBClusterIdentifier=name)
    return one(found, f"database cluster {name} in {cloud.region}")
