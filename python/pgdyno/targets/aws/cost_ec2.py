"""What hosts and volumes of EC2 cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgdyno.targets.aws.ec2_checks import GP3_IOPS, GP3_MBS
from pgdyno.targets.aws.kinds import Kind, Resource
from pgdyno.targets.aws.prices import CLOUDWATCH, EC2, HOSTS, METRIC, VPC, Prices, Usage
from pgdyno.targets.aws.rds import gibibytes
from pgdyno.targets.aws.schema import Ec2Generator, Ec2Target, Volume
from pgdyno.targets.estimate import Item

Host = Ec2Target | Ec2Generator
_NAMES = {"gp3": "gp3", "io1": "piops", "io2": "io2"}
"""Of types of volumes, at the end of usage types."""
_IO2_TIERS = ((32_000, "io2"), (64_000, "io2.tier2"), (None, "io2.tier3"))
"""Up to how many IOPS a price counts."""


def host_items(
    name: str, spec: Host, volumes: Iterable[Volume], prices: Prices, region: str, instance: str | None = None
) -> Iterator[Item]:
    """A host with its volumes, for the target `name`; `instance` is the type that it has, if not the plan's first."""
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
    """Its public address, if it has one."""
    if public:
        yield Item(name, "public address", 1, "hour", prices.rate(Usage(region, VPC, "", "PublicIPv4:InUseAddress")))


METRICS = 7
"""Of a host with detailed monitoring, as Amazon counts them; those of volumes are free by the minute."""


def monitoring_item(name: str, prices: Prices, region: str) -> Item:
    """CloudWatch's figures of a host by the minute; that an account's first ten are free is not taken off."""
    usage = Usage(region, CLOUDWATCH, METRIC, "CW:MetricMonitorUsage")
    return Item(name, "detailed monitoring", METRICS, "metrics", prices.rate(usage))


def part_items(each: Resource, prices: Prices) -> Iterator[Item]:
    """Of a host or a volume that is there; what a volume has beyond its size is not told of it."""
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
