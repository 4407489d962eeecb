"""kind = "aurora": an Aurora PostgreSQL cluster and its writer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.databases.parameters import CLUSTER, INSTANCE, Level
from pgdyno.targets.aws.databases.schema import AuroraTarget, Capacity
from pgdyno.targets.aws.databases.service import (
    PORT,
    Database,
    Release,
    describe_resource,
    find_release,
    insights,
    lifecycle,
    place_of,
    wait_for,
    wait_for_instance,
    with_choices,
    without_none,
)
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.rented.packaged_server import USER
from pgdyno.targets.rented.rental_journal import Place

STORAGE = {"standard": "aurora", "io-optimized": "aurora-iopt1"}
"""Amazon's names of the plan's storage types."""


@dataclass(frozen=True, slots=True)
class Aurora(Database):
    spec: AuroraTarget

    engine = "aurora-postgresql"
    kinds = (Kind.DB_INSTANCE, Kind.DB_CLUSTER)
    snapshot_kind = Kind.CLUSTER_SNAPSHOT
    create_snapshot = "create_db_cluster_snapshot"

    @property
    def parameters(self) -> list[tuple[Level, Mapping[str, str]]]:
        return [(INSTANCE, self.spec.parameters), (CLUSTER, self.spec.cluster_parameters)]

    def release(self) -> Release:
        if self.spec.clone_of is None:
            return Database.release(self)
        origin = describe_resource(self.maker.cloud, Kind.DB_CLUSTER, self.spec.clone_of)
        return find_release(self.maker.cloud, self.engine, origin["EngineVersion"])

    def create(self, release: Release, security: str, groups: Sequence[str | None]) -> Place:
        maker = self.maker
        of_instance, of_cluster = groups
        maker.note(Kind.DB_CLUSTER)
        self._request_cluster(release, security, of_cluster)
        self._wait()
        maker.note(Kind.DB_INSTANCE)
        with_choices(
            maker, self.spec, lambda name, zone: self._request_instance(of_instance, name, zone), self.spec.zones
        )
        writer = wait_for_instance(maker, self.spec, of_instance)
        if self.spec.origin is not None:
            self.take_over("modify_db_cluster", self.spec.backup_days, DBClusterIdentifier=maker.name)
        cluster = self._wait()
        return place_of(writer, cluster["Endpoint"], cluster["Port"], cluster["MasterUsername"])

    def _request_cluster(self, release: Release, security: str, parameters: str | None) -> None:
        spec = self.spec
        asked: dict[str, Any] = {
            "DBClusterIdentifier": self.maker.name,
            "VpcSecurityGroupIds": [security],
            "StorageType": STORAGE[spec.storage_type],
            "Port": PORT,
            "Tags": self.maker.tags,
            "EngineLifecycleSupport": lifecycle(spec),
            **without_none(
                ServerlessV2ScalingConfiguration=_scaling(spec.capacity),
                DBSubnetGroupName=spec.subnet_group,
                DBClusterParameterGroupName=parameters,
                KmsKeyId=spec.kms_key,
            ),
        }
        if spec.clone_of is not None:
            origin = {"SourceDBClusterIdentifier": spec.clone_of, "RestoreType": "copy-on-write"}
            self.request("restore_db_cluster_to_point_in_time", **asked, **origin, UseLatestRestorableTime=True)
            return
        asked |= {"Engine": self.engine, "EngineVersion": release.version}
        if spec.snapshot is not None:
            self.request("restore_db_cluster_from_snapshot", **asked, SnapshotIdentifier=spec.snapshot)
            return
        first = {"MasterUsername": USER, "MasterUserPassword": self.password}
        more = {"StorageEncrypted": spec.encrypted, "BackupRetentionPeriod": spec.backup_days}
        self.request("create_db_cluster", **asked, **first, **more)

    def _request_instance(self, parameters: str | None, instance: str, zone: str | None) -> None:
        self.request(
            "create_db_instance",
            DBInstanceIdentifier=self.maker.name,
            DBClusterIdentifier=self.maker.name,
            DBInstanceClass=instance,
            Engine=self.engine,
            PubliclyAccessible=self.spec.public,
            AutoMinorVersionUpgrade=False,
            Tags=self.maker.tags,
            **insights(self.spec),
            **without_none(AvailabilityZone=zone, DBParameterGroupName=parameters),
        )

    def _wait(self) -> dict[str, Any]:
        """Return the cluster once it is available. Raises AwsError."""

        def look() -> tuple[str, dict[str, Any]]:
            found = describe_resource(self.maker.cloud, Kind.DB_CLUSTER, self.maker.name)
            waits = found["Status"] == "available" and bool(found.get("PendingModifiedValues"))
            return "modifying" if waits else found["Status"], found

        return wait_for(self.maker, self.spec, look, f"the database cluster {self.maker.name}")


def _scaling(capacity: Capacity | None) -> dict[str, float] | None:
    return None if capacity is None else {"MinCapacity": capacity.min, "MaxCapacity": capacity.max}
