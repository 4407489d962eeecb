"""Versions and prices of the simulated services, which are a selection of the real ones."""

import json
from typing import Any

from tests.aws.shapes import RefusedError

VERSIONS = {
    "postgres": ["12.20", "16.3", "17.2", "17.4", "18.1"],
    "aurora-postgresql": ["12.9", "16.4", "17.4", "18.1"],
}
_PRICES = (
    ("Database Instance", "PostgreSQL", "db.m7g.large", "InstanceUsage:db.m7g.large", "Hrs", 0.2),
    ("Database Instance", "PostgreSQL", "db.m7g.large", "Multi-AZUsage:db.m7g.large", "Hrs", 9.9),
    ("Database Instance", "PostgreSQL", "db.m8g.large", "InstanceUsage:db.m8g.large", "Hrs", 0.3),
    ("Database Instance", "Aurora PostgreSQL", "db.r8g.large", "InstanceUsage:db.r8g.large", "Hrs", 0.3),
    ("Database Instance", "Aurora PostgreSQL", "db.r8g.large", "InstanceUsageIOOptimized:db.r8g.large", "Hrs", 0.4),
    ("ServerlessV2", "Aurora MySQL", "", "Aurora:ServerlessV2Usage", "ACU-Hr", 9.9),
    ("ServerlessV2", "Aurora PostgreSQL", "", "Aurora:ServerlessV2Usage", "ACU-Hr", 0.14),
    ("ServerlessV2", "Aurora PostgreSQL", "", "Aurora:ServerlessV2IOOptimizedUsage", "ACU-Hr", 0.18),
    ("Database Storage", "MySQL", "", "RDS:GP3-Storage", "GB-Mo", 9.9),
    ("Database Storage", "PostgreSQL", "", "RDS:GP3-Storage", "GB-Mo", 0.1),
    ("Storage Snapshot", "Any", "", "RDS:ChargedBackupUsage", "GB-Mo", 0.095),
    ("Storage Snapshot", "Aurora MySQL", "", "Aurora:BackupUsage", "GB-Mo", 9.9),
    ("Storage Snapshot", "Aurora PostgreSQL", "", "Aurora:BackupUsage", "GB-Mo", 0.021),
    ("Database Storage", "Aurora PostgreSQL", "", "Aurora:StorageUsage", "GB-Mo", 0.12),
    ("Database Storage", "Any", "", "Aurora:IO-OptimizedStorageUsage", "GB-Mo", 0.25),
    ("System Operation", "Any", "", "Aurora:StorageIOUsage", "IOs", 0.2e-6),
    ("Database Instance", "PostgreSQL", "db.t4g.micro", "InstanceUsage:db.t4g.micro", "Hrs", 0.02),
    ("Compute Instance", "", "m7g.large", "BoxUsage:m7g.large", "Hrs", 0.1),
    ("Compute Instance", "", "m7g.xlarge", "BoxUsage:m7g.xlarge", "Hrs", 0.25),
    ("Compute Instance", "", "r7g.large", "BoxUsage:r7g.large", "Hrs", 0.15),
    ("Compute Instance", "", "r7g.xlarge", "BoxUsage:r7g.xlarge", "Hrs", 0.3),
    ("Compute Instance", "", "m8g.large", "BoxUsage:m8g.large", "Hrs", 0.2),
    ("Compute Instance", "", "c7i.large", "BoxUsage:c7i.large", "Hrs", 0.2),
    ("Compute Instance", "", "t4g.micro", "BoxUsage:t4g.micro", "Hrs", 0.01),
    ("Storage", "", "", "EBS:VolumeUsage.gp3", "GB-Mo", 0.09),
    ("Storage", "", "", "EBS:VolumeUsage.io2", "GB-Mo", 0.14),
    ("System Operation", "", "", "EBS:VolumeP-IOPS.gp3", "IOPS-Mo", 0.006),
    ("System Operation", "", "", "EBS:VolumeP-IOPS.io2", "IOPS-Mo", 0.07),
    ("System Operation", "", "", "EBS:VolumeP-IOPS.io2.tier2", "IOPS-Mo", 0.05),
    ("Provisioned Throughput", "", "", "EBS:VolumeP-Throughput.gp3", "GiBps-mo", 51.2),
    ("Provisioned IOPS", "PostgreSQL", "", "RDS:GP3-PIOPS", "IOPS-Mo", 0.02),
    ("Provisioned Throughput", "PostgreSQL", "", "RDS:GP3-Throughput", "MBPS-Mo", 0.08),
    ("Metric", "", "", "CW:MetricMonitorUsage", "Metrics", 0.4),
    ("VpcIpAddress", "", "", "PublicIPv4:IdleAddress", "Hrs", 9.9),
    ("VpcIpAddress", "", "", "PublicIPv4:InUseAddress", "Hrs", 0.005),
)
"""Family, engine, instance class, usage type, unit, and an invented price in USD."""
_PLAIN = ("operatingSystem", "tenancy", "preInstalledSw", "capacitystatus")
"""Attributes that are the same for all products of this list."""


def DescribeDBEngineVersions(asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Amazon's names, here and below
    engine = asked["Engine"]
    versions = [
        {"Engine": engine, "EngineVersion": each, "DBParameterGroupFamily": f"{engine}{each.partition('.')[0]}"}
        for each in VERSIONS[engine]
    ]
    return {"DBEngineVersions": versions}


def check_version(parameters: dict[str, Any]) -> None:
    """Refuses a version that does not exist, as Amazon does; moto accepts it."""
    engine, version = parameters.get("Engine"), parameters.get("EngineVersion")
    if version is not None and version not in VERSIONS[str(engine)]:
        raise RefusedError("InvalidParameterCombination", f"Cannot find version {version} for {engine}")


def GetProducts(asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
    """Answers with lines of the price list of eu-central-1: each is a JSON text."""
    wanted = {each["Field"]: each["Value"] for each in asked["Filters"] if each["Field"] not in _PLAIN}
    found = []
    for family, engine, instance, usage, unit, amount in _PRICES:
        attributes = {"regionCode": "eu-central-1", "databaseEngine": engine, "usagetype": f"EUC1-{usage}"}
        if instance:
            attributes["instanceType"] = instance
        if usage.startswith("PublicIPv4"):
            attributes["group"] = "VPCPublicIPv4Address"
        if all({**attributes, "productFamily": family}.get(name) == value for name, value in wanted.items()):
            terms = {"OnDemand": {"A.B": {"priceDimensions": _dimensions(unit, amount)}}}
            found.append(json.dumps({"product": {"productFamily": family, "attributes": attributes}, "terms": terms}))
    return {"FormatVersion": "aws_v1", "PriceList": found}


def _dimensions(unit: str, amount: float) -> dict[str, Any]:
    """Yields the price dimensions of metrics, which have volume discounts: a line for each range, in no order."""
    tiered = {"10000": ("Inf", 0.1), "0": ("10000", 1.0)}
    ranges = tiered if unit == "Metrics" else {"0": ("Inf", 1.0)}
    return {
        f"A.B.{begin}": {
            "unit": unit,
            "beginRange": begin,
            "endRange": end,
            "pricePerUnit": {"USD": f"{share * amount:.10f}"},
        }
        for begin, (end, share) in ranges.items()
    }
