"""Costs of a plan's rented servers: an estimate before the rental, and the hourly cost of each resource."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from pgdyno.messages import Message
from pgdyno.plan.model import Plan, servers_of
from pgdyno.plan.time_budget.budget import scales_of
from pgdyno.plan.time_budget.time_and_disk import data_bytes, trial_count, visits
from pgdyno.plan.workload import trial_s
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.databases.rds import gibibytes
from pgdyno.targets.aws.databases.schema import AuroraTarget, DatabaseTarget, RdsTarget
from pgdyno.targets.aws.databases.service import describe_resource
from pgdyno.targets.aws.databases.standard_support import extended_year
from pgdyno.targets.aws.hosts.schema import Ec2Generator, Ec2Target
from pgdyno.targets.aws.inventory import Kind, is_free
from pgdyno.targets.aws.pricing.duration import copies_data, hours_of, longest_trial_s, touched_bytes
from pgdyno.targets.aws.pricing.prices import CLOUDWATCH, EC2, HOSTS, INSTANCES, METRIC, VPC, Prices, Usage
from pgdyno.targets.aws.schema import AwsTarget
from pgdyno.targets.aws.volumes import GP3_IOPS, GP3_MBS, Volume
from pgdyno.targets.rented.estimate import CURRENCY, ONCE, RESERVE, Estimate, Item
from pgdyno.targets.rented.rental import Resource, generator_names

Host = Ec2Target | Ec2Generator
_NAMES = {"gp3": "gp3", "io1": "piops", "io2": "io2"}
"""Names of volume types at the end of Amazon's usage types."""
_IO2_TIERS = ((32_000, "io2"), (64_000, "io2.tier2"), (None, "io2.tier3"))
"""The number of IOPS up to which each price tier of io2 applies; None is no limit."""


def rented_targets(plan: Plan) -> dict[str, AwsTarget]:
    """Return the plan's servers at Amazon by name: each instance of a target of several is one."""
    return {name: spec for name, spec in servers_of(plan).items() if isinstance(spec, AwsTarget)}


def generator_of(plan: Plan) -> Ec2Generator | None:
    """Return the plan's generator if it is at Amazon."""
    return plan.generator if isinstance(plan.generator, Ec2Generator) else None


def host_items(
    name: str, spec: Host, volumes: Iterable[Volume], prices: Prices, region: str, instance: str | None = None
) -> Iterator[Item]:
    """Yield a host of target `name` with its volumes; `instance` is the type that it got, None the plan's first."""
    yield _instance(name, instance or spec.instance, prices, region)
    yield from address_item(name, prices, region, public=spec.public)
    for each in volumes:
        yield _storage(name, each.type, gibibytes(each.size), prices, region)
        yield from _provisioned_items(name, each.type, each.iops or 0, each.throughput or 0, prices, region)


def address_item(name: str, prices: Prices, region: str, *, public: bool) -> Iterator[Item]:
    """Yield the public address, if there is one."""
    if public:
        yield Item(name, "public address", 1, "hour", prices.rate(Usage(region, VPC, "", "PublicIPv4:InUseAddress")))


METRICS = 7
"""Metrics of a host with detailed monitoring, as Amazon counts them; per-minute metrics of volumes are free."""


def part_items(each: Resource, prices: Prices) -> Iterator[Item]:
    """Yield the cost of an existing host or volume."""
    if each.kind == Kind.INSTANCE:
        yield _instance(each.name, each.instance, prices, each.region)
    elif each.storage in _NAMES and each.size_gb is not None:
        yield _storage(each.name, each.storage, each.size_gb, prices, each.region)
        yield from _provisioned_items(each.name, each.storage, each.iops, each.throughput, prices, each.region)
    else:
        yield Item(each.name, each.words, 1, "hour", None)


def _instance(name: str, instance: str, prices: Prices, region: str) -> Item:
    return Item(name, instance, 1, "hour", prices.rate(Usage(region, EC2, HOSTS, f"BoxUsage:{instance}")))


def _storage(name: str, kind: str, size: int, prices: Prices, region: str) -> Item:
    usage = Usage(region, EC2, "Storage", f"EBS:VolumeUsage.{_NAMES[kind]}")
    return Item(name, kind, size, "GB", prices.rate(usage))


def _provisioned_items(name: str, kind: str, iops: int, mb_s: int, prices: Prices, region: str) -> Iterator[Item]:
    tiers: Iterable[tuple[int | None, str]] = _IO2_TIERS if kind == "io2" else [(None, _NAMES[kind])]
    paid = GP3_IOPS if kind == "gp3" else 0
    for up_to, tier in tiers:
        count = (iops if up_to is None else min(iops, up_to)) - paid
        if count > 0:
            usage = Usage(region, EC2, "System Operation", f"EBS:VolumeP-IOPS.{tier}")
            yield Item(name, kind, count, "IOPS", prices.rate(usage))
            paid += count
    if kind == "gp3" and mb_s > GP3_MBS:
        usage = Usage(region, EC2, "Provisioned Throughput", "EBS:VolumeP-Throughput.gp3")
        yield Item(name, kind, mb_s - GP3_MBS, "MB/s", prices.rate(usage))


LEFT_OUT = ("traffic", "backups")
PROVIDER = "Amazon"
IO, MOST_IO = 1_000.0, 2_500.0
"""Requests to Aurora's storage per processor and second of load: as estimated, and the most that pgdyno expects.

A commit writes WAL in units of 4 kB, and a page that is not in memory is read. What a run really requests is measured
while it runs.
"""
ASSUMED_IO = Message(
    "io-assumed", "I/O is assumed, not measured: {rate:,} requests per processor and second of load", rate=round(IO)
)
_WRITTEN_BYTES, _READ_BYTES = 4096, 8192
"""The bytes of one request that writes, and of one that reads a page."""
UNCOUNTED_S = 600.0
"""An upper estimate of the seconds until CloudWatch has counted requests: two of its periods."""
_ACU_A_VCPU = 4
"""Capacity units for each processor: a unit has 2 GiB of memory, and classes for databases (r) 8 GiB a processor."""


def estimate(plan: Plan, prices: Prices, region: str, hours: float | None = None) -> Estimate:
    """Return what `plan` costs at `prices`; targets without a region are in `region`.

    `hours` is the length of the rental; if None, the time that the planned trials take. Raises TargetError.
    """
    items = items_of(plan, prices, region)
    lasts = hours_of(plan) if hours is None else hours
    dearest = items_of(plan, prices, region, dearest=True)
    # A rental of a given length ends then; that of a run may last longer than planned.
    most = highest_cost(dearest, lasts) if hours is not None or lasts is None else _most_of_run(plan, dearest, lasts)
    assumed = (ASSUMED_IO,) if any(each.unit in ONCE for each in items) else ()
    return Estimate(tuple(items), lasts, LEFT_OUT, PROVIDER, prices.why_not, most, assumed)


HEADROOM = 1.5
"""How much longer a run may take than planned before its cost reaches the ceiling."""


def _most_of_run(plan: Plan, dearest: Sequence[Item], lasts: float) -> float | None:
    """Return the most that a run of `plan` may cost, which is planned for `lasts` hours.

    Before each trial, also the last one, a run must have enough left for a trial of twice the planned length with the
    most requests to storage, and for requests of minutes that CloudWatch has not counted yet.
    """
    longest_s = longest_trial_s(plan)
    most = highest_cost(dearest, max(HEADROOM * lasts, lasts + (RESERVE - 1) * longest_s / 3600))
    if most is None:
        return None
    planned = math.fsum(each.once for each in dearest)
    rates = {each.target: each.rate.amount for each in dearest if each.unit in ONCE and each.rate is not None}
    per_s = math.fsum(rates[name] * MOST_IO * _most_processors(rented_targets(plan)[name]) for name in rates)
    reserve = per_s * (RESERVE * longest_s + UNCOUNTED_S)
    return most + max(0.0, planned + reserve - planned * MOST_IO / IO)


def _most_processors(spec: AwsTarget) -> int:
    return max(io_processors(each) for each in _choices(spec, None, dearest=True))


def highest_cost(items: Sequence[Item], hours: float | None) -> float | None:
    """Return the most in USD that `items` may cost for `hours`; None if a price or the time is unknown."""
    if hours is None or any(each.rate is None for each in items):
        return None
    requests = math.fsum(each.once for each in items) * MOST_IO / IO
    return hours * math.fsum(each.hourly or 0.0 for each in items) + requests


def items_of(
    plan: Plan, prices: Prices, region: str, got: Mapping[str, str] | None = None, *, dearest: bool = False
) -> list[Item]:
    """Return everything that the plan's rental is billed for.

    `got` has the instance types of servers and generators that are up, by name. Others have the first one of their
    plan, or with `dearest` the most expensive of `instance` and `instead`.
    """
    got = got or {}
    items: list[Item] = []
    for name, spec in rented_targets(plan).items():
        choices = _choices(spec, got.get(name), dearest=dearest)
        items += _dearest_items([list(_items(plan, name, each, prices, region)) for each in choices])
    if (hosts := generator_of(plan)) is not None:
        where = next(iter(rented_targets(plan).values())).region or region
        for name in generator_names(hosts.count):
            several = [
                list(host_items("generator", hosts, [hosts.root], prices, where, each.instance))
                for each in _choices(hosts, got.get(name), dearest=dearest)
            ]
            items += _dearest_items(several)
    return items


_Spec = TypeVar("_Spec", AwsTarget, Ec2Generator)


def _choices(spec: _Spec, got: str | None, *, dearest: bool) -> list[_Spec]:
    names = [got] if got is not None else [spec.instance, *(spec.instead if dearest else [])]
    return [spec.model_copy(update={"instance": each}) for each in names]


def _dearest_items(several: Sequence[list[Item]]) -> list[Item]:
    """Return the choice that costs most; one of unknown price counts as the most expensive."""

    def cost(items: list[Item]) -> float:
        unknown = any(each.rate is None for each in items)
        return math.inf if unknown else math.fsum((each.hourly or 0.0) + each.once / 24 for each in items)

    return max(several, key=cost)


def generator_estimate(plan: Plan, prices: Prices, region: str, instance: str) -> Estimate:
    """Return what one generator host of `plan` costs; `instance` is the type that it got."""
    spec = generator_of(plan)
    assert spec is not None
    items = host_items("generator", spec, [spec.root], prices, region, instance)
    return Estimate(tuple(items), None, (), PROVIDER)


def configured_region(plan: Plan) -> str:
    """Return the region of targets that name none, empty if all name one. Raises AwsError if boto3 has no region."""
    if all(spec.region is not None for spec in rented_targets(plan).values()):
        return ""
    return Cloud().region


def _items(plan: Plan, name: str, spec: AwsTarget, prices: Prices, configured: str) -> Iterator[Item]:
    region = spec.region or configured
    if isinstance(spec, Ec2Target):
        volumes = [each for each in (spec.root, spec.data, spec.wal) if each is not None]
        yield from host_items(name, spec, volumes, prices, region)
        # Generators have no detailed monitoring: see instances.Order.by_minute. The account's ten free metrics are not
        # deducted.
        usage = Usage(region, CLOUDWATCH, METRIC, "CW:MetricMonitorUsage")
        yield Item(name, "detailed monitoring", METRICS, "metrics", prices.rate(usage))
    elif isinstance(spec, RdsTarget):
        engine = "PostgreSQL"
        usage = Usage(region, engine, INSTANCES, f"InstanceUsage:{spec.instance}")
        yield Item(name, spec.instance, 1, "hour", prices.rate(usage))
        yield from support_items(name, spec, prices, region, engine)
        yield from address_item(name, prices, region, public=spec.public)
        yield from _volume(name, spec, prices, region, engine)
        if spec.takes_snapshot:
            size = gibibytes(spec.storage) * len(scales_of(plan))
            yield snapshot_item(name, size, prices, region, engine)
    elif isinstance(spec, AuroraTarget):
        engine, optimized = "Aurora PostgreSQL", spec.storage_type == "io-optimized"
        if spec.capacity is not None:
            # Amazon charges for the capacity in use: the maximum is the ceiling.
            kind = "Aurora:ServerlessV2IOOptimizedUsage" if optimized else "Aurora:ServerlessV2Usage"
            rate = prices.rate(Usage(region, engine, "ServerlessV2", kind))
            yield Item(name, spec.instance, spec.capacity.max, "ACU", rate)
        else:
            kind = "InstanceUsageIOOptimized" if optimized else "InstanceUsage"
            usage = Usage(region, engine, INSTANCES, f"{kind}:{spec.instance}")
            yield Item(name, spec.instance, 1, "hour", prices.rate(usage))
        yield from support_items(name, spec, prices, region, engine)
        yield from address_item(name, prices, region, public=spec.public)
        kind = "Aurora:IO-OptimizedStorageUsage" if optimized else "Aurora:StorageUsage"
        usage = Usage(region, engine, _STORAGE, kind)
        copies = 2 if copies_data(plan, spec) else 1
        size = copies * max(data_bytes(plan, scale) for scale in scales_of(plan))
        gigabytes = [math.ceil(size / 1024**3), _snapshot_gb(spec, region)]
        known = [each for each in gigabytes if each is not None]
        rate = prices.rate(usage) if len(known) == len(gigabytes) else None
        yield Item(name, f"{spec.storage_type} storage", max(known), "GB", rate)
        if spec.takes_snapshot:
            gb = sum(math.ceil(data_bytes(plan, scale) / 1024**3) for scale in scales_of(plan))
            yield snapshot_item(name, gb, prices, region, engine)
        if not optimized:
            yield Item(name, "storage", io_of(plan, spec), "I/O", prices.rate(io_usage(region)))


_BACKUPS = {"PostgreSQL": "RDS:ChargedBackupUsage", "Aurora PostgreSQL": "Aurora:BackupUsage"}
_STORAGE_KINDS = {"PostgreSQL": "RDS:GP2-Storage", "Aurora PostgreSQL": "Aurora:StorageUsage"}


def snapshot_item(name: str, size: int, prices: Prices, region: str, engine: str) -> Item:
    """Return `size` GB of snapshots; what Amazon keeps for free of an account's backups is not deducted.

    If the price of backups is unknown, that of the storage stands in, which is higher in every region.
    """
    rate = prices.rate(Usage(region, engine, "Storage Snapshot", _BACKUPS[engine]))
    rate = rate or prices.rate(Usage(region, engine, _STORAGE, _STORAGE_KINDS[engine]))
    return Item(name, "snapshots", size, "GB", rate)


def io_usage(region: str) -> Usage:
    """Return what selects the price of a request to Aurora's storage."""
    return Usage(region, "Aurora PostgreSQL", "System Operation", "Aurora:StorageIOUsage")


def io_of(plan: Plan, spec: AuroraTarget) -> float:
    """Return the estimated number of requests to Aurora's storage during a run of `plan`.

    For an instance of a target of several, an upper estimate: it gets only a share of the trials.
    """
    points = plan.points()
    load_s = (trial_s(plan) or 0.0) * trial_count(plan, points) / len(plan.target)
    scales = [point.scale or plan.workload.size for point in visits(plan, points)]
    one = {each: data_bytes(plan, each) for each in set(scales)}
    copied = plan.trial.most_repeats * sum(one[each] for each in scales) if copies_data(plan, spec) else 0
    written = 2 * (sum(one.values()) + copied) / _WRITTEN_BYTES
    return round(io_processors(spec) * IO * load_s + written + touched_bytes(plan, spec) / _READ_BYTES)


def io_processors(spec: AwsTarget) -> int:
    """Return the number of processors that make requests to storage: those of the class, or of the most capacity."""
    if isinstance(spec, AuroraTarget) and spec.capacity is not None:
        return math.ceil(spec.capacity.max / _ACU_A_VCPU)
    return processors(spec.instance)


_SIZES = {"micro": 2, "small": 2, "medium": 2, "large": 2, "xlarge": 4}


def processors(instance: str) -> int:
    """Return the number of processors (vCPU) of an instance class: Amazon's sizes double from `large` on."""
    size = instance.rpartition(".")[2]
    times = size.removesuffix("xlarge")
    return 4 * int(times) if times.isdigit() else _SIZES.get(size, 2)


def support_items(name: str, spec: DatabaseTarget, prices: Prices, region: str, engine: str) -> Iterator[Item]:
    """Yield Extended Support, if the version is past its standard support."""
    year = extended_year(spec.version, datetime.now(UTC).date())
    if year is None or not spec.extended_support:
        return
    kind = f"ExtendedSupport:{year}:{engine.replace(' ', '')}{spec.version.partition('.')[0]}"
    count = processors(spec.instance)
    yield Item(name, "Extended Support", count, "vCPU", prices.rate(Usage(region, engine, "", kind)))


def _snapshot_gb(spec: DatabaseTarget, region: str) -> int | None:
    """Return the GiB that a server from the plan's snapshot has at least, 0 without one; None if that is unknown."""
    if spec.snapshot is None:
        return 0
    kind = Kind.CLUSTER_SNAPSHOT if isinstance(spec, AuroraTarget) else Kind.DB_SNAPSHOT
    try:
        return int(describe_resource(Cloud(region), kind, spec.snapshot).get("AllocatedStorage", 0))
    except AwsError:
        return None


_STORAGE = "Database Storage"
_VOLUMES = {"gp2": "RDS:GP2-Storage", "gp3": "RDS:GP3-Storage", "io1": "RDS:PIOPS-Storage", "io2": "RDS:IO2-Storage"}
_IOPS = {"gp3": "RDS:GP3-PIOPS", "io1": "RDS:PIOPS", "io2": "RDS:IO2-PIOPS"}
_FREE_IOPS, _FREE_MBS = 12_000, 500
"""IOPS and MB/s that the price of four striped gp3 volumes includes."""


def _volume(name: str, spec: RdsTarget, prices: Prices, region: str, engine: str) -> Iterator[Item]:
    kind, restored = spec.storage_type, _snapshot_gb(spec, region)
    usage = Usage(region, engine, _STORAGE, _VOLUMES[kind])
    rate = None if restored is None else prices.rate(usage)
    yield Item(name, kind, max(gibibytes(spec.storage), restored or 0), "GB", rate)
    yield from _provisioned_by_rds(name, kind, spec.iops or 0, spec.throughput or 0, prices, region)


def _provisioned_by_rds(name: str, kind: str, iops: int, mb_s: int, prices: Prices, region: str) -> Iterator[Item]:
    engine, free = "PostgreSQL", (_FREE_IOPS, _FREE_MBS) if kind == "gp3" else (0, 0)
    if kind in _IOPS and iops > free[0]:
        usage = Usage(region, engine, "Provisioned IOPS", _IOPS[kind])
        yield Item(name, kind, iops - free[0], "IOPS", prices.rate(usage))
    if kind == "gp3" and mb_s > free[1]:
        usage = Usage(region, engine, "Provisioned Throughput", "RDS:GP3-Throughput")
        yield Item(name, kind, mb_s - free[1], "MB/s", prices.rate(usage))


def hourly_costs(there: Sequence[Resource], prices: Prices) -> Message | None:
    """Says what existing resources cost per hour; None if they cost nothing. Raises TargetError.

    Descriptions of resources do not say whether they have public addresses and detailed monitoring.
    """
    found = [item for each in there for item in _items_of_resource(each, prices)]
    if not found:
        return None
    known = math.fsum(each.hourly or 0.0 for each in found)
    unknown = [each.what for each in found if each.hourly is None]
    if unknown:
        return Message(
            "hourly-cost-partly-known",
            "this costs at least {hourly:.4f} {currency} an hour, without {unknown}, whose price is unknown; public "
            "addresses and detailed monitoring are not counted",
            hourly=known,
            currency=CURRENCY,
            unknown=", ".join(unknown),
        )
    return Message(
        "hourly-cost",
        "this costs {hourly:.4f} {currency} an hour; public addresses and detailed monitoring are not counted",
        hourly=known,
        currency=CURRENCY,
    )


def _items_of_resource(each: Resource, prices: Prices) -> Iterator[Item]:
    if each.kind == Kind.DB_INSTANCE:
        engine = "Aurora PostgreSQL" if each.size_gb is None else "PostgreSQL"
        usage = Usage(each.region, engine, INSTANCES, f"InstanceUsage:{each.instance}")
        yield Item(each.name, each.instance, 1, "hour", prices.rate(usage))
        if each.storage in _VOLUMES and each.size_gb is not None:
            usage = Usage(each.region, engine, _STORAGE, _VOLUMES[each.storage])
            yield Item(each.name, each.storage, each.size_gb, "GB", prices.rate(usage))
            yield from _provisioned_by_rds(each.name, each.storage, each.iops, each.throughput, prices, each.region)
    elif each.kind in (Kind.DB_SNAPSHOT, Kind.CLUSTER_SNAPSHOT):
        engine = "PostgreSQL" if each.kind == Kind.DB_SNAPSHOT else "Aurora PostgreSQL"
        yield snapshot_item(each.name, each.size_gb or 0, prices, each.region, engine)
    elif each.kind in (Kind.INSTANCE, Kind.VOLUME):
        yield from part_items(each, prices)
    elif each.kind != Kind.DB_CLUSTER and not is_free(each.kind):
        yield Item(each.name, each.words, 1, "hour", None)
