"""What the rented servers of a plan cost: before they are rented, and an hour of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from pgdyno.plan.aws_targets import AuroraTarget, AwsTarget, DatabaseTarget, RdsTarget
from pgdyno.plan.costs import dataset_bytes, needed_s, trial_count
from pgdyno.plan.ec2_target import Ec2Target
from pgdyno.plan.model import Plan
from pgdyno.records.price import Costs, Hourly, Monthly, PriceList
from pgdyno.target.aws.cost_ec2 import address_item, host_items, monitoring_item, part_items
from pgdyno.target.aws.item import Item
from pgdyno.target.aws.kinds import FREE, Kind, Resource
from pgdyno.target.aws.life import rented_targets
from pgdyno.target.aws.prices import CURRENCY, INSTANCES, Prices, Usage
from pgdyno.target.aws.rate import Origin
from pgdyno.target.aws.rds import gibibytes

COMING_H = 0.5
"""What servers take to come, to go, or one to be restored; more often less. They come side by side."""
LEFT_OUT = ("traffic", "backups and snapshots")
AMAZONS = "Amazon's price list"
IO_LEFT_OUT = "I/O of Aurora's standard storage"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a plan, or of some things."""

    items: tuple[Item, ...]
    hours: float | None
    """For which it is all rented; None: nobody knows how long the trials take."""
    left_out: tuple[str, ...]

    @property
    def unknown(self) -> list[Item]:
        """Those without a price."""
        return [each for each in self.items if each.rate is None]

    @property
    def hourly(self) -> float:
        """USD an hour, without what is unknown."""
        return math.fsum(each.hourly or 0.0 for each in self.items)

    @property
    def total(self) -> float | None:
        """USD; None without an end, or where something is unknown."""
        return None if self.hours is None or self.unknown else self.hours * self.hourly

    @property
    def asked(self) -> date | None:
        """As of when the oldest of its prices is known."""
        return min(self._dates(*Origin), default=None)

    @property
    def source(self) -> str:
        """Where its prices are from, with the dates of the package's."""
        listed = self._dates(Origin.PACKAGE)
        if not listed:
            return AMAZONS
        package = f"list prices of {between(listed)}, from the package"
        return f"{AMAZONS}, and {package}" if self._dates(Origin.AMAZON) else package

    @property
    def is_listed(self) -> bool:
        """Whether some of its prices are the package's."""
        return bool(self._dates(Origin.PACKAGE))

    def _dates(self, *origins: Origin) -> list[date]:
        return sorted(each.rate.asked for each in self.items if each.rate is not None and each.rate.origin in origins)


def between(dates: Sequence[date]) -> str:
    """`2026-07-20`, or `2021-03-30 to 2026-10-07`; of `dates` in their order."""
    return f"{dates[0]}" if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def estimate(plan: Plan, prices: Prices, region: str, hours: float | None = None) -> Estimate:
    """What `plan` costs at `prices`; targets without a region are in `region`.

    `hours` are those for which it is rented; None: as long as the planned trials take. Raises TargetError.
    """
    items = [item for name, spec in rented_targets(plan).items() for item in _items(plan, name, spec, prices, region)]
    if plan.generator is not None:
        where = next(iter(rented_targets(plan).values())).region or region
        for _ in range(plan.generator.count):
            items += host_items("generator", plan.generator, [plan.generator.root], prices, where)
    standard = any(isinstance(each, AuroraTarget) and each.storage_type == "standard" for each in plan.target.values())
    left_out = (*LEFT_OUT, IO_LEFT_OUT) if standard else LEFT_OUT
    return Estimate(tuple(items), hours_of(plan) if hours is None else hours, left_out)


def hours_of(plan: Plan) -> float | None:
    """How long a run of `plan` has its servers; None when its trials have no end in time."""
    trials_s = needed_s(plan, plan.points())
    if trials_s is None:
        return None
    rented = rented_targets(plan).values()
    each = trial_count(plan, plan.points()) / len(plan.target)
    restored = [spec for spec in rented if isinstance(spec, DatabaseTarget) and spec.restore == "each-trial"]
    return trials_s / 3600 + COMING_H * (2 + 2 * (each - 1) * len(restored))


def price_list(plan: Plan, found: Estimate) -> PriceList | None:
    """The same as a plan has it, for the run's reports; None unless every target has a price."""
    if found.unknown or found.asked is None or rented_targets(plan).keys() != plan.target.keys():
        return None
    # the generator is no part of what a server costs
    costs = {name: _costs([each for each in found.items if each.target == name]) for name in plan.target}
    return PriceList(
        currency=CURRENCY, date=found.asked, source=found.source, years=1.0, left_out=found.left_out, target=costs
    )


def _costs(items: list[Item]) -> Costs:
    hourly = [
        Hourly(amount=each.rate.amount, count=each.count, name=each.what)
        for each in items
        if each.rate is not None and each.unit == "hour"
    ]
    monthly = [
        Monthly(amount=each.rate.amount, count=each.count, name=each.what, unit=each.unit)
        for each in items
        if each.rate is not None and each.unit != "hour"
    ]
    return Costs(hourly=tuple(hourly), monthly=tuple(monthly))


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
