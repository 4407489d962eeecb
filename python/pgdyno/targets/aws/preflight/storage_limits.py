"""IOPS and throughput of storage: the limits of a volume and of the instance that it is attached to."""

from dataclasses import dataclass

from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.databases.schema import RdsTarget
from pgdyno.targets.aws.hosts.schema import Ec2Target
from pgdyno.targets.aws.volumes import GB, GP3_IOPS, GP3_MBS, Volume, space_unit
from pgdyno.units import parse_bytes

STRIPED_FROM_GB = 400
"""The size from which RDS for PostgreSQL stripes a volume over four."""
GP3, GP3_STRIPED = (GP3_IOPS, GP3_MBS), (12_000, 500)
"""IOPS and MB/s of a volume for which the plan requests no others."""
IO2_MB_S_AN_IOPS, IO2_MOST_MB_S = 0.256, 4_000
"""The throughput of io2 Block Express: 256 kB for each of the IOPS, up to this."""
GP2_IOPS_A_GB, GP2_LEAST, GP2_BURST, GP2_MOST = 3, 100, 3_000, 16_000


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a volume, or of an instance for all its volumes together."""

    iops: float
    mb_s: float | None
    """None if the throughput depends on the IOPS and the size of requests."""
    burst_iops: float | None = None
    """The rate while burst credits last; None if there is no burst."""
    burst_mb_s: float | None = None


def _format_rates(iops: float, mb_s: float | None) -> str:
    return f"{iops:,.0f} IOPS" + ("" if mb_s is None else f", {mb_s:,.4g} MB/s")


def volume_limit(spec: RdsTarget) -> Limit:
    size = parse_bytes(spec.storage) / GB
    if spec.storage_type == "gp3":
        free = GP3_STRIPED if size >= STRIPED_FROM_GB else GP3
        return Limit(spec.iops or free[0], spec.throughput or free[1])
    if spec.storage_type == "gp2":
        volumes = 4 if size >= STRIPED_FROM_GB else 1
        iops = min(max(GP2_IOPS_A_GB * size, GP2_LEAST), GP2_MOST * volumes)
        burst = GP2_BURST * volumes
        return Limit(iops, 250 * volumes if size / volumes >= 334 else 128 * volumes, burst if burst > iops else None)
    return Limit(spec.iops or 0, None)


def attached_limit(volume: Volume) -> Limit:
    if volume.type == "gp3":
        return Limit(volume.iops or GP3[0], volume.throughput or GP3[1])
    iops = volume.iops or 0
    return Limit(iops, min(iops * IO2_MB_S_AN_IOPS, IO2_MOST_MB_S) if volume.type == "io2" else None)


def instance_limit(cloud: Cloud, instance: str) -> Limit | None:
    """Return the EBS limit of a class such as `db.m7g.large`; None if EC2 reports none. Raises AwsError."""
    name = instance.removeprefix("db.")
    found = cloud.call("ec2", "describe_instance_types", InstanceTypes=[name])["InstanceTypes"]
    told = found[0].get("EbsInfo", {}).get("EbsOptimizedInfo") if found else None
    if told is None:
        return None
    iops, most = float(told["BaselineIops"]), float(told["MaximumIops"])
    mb_s, most_mb_s = told["BaselineThroughputInMBps"], told["MaximumThroughputInMBps"]
    bursts = most > iops or most_mb_s > mb_s
    return Limit(iops, mb_s, most if bursts else None, most_mb_s if bursts else None)


def limits_of(spec: RdsTarget | Ec2Target, instance: str, limit: Limit | None) -> list[Message]:
    """Return for each volume of `spec` its limits, those of the instance, which is `limit`, and the lower of both."""
    if isinstance(spec, RdsTarget):
        return [_lower("", spec.storage_type, spec.storage, volume_limit(spec), instance, limit)]
    there = {"data": spec.data or spec.root, "WAL": spec.wal}
    return [
        _lower(what, each.type, each.size, attached_limit(each), instance, limit)
        for what, each in there.items()
        if each is not None
    ]


def _lower(what: str, kind: str, size: str, of_volume: Limit, instance: str, of_instance: Limit | None) -> Message:
    """Describe a volume; `what` is stored on it, empty for everything."""
    values = {"what": what, "type": kind, "size": space_unit(size), "instance_type": instance}
    volume = _of_volume(of_volume)
    if of_instance is None:
        return Message(
            "storage-limits-partly-known",
            "the {type} volume of {size} with {what} provides {volume}; the limits of {instance_type} are not known"
            if what
            else "its {type} volume of {size} provides {volume}; the limits of {instance_type} are not known",
            volume=volume,
            **values,
        )
    iops = min(of_volume.iops, of_instance.iops)
    mb_s = min(each for each in (of_volume.mb_s, of_instance.mb_s) if each is not None)
    return Message(
        "storage-limits",
        "the {type} volume of {size} with {what} provides {volume}, the instance {instance}; together, they sustain "
        "{iops:,.0f} IOPS and {mb_s:,.4g} MB/s"
        if what
        else "its {type} volume of {size} provides {volume}, the instance {instance}; together, they sustain "
        "{iops:,.0f} IOPS and {mb_s:,.4g} MB/s",
        volume=volume,
        instance=_of_instance(of_instance),
        iops=iops,
        mb_s=mb_s,
        **values,
    )


def _of_volume(limit: Limit) -> Message | str:
    if limit.burst_iops is None:
        return _format_rates(limit.iops, limit.mb_s)
    return Message(
        "volume-bursts",
        "{volume_limit} ({volume_burst} while burst credits last)",
        volume_limit=_format_rates(limit.iops, limit.mb_s),
        volume_burst=_format_rates(limit.burst_iops, limit.burst_mb_s),
    )


def _of_instance(limit: Limit) -> Message | str:
    if limit.burst_iops is None:
        return _format_rates(limit.iops, limit.mb_s)
    return Message(
        "instance-bursts",
        "{instance_limit} ({instance_burst} while burst credits last)",
        instance_limit=_format_rates(limit.iops, limit.mb_s),
        instance_burst=_format_rates(limit.burst_iops, limit.burst_mb_s),
    )
