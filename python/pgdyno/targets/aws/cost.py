"""What the rented servers of a plan cost: before they are rented, and an hour of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pgdyno.plan.costs import dataset_bytes, needed_s, trial_count
from pgdyno.plan.model import Plan
from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.cost_ec2 import address_item, host_items, monitoring_item, part_items
from pgdyno.targets.aws.kinds import FREE, Kind, Resource
from pgdyno.targets.aws.life import generator_of, rented_targets
from pgdyno.targets.aws.prices import INSTANCES, Prices, Usage
from pgdyno.targets.aws.rds import gibibytes
from pgdyno.targets.aws.schema import AuroraTarget, AwsTarget, DatabaseTarget, Ec2Target, RdsTarget
from pgdyno.targets.estimate import CURRENCY, Estimate, Item

COMING_H = 0.5
"""What servers take to come, to go, or one to be restored; more often less. They come side by side."""
LEFT_OUT = ("traffic", "backups and snapshots")
PROVIDER = "Amazon"
IO_LEFT_OUT = "I/O of Aurora's standard storage"


def estimate(plan: Plan, prices: Prices, region: str, hours: float | None = None) -> Estimate:
    """What `plan` costs at `prices`; targets without a region are in `region`.

    `hours` are those for which it is rented; None: as long as the planned trials take. Raises TargetError.
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
    """What one of the hosts costs that the load of `plan` comes from; `instance` is the type that it has."""
    spec = generator_of(plan)
    assert spec is not None
    items = host_items("generator", spec, [spec.root], prices, region, instance)
    return Estimate(tuple(items), None, (), PROVIDER)


def configured_region(plan: Plan) -> str:
    """That of targets which name none. Raises AwsError when nothing says it."""
    if all(spec.region is not None for spec in rented_targets(plan).values()):
        return ""
    return Cloud().region


def hours_of(plan: Plan) -> float | None:
    """How long a run of `plan` has its servers; None when its trials have no end in time."""
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
        # the generator has none: instances.Order.by_minute
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
"""What four striped volumes of gp3 have in their price."""


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
    """What things that are there cost an hour; nothing where that is nothing. Raises TargetError."""
    found = [item for each in there for item in _paid(each, prices)]
    if not found:
        return []
    known = math.fsum(each.hourly or 0.0 for each in found)
    unknown = [each.what for each in found if each.hourly is None]
    least = f"at least {known:.4f} {CURRENCY} an hour, without {', '.join(unknown)}, whose price is unknown"
    counted = least if unknown else f"{known:.4f} {CURRENCY} an hour"
    # whether they have these is not told of them
    return [f"this costs {counted}; public addresses and detailed monitoring are not counted"]


def _paid(each: Resource, prices: Prices) -> Iterator[Item]:
    """Of an instance: its class, and its storage where it is not a cluster's; groups cost nothing."""
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
