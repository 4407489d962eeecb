"""Which classes and types Amazon offers, in which zones, with which storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.databases.aurora import ENGINE as AURORA
from pgdyno.targets.aws.databases.aurora import STORAGE as AURORA_STORAGE
from pgdyno.targets.aws.databases.rds import ENGINE as POSTGRES
from pgdyno.targets.aws.databases.rds import gibibytes
from pgdyno.targets.aws.databases.service import Release
from pgdyno.targets.aws.schema import AuroraTarget, DatabaseTarget, RdsTarget

Option = Mapping[str, Any]


def zones_of_database(cloud: Cloud, spec: DatabaseTarget, release: Release) -> set[str]:
    """Returns the zones that offer all classes of `spec` with its storage. Raises AwsError if one has none, or if the
    storage is outside of the service's limits.
    """
    aurora = isinstance(spec, AuroraTarget)
    engine = AURORA if aurora else POSTGRES
    kind = AURORA_STORAGE[spec.storage_type] if isinstance(spec, AuroraTarget) else _storage_type(spec)
    found: list[set[str]] = []
    for instance in (spec.instance, *spec.instead):
        asked = {"Engine": engine, "EngineVersion": release.version, "DBInstanceClass": instance, "Vpc": True}
        listed = cloud.each("rds", "describe_orderable_db_instance_options", "OrderableDBInstanceOptions", **asked)
        options = [each for each in listed if each.get("StorageType") == kind]
        if not options:
            message = f"Amazon does not offer {instance} for {engine} {release.version} with {kind} in {cloud.region}"
            listing = f"aws rds describe-orderable-db-instance-options --engine {engine}"
            raise AwsError(
                message, code="Offer", hint=f"{listing} --engine-version {release.version} lists what it offers"
            )
        wrong = list(_beyond(spec, options[0])) if isinstance(spec, RdsTarget) else []
        if spec.insights and not options[0].get("SupportsPerformanceInsights", True):
            wrong.append(f"{instance} has no Performance Insights: set insights = false")
        if wrong:
            raise AwsError("; ".join(wrong), code="Offer", hint="change the target's keys; nothing was created")
        found.append({zone["Name"] for each in options for zone in each.get("AvailabilityZones", ())})
    return set.intersection(*found)


def _storage_type(spec: DatabaseTarget) -> str:
    return spec.storage_type if isinstance(spec, RdsTarget) else ""


def _beyond(spec: RdsTarget, option: Option) -> Iterator[str]:
    """Yields which figures of the volume are outside of the limits of an orderable option."""
    size, kind = gibibytes(spec.storage), spec.storage_type
    figures = (
        ("storage", size, "StorageSize", "GB", 1.0),
        ("iops", spec.iops, "IopsPerDbInstance", "IOPS", 1.0),
        ("iops", spec.iops, "IopsPerGib", "IOPS a GB", float(size)),
        ("throughput", spec.throughput, "StorageThroughputPerDbInstance", "MB/s", 1.0),
    )
    for key, value, name, unit, per in figures:
        if value is None:
            continue
        least, most = option.get(f"Min{name}"), option.get(f"Max{name}")
        if least is not None and value < least * per:
            yield f"{key} = {value:,} is too little: {spec.instance} with {kind} has at least {least:,g} {unit}"
        if most is not None and value > most * per:
            yield f"{key} = {value:,} is too much: {spec.instance} with {kind} has at most {most:,g} {unit}"


def zones_of_host(cloud: Cloud, instances: Sequence[str]) -> set[str]:
    """Returns the zones that offer all types. Raises AwsError."""
    filters = [{"Name": "instance-type", "Values": list(instances)}]
    listed = cloud.each(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=filters,
    )
    by_type: dict[str, set[str]] = {each: set() for each in instances}
    for each in listed:
        by_type[each["InstanceType"]].add(each["Location"])
    return set.intersection(*by_type.values())
