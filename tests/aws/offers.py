"""What the simulated account may rent: classes and types by zone, limits of their storage, and the account's quotas.

Sources: "Supported DB engines for DB instance classes" and "Amazon RDS DB instance storage" (RDS user guide),
DescribeOrderableDBInstanceOptions and DescribeAccountAttributes in botocore's model and the CLI's examples, the quota
codes and defaults of "Amazon EC2 endpoints and quotas" and "Amazon EBS endpoints and quotas". EC2's types have their
figures from moto, which has them from DescribeInstanceTypes.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.aws.catalogue import VERSIONS
from tests.aws.shapes import RefusedError

ENGINES = {
    "postgres": ("db.m7g.large", "db.m8g.large", "db.m7g.xlarge", "db.t4g.micro", "db.r5.2xlarge"),
    "aurora-postgresql": (
        "db.serverless", "db.r8g.large", "db.r5.2xlarge", "db.r5.4xlarge", "db.r6g.4xlarge", "db.t4g.medium",
    ),
}  # fmt: skip


def _storage(least_gb: int, **limits: tuple[float, float]) -> dict[str, float]:
    named = {"StorageSize": (least_gb, 65536), **limits}
    return {f"{end}{name}": limit for name, of in named.items() for end, limit in zip(("Min", "Max"), of, strict=True)}


_IOPS = {"IopsPerDbInstance": (1000, 256000)}
STORAGE: dict[str, dict[str, dict[str, float]]] = {
    "postgres": {
        "gp2": _storage(20),
        "gp3": _storage(20, IopsPerDbInstance=(3000, 64000), StorageThroughputPerDbInstance=(125, 4000)),
        "io1": _storage(100, **_IOPS, IopsPerGib=(0.5, 50.0)),
        "io2": _storage(100, **_IOPS, IopsPerGib=(0.5, 1000.0)),
    },
    "aurora-postgresql": {"aurora": {}, "aurora-iopt1": {}},
}
STANDARD, STANDARD_SPOT, IO1, IO2 = "L-1216C47A", "L-34B43A08", "L-B3A130E6", "L-8D977E7E"
"""Codes of the quotas of vCPU of types A, C, D, H, I, M, R, T and Z, On-Demand and Spot, and of IOPS of io1 and io2."""
Answer = dict[str, Any]


@dataclass
class Offers:
    """What can be rented, which tests change."""

    region: str
    quotas: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys((STANDARD, STANDARD_SPOT), 256.0) | dict.fromkeys((IO1, IO2), 100_000.0)
    )
    databases: int = 40
    """The most database instances."""
    missing: set[tuple[str, str]] = field(default_factory=set)
    """Classes and types that a zone does not have."""

    @property
    def zones(self) -> list[str]:
        return [f"{self.region}{each}" for each in "abc"]

    def zones_of(self, name: str) -> list[str]:
        return [each for each in self.zones if (name, each) not in self.missing]

    # ---- databases ----

    def DescribeOrderableDBInstanceOptions(self, asked: Answer) -> Answer:  # noqa: N802 - Amazon's names, here and below
        engine, version, name = asked["Engine"], asked.get("EngineVersion"), asked.get("DBInstanceClass")
        options = [
            {
                "Engine": engine,
                "EngineVersion": each,
                "DBInstanceClass": offered,
                "AvailabilityZones": [{"Name": zone} for zone in self.zones_of(offered)],
                "SupportsPerformanceInsights": True,
                "StorageType": storage,
                **limits,
            }
            for each in VERSIONS[engine]
            if version in (None, each)
            for offered in ENGINES[engine]
            if name in (None, offered) and self.zones_of(offered)
            for storage, limits in STORAGE[engine].items()
        ]
        return {"OrderableDBInstanceOptions": options}

    def account(self, rented: int, storage_gb: int) -> Answer:
        listed = (("DBInstances", rented, self.databases), ("AllocatedStorage", storage_gb, 100_000))
        return {"AccountQuotas": [{"AccountQuotaName": name, "Used": used, "Max": most} for name, used, most in listed]}

    # ---- hosts ----

    def GetServiceQuota(self, asked: Answer) -> Answer:  # noqa: N802
        code = asked["QuotaCode"]
        if code not in self.quotas:
            raise RefusedError("NoSuchResourceException", f"no quota {code}")
        return {"Quota": {"ServiceCode": asked["ServiceCode"], "QuotaCode": code, "Value": self.quotas[code]}}

    def DescribeInstanceTypeOfferings(self, asked: Answer) -> Answer:  # noqa: N802
        assert asked["LocationType"] == "availability-zone"
        (wanted,) = (each["Values"] for each in asked["Filters"] if each["Name"] == "instance-type")
        found = [{"InstanceType": name, "Location": zone} for name in wanted for zone in self.zones_of(name)]
        return {"InstanceTypeOfferings": [{**each, "LocationType": "availability-zone"} for each in found]}
