"""kind = "rds": a single instance of RDS for PostgreSQL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.databases.dead_man import guard
from pgdyno.targets.aws.databases.parameters import INSTANCE, make_group, values_for
from pgdyno.targets.aws.databases.schema import RdsTarget
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
    wait_for_instance,
    with_choices,
    without_none,
)
from pgdyno.targets.aws.location import USER, Place
from pgdyno.targets.aws.network import allowed_networks, group_named, security_group, vpc_of
from pgdyno.targets.aws.rental_journal import Kind
from pgdyno.units import parse_bytes

ENGINE = "postgres"
PORT = 5432


@dataclass(frozen=True, slots=True)
class Rds(Database):
    spec: RdsTarget

    def up(self) -> Place:
        """Create the server and all that it needs, and wait until it is available. Raises AwsError, TargetError."""
        cloud, spec = self.maker.cloud, self.spec
        # Errors in the plan must be reported before anything is created.
        release = self.release()
        values = values_for(cloud, INSTANCE, release.family, spec.parameters)
        vpc = vpc_of(cloud, spec.subnet_group)
        allowed = allowed_networks(spec.allow)
        guard(self.maker, spec.dead_man, (Kind.DB_INSTANCE,))
        group = security_group(self.maker, vpc, allowed, [PORT])
        parameters = make_group(self.maker, INSTANCE, release.family, values)
        return self._create_server(release, group, parameters)

    def restore(self) -> Place:
        """Create the removed server again from its snapshot, with its existing groups. Raises AwsError."""
        cloud = self.maker.cloud
        group = group_named(cloud, self.maker.name)
        return self._create_server(self.release(), group, self.maker.name if self.spec.parameters else None)

    def take_snapshot(self, name: str) -> None:
        """Take a snapshot called `name` of the server. Raises AwsError."""
        take_snapshot(self.maker, self.spec, Kind.DB_SNAPSHOT, name)

    def release(self) -> Release:
        """Return the version that the service has for the plan or the snapshot. Raises AwsError."""
        spec, cloud = self.spec, self.maker.cloud
        if spec.snapshot is None:
            return find_release(cloud, ENGINE, spec.version)
        found = self._snapshot()
        check_snapshot(found, spec, ENGINE)
        return find_release(cloud, ENGINE, found["EngineVersion"])

    def _snapshot(self) -> dict[str, Any]:
        """Return RDS's description of the snapshot from which the server is restored. Raises AwsError."""
        cloud, name = self.maker.cloud, self.spec.snapshot
        listed = cloud.each("rds", "describe_db_snapshots", "DBSnapshots", DBSnapshotIdentifier=name)
        return one(listed, f"snapshot {name} of an instance in {cloud.region}")

    def _create_server(self, release: Release, group: str, parameters: str | None) -> Place:
        def create_in(instance: str, zone: str | None) -> dict[str, Any]:
            self._request(release, group, parameters, instance, zone)
            return wait_for_instance(self.maker, self.spec, parameters)

        self.maker.note(Kind.DB_INSTANCE)
        found = with_choices(self.maker, self.spec, create_in, self.spec.zones)
        if self.spec.snapshot is not None:
            named = {"DBInstanceIdentifier": self.maker.name, **insights(self.spec)}
            self.take_over("modify_db_instance", self.spec.backup_days, **named)
            found = wait_for_instance(self.maker, self.spec, parameters)
        endpoint = found["Endpoint"]
        return place_of(found, endpoint["Address"], endpoint["Port"], found["MasterUsername"])

    def _request(self, release: Release, group: str, parameters: str | None, instance: str, zone: str | None) -> None:
        spec = self.spec
        asked: dict[str, Any] = {
            "DBInstanceIdentifier": self.maker.name,
            "DBInstanceClass": instance,
            "Engine": ENGINE,
            "VpcSecurityGroupIds": [group],
            "PubliclyAccessible": spec.public,
            "MultiAZ": False,
            "AutoMinorVersionUpgrade": False,
            "Tags": self.maker.tags,
            **without_none(
                AvailabilityZone=zone,
                DBSubnetGroupName=spec.subnet_group,
                DBParameterGroupName=parameters,
                EngineLifecycleSupport=lifecycle(spec),
                Iops=spec.iops,
                StorageThroughput=spec.throughput,
            ),
        }
        if spec.snapshot is not None:
            # Otherwise, RDS takes the size and the port of the server of the snapshot.
            size = max(gibibytes(spec.storage), int(self._snapshot().get("AllocatedStorage", 0)))
            asked |= {"DBSnapshotIdentifier": spec.snapshot, "StorageType": spec.storage_type}
            asked |= {"AllocatedStorage": size, "Port": PORT}
            self.request("restore_db_instance_from_db_snapshot", **asked)
            return
        asked |= {
            "EngineVersion": release.version,
            "AllocatedStorage": gibibytes(spec.storage),
            "StorageType": spec.storage_type,
            "StorageEncrypted": spec.encrypted,
            "BackupRetentionPeriod": spec.backup_days,
            "MasterUsername": USER,
            "MasterUserPassword": self.password,
            "Port": PORT,
            **insights(spec),
            **without_none(KmsKeyId=spec.kms_key),
        }
        self.request("create_db_instance", **asked)


def gibibytes(size: str) -> int:
    """Return the size in GiB, rounded up: the unit in which the services count storage, which they call GB."""
    return math.ceil(parse_bytes(size) / 1024**3)
