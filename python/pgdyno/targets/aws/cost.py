"""Costs of a plan's rented servers: an estimate before the rental, and the hourly cost of each resource."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from pgdyno.plan.costs import dataset_bytes, needed_s, trial_count
from pgdyno.plan.model import Plan
from pgdyno.targets.aws.api import Cloud
from pgdyno.targets.aws.checks import GP3_IOPS, GP3_MBS
from pgdyno.targets.aws.databases.rds import gibibytes
from pgdyno.targets.aws.prices import CLOUDWATCH, EC2, HOSTS, INSTANCES, METRIC, VPC, Prices, Usage
from pgdyno.targets.aws.rental import generator_of, rented_targets
from pgdyno.targets.aws.rental_journal import FREE, Kind, Resource
from pgdyno.targets.aws.schema import (
    AuroraTarget,
    AwsTarget,
    DatabaseTarget,
    Ec2Generator,
    Ec2Target,
    RdsTarget,
    Volume,
)
from pgdyno.targets.estimate import CURRENCY, Estimate, Item

Host = Ec2Target | Ec2Generator
_NAMES = {"gp3": "gp3", "io1": "piops", "io2": "io2"}
"""Names of volume types at the end of Amazon's usage types."""
_IO2_TIERS = ((32_000, "io2"), (64_000, "io2.tier2"), (None, "io2.tier3"))
"""The number of IOPS up to which each price tier of io2 applies; None is no limit."""


def host_items(
    name: str, spec: Host, volumes: Iterable[Volume], prices: Prices, region: str, instance: str | None = None
) -> Iterator[Item]:
    """Yields a host of target `name` with its volumes; `instance` is the type that it got, None the plan's first."""
    yield _instance(name, instance or spec.instance, prices, region)
    yield from address_item(name, prices, region, public=spec.public)
    for each in volumes:
        yield _storage(name, each.type, gibibytes(each.size), prices, region)
        yield from _iops(name, each, prices, region)
        more = max(0, (each.throughput or 0) - GP3_MBS)
        if more:
            usage = Usage(region, EC2, "Provisioned Throughput", "EBS:VolumeP-Throughput.gp3")
            yield Item(name, "gp3", more, "MB/s", prices.rate(usage))


def address_item(name: str, prices: Prices, region: str, *, public: bool) -> Iterator[Item]:
    """Yields the public address, if there is one."""
    if public:
        yield Item(name, "public address", 1, "hour", prices.rate(Usage(region, VPC, "", "PublicIPv4:InUseAddress")))


METRICS = 7
"""Metrics of a host with detailed monitoring, as Amazon counts them; per-minute metrics of volumes are free."""


def monitoring_item(name: str, prices: Prices, region: str) -> Item:
    """Returns a host's detailed monitoring; the account's ten free metrics are not deducted."""
    usage = Usage(region, CLOUDWATCH, METRIC, "CW:MetricMonitorUsage")
    return Item(name, "detailed monitoring", METRICS, "metrics", prices.rate(usage))


def part_items(each: Resource, prices: Prices) -> Iterator[Item]:
    """Yields the cost of an existing host or volume; its description does not include IOPS and throughput beyond the
    volume's size.
    """
    if each.kind is Kind.INSTANCE:
        yield _instance(each.name, each.detail, prices, each.region)
        return
    size, _, kind = each.detail.partition(" GB ")
    if kind in _NAMES:
        yield _storage(each.name, kind, int(size), prices, each.region)
    else:
        yield Item(each.name, each.words, 1, "hour", None)


def _instance(name: str, instance: str, prices: Prices, region: str) -> Item:
    return Item(name, instance, 1, "hour", prices.rate(Usage(region, EC2, HOSTS, f"BoxUsage:{instance}")))


def _storage(name: str, kind: str, size: int, prices: Prices, region: str) -> Item:
    usage = Usage(region, EC2, "Storage", f"EBS:VolumeUsage.{_NAMES[kind]}")
    return Item(name, kind, size, "GB", prices.rate(usage))


def _iops(name: str, volume: Volume, prices: Prices, region: str) -> Iterator[Item]:
    if volume.iops is None:
        return
    if volume.type == "io2":
        tiers: Iterable[tuple[int | None, str]] = _IO2_TIERS
    else:
        tiers = [(None, _NAMES[volume.type])]
    paid = GP3_IOPS if volume.type == "gp3" else 0
    for up_to, tier in tiers:
        count = (volume.iops if up_to is None else min(volume.iops, up_to)) - paid
        if count > 0:
            usage = Usage(region, EC2, "System Operation", f"EBS:VolumeP-IOPS.{tier}")
            yield Item(name, volume.type, count, "IOPS", prices.rate(usage))
            paid += count


COMING_H = 0.5
"""An upper estimate of the hours that servers take to start, to be removed, or that one takes to be restored.

Servers start at the same time.
"""
LEFT_OUT = ("traffic", "backups and snapshots")
PROVIDER = "Amazon"
IO_LEFT_OUT = "I/O of Aurora's standard storage"


def estimate(plan: Plan, prices: Prices, region: str, hours: float | None = None) -> Estimate:
    """Returns what `plan` costs at `prices`; targets without a region are in `region`.

    `hours` is the length of the rental; if None, the time that the planned trials take. Raises TargetError.
    """
    items = [item for name, spec in rented_targets(plan).items() for item in _items(plan, name, spec, prices, region)]
    if (hosts := generator_of(plan)) is not None:
        where = next(iter(rented_targets(plan).values())).region or region
        for _ in range(hosts.count):
            items += host_items("generator", hosts, [hosts.root], prices, where)
    standard = any(isinstance(each, AuroraTarget) and each.storage_type == "standard" for each in plan.target.values())
    left_out = (*LEFT_OUT, IO_LEFT_OUT) if standard else LEFT_OUT
    lasts = hours_of(plan) if hours is None else hours
    return Estimate(tuple(items), lasts, left_out, PROVIDER, prices.why_not)


def generator_estimate(plan: Plan, prices: Prices, region: str, instance: str) -> Estimate:
    """Returns what one generator host of `plan` costs; `instance` is the type that it got."""
    spec = generator_of(plan)
    assert spec is not None
    items = host_items("generator", spec, [spec.root], prices, region, instance)
    return Estimate(tuple(items), None, (), PROVIDER)


def configured_region(plan: Plan) -> str:
    """Returns the region of targets that name none, empty if all name one. Raises AwsError if boto3 has no region."""
    if all(spec.region is not None for spec in rented_targets(plan).values()):
        return ""
    return Cloud().region


def hours_of(plan: Plan) -> float | None:
    """Returns for how many hours a run of `plan` rents its servers; None if its trials have no time limit."""
    trials_s = needed_s(plan, plan.points())
    if trials_s is None:
        return None
    rented = rented_targets(plan).values()
    each = trial_count(plan, plan.points()) / len(plan.target)
    restored = [spec for spec in rented if isinstance(spec, DatabaseTarget) and spec.restore == "each-trial"]
    return trials_s / 3600 + COMING_H * (2 + 2 * (each - 1) * len(restored))


def _items(plan: Plan, name: str, spec: AwsTarget, prices: Prices, configured: str) -> Iterator[Item]:
    region = spec.region or configured
    if isinstance(spec, Ec2Target):
        volumes = [each for each in (spec.root, spec.data, spec.wal) if each is not None]
        yield from host_items(name, spec, volumes, prices, region)
        # Generators have no detailed monitoring: see instances.Order.by_minute.
        yield monitoring_item(name, prices, region)
    elif isinstance(spec, RdsTarget):
        engine = "PostgreSQL"
        usage = Usage(region, engine, INSTANCES, f"InstanceUsage:{spec.instance}")
        yield Item(name, spec.instance, 1, "hour", prices.rate(usage))
        yield from address_item(name, prices, region, public=spec.public)
        yield from _volume(name, spec, prices, region, engine)
    elif isinstance(spec, AuroraTarget):
        engine, optimized = "Aurora PostgreSQL", spec.storage_type == "io-optimized"
        kind = "InstanceUsageIOOptimized" if optimized else "InstanceUsage"
        usage = Usage(region, engine, INSTANCES, f"{kind}:{spec.instance}")
        yield Item(name, spec.instance, 1, "hour", prices.rate(usage))
        yield from address_item(name, prices, region, public=spec.public)
        kind = "Aurora:IO-OptimizedStorageUsage" if optimized else "Aurora:StorageUsage"
        usage = Usage(region, engine, _STORAGE, kind)
        size = max(dataset_bytes(plan, point.scale or plan.workload.size) for point in plan.points())
        yield Item(name, f"{spec.storage_type} storage", math.ceil(size / 1024**3), "GB", prices.rate(usage))


_STORAGE = "Database Storage"
_VOLUMES = {"gp2": "RDS:GP2-Storage", "gp3": "RDS:GP3-Storage", "io1": "RDS:PIOPS-Storage", "io2": "RDS:IO2-Storage"}
_IOPS = {"gp3": "RDS:GP3-PIOPS", "io1": "RDS:PIOPS", "io2": "RDS:IO2-PIOPS"}
_FREE_IOPS, _FREE_MBS = 12_000, 500
"""IOPS and MB/s that the price of four striped gp3 volumes includes."""


def _volume(name: str, spec: RdsTarget, prices: Prices, region: str, engine: str) -> Iterator[Item]:
    kind, size = spec.storage_type, gibibytes(spec.storage)
    usage = Usage(region, engine, _STORAGE, _VOLUMES[kind])
    yield Item(name, kind, size, "GB", prices.rate(usage))
    free = (_FREE_IOPS, _FREE_MBS) if kind == "gp3" else (0, 0)
    more = max(0, (spec.iops or 0) - free[0])
    if more:
        usage = Usage(region, engine, "Provisioned IOPS", _IOPS[kind])
        yield Item(name, kind, more, "IOPS", prices.rate(usage))
    more = max(0, (spec.throughput or 0) - free[1])
    if more:
        usage = Usage(region, engine, "Provisioned Throughput", "RDS:GP3-Throughput")
        yield Item(name, kind, more, "MB/s", prices.rate(usage))


def hourly_lines(there: Sequence[Resource], prices: Prices) -> list[str]:
    """Returns lines with the hourly cost of existing resources; none if they cost nothing. Raises TargetError."""
    found = [item for each in there for item in _paid(each, prices)]
    if not found:
        return []
    known = math.fsum(each.hourly or 0.0 for each in found)
    unknown = [each.what for each in found if each.hourly is None]
    least = f"at least {known:.4f} {CURRENCY} an hour, without {', '.join(unknown)}, whose price is unknown"
    counted = least if unknown else f"{known:.4f} {CURRENCY} an hour"
    # Descriptions of resources do not say whether they have public addresses and detailed monitoring.
    return [f"this costs {counted}; public addresses and detailed monitoring are not counted"]


def _paid(each: Resource, prices: Prices) -> Iterator[Item]:
    """Yields what Amazon charges for: an instance's class, and its storage unless that belongs to a cluster.

    Groups are free.
    """
    if each.kind is Kind.DB_INSTANCE:
        instance, _, storage = each.detail.partition(", ")
        engine = "PostgreSQL" if storage else "Aurora PostgreSQL"
        usage = Usage(each.region, engine, INSTANCES, f"InstanceUsage:{instance}")
        yield Item(each.name, instance, 1, "hour", prices.rate(usage))
        size, _, kind = storage.partition(" GB ")
        if kind in _VOLUMES:
            usage = Usage(each.region, engine, _STORAGE, _VOLUMES[kind])
            yield Item(each.name, kind, int(size), "GB", prices.rate(usage))
    elif each.kind in (Kind.INSTANCE, Kind.VOLUME):
        yield from part_items(each, prices)
    elif each.kind is not Kind.DB_CLUSTER and each.kind not in FREE:
        yield Item(each.name, each.words, 1, "hour", None)
