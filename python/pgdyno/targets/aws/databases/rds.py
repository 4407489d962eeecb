"""kind = "rds": a single instance of RDS for PostgreSQL."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.databases.schema import RdsTarget
from pgdyno.targets.aws.databases.service import (
    PORT,
    Database,
    Release,
    describe_resource,
    insights,
    lifecycle,
    place_of,
    wait_for_instance,
    with_choices,
    without_none,
)
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.rented.packaged_server import USER
from pgdyno.targets.rented.rental_journal import Place
from pgdyno.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Rds(Database):
    spec: RdsTarget

    engine = "postgres"
    kinds = (Kind.DB_INSTANCE,)
    snapshot_kind = Kind.DB_SNAPSHOT
    create_snapshot = "create_db_snapshot"

    def create(self, release: Release, security: str, groups: Sequence[str | None]) -> Place:
        (parameters,) = groups

        def create_in(instance: str, zone: str | None) -> dict[str, Any]:
            self._request(release, security, parameters, instance, zone)
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
            "Engine": self.engine,
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
            origin = describe_resource(self.maker.cloud, Kind.DB_SNAPSHOT, spec.snapshot)
            size = max(gibibytes(spec.storage), int(origin.get("AllocatedStorage", 0)))
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
