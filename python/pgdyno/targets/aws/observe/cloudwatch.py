"""CloudWatch's metrics of a server, by the minute, which is the finest period that CloudWatch has of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, NotThereError
from pgdyno.targets.aws.hosts.schema import DATA_DEVICE, WAL_DEVICE
from pgdyno.targets.rented.rental import SECOND_US, Figure, Observed, Span, is_complete, missing_spans

PERIOD_S = 60
"""The finest period of these metrics; for hosts it needs detailed monitoring."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A CloudWatch metric, and its name in pgdyno."""

    name: str
    """CloudWatch's name of the metric."""
    metric: str
    unit: str
    """share, bytes, ms or count, or one of these per second (`bytes/s`)."""
    meaning: str
    factor: float = 1.0
    """Factor from CloudWatch's unit to `unit`."""
    sums: bool = False
    """Whether pgdyno requests the sum over the minute instead of the mean."""


_EBS_CREDITS = (
    Counted(
        "EBSIOBalance%", "ebs_io_burst", "share", "of the instance's burst credits for requests that is left", 0.01
    ),
    Counted("EBSByteBalance%", "ebs_byte_burst", "share", "likewise for bytes", 0.01),
)
DATABASE = (
    Counted("CPUUtilization", "cpu", "share", "processors that were busy", 0.01),
    Counted("DatabaseConnections", "connections", "count", "sessions, including idle ones"),
    Counted("FreeableMemory", "free_memory", "bytes", "memory that is free or can be reclaimed at once"),
    Counted("SwapUsage", "swap_used", "bytes", "swap in use"),
    Counted("ReadIOPS", "reads", "count/s", "read requests to storage"),
    Counted("WriteIOPS", "writes", "count/s", "write requests to storage"),
    Counted("ReadThroughput", "read", "bytes/s", "read from storage"),
    Counted("WriteThroughput", "written", "bytes/s", "written to storage"),
    Counted("ReadLatency", "read_latency", "ms", "a read request, on average", 1000.0),
    Counted("WriteLatency", "write_latency", "ms", "a write request, on average", 1000.0),
    Counted("DiskQueueDepth", "queue", "count", "requests that wait for storage"),
    Counted("NetworkReceiveThroughput", "received", "bytes/s", "over the network, including the service's own traffic"),
    Counted("NetworkTransmitThroughput", "sent", "bytes/s", "likewise"),
    Counted("BurstBalance", "storage_burst", "share", "of a gp2 volume's burst credits that is left", 0.01),
    *_EBS_CREDITS,
    Counted("CPUCreditBalance", "cpu_credits", "count", "credits of a burstable class that are left"),
    Counted("CPUSurplusCreditBalance", "cpu_surplus_credits", "count", "surplus credits that it has spent"),
    Counted("TransactionLogsGeneration", "wal", "bytes/s", "WAL (RDS)"),
    Counted("CommitLatency", "commit_latency", "ms", "a commit, on average (Aurora)"),
    Counted("CommitThroughput", "commits", "count/s", "commits (Aurora)"),
    Counted("StorageNetworkReceiveThroughput", "storage_received", "bytes/s", "from the cluster's storage (Aurora)"),
    Counted("StorageNetworkTransmitThroughput", "storage_sent", "bytes/s", "to the cluster's storage (Aurora)"),
)
"""Metrics of a database instance; an instance has some of them."""
_A_SECOND = 1 / PERIOD_S
HOST = (
    Counted("CPUUtilization", "cpu", "share", "processors that were busy, including the hypervisor's share", 0.01),
    Counted("EBSReadOps", "reads", "count/s", "read requests to all volumes", _A_SECOND, sums=True),
    Counted("EBSWriteOps", "writes", "count/s", "write requests to all volumes", _A_SECOND, sums=True),
    Counted("EBSReadBytes", "read", "bytes/s", "read from all volumes", _A_SECOND, sums=True),
    Counted("EBSWriteBytes", "written", "bytes/s", "written to all volumes", _A_SECOND, sums=True),
    Counted("NetworkIn", "received", "bytes/s", "over the network", _A_SECOND, sums=True),
    Counted("NetworkOut", "sent", "bytes/s", "likewise", _A_SECOND, sums=True),
    *_EBS_CREDITS,
    Counted("CPUCreditBalance", "cpu_credits", "count", "credits of a burstable type that are left"),
    Counted("CPUSurplusCreditBalance", "cpu_surplus_credits", "count", "surplus credits that it has spent"),
)
"""Metrics of an EC2 instance; an instance has some of them."""
VOLUME = (
    Counted("VolumeReadOps", "volume_reads", "count/s", "read requests", _A_SECOND, sums=True),
    Counted("VolumeWriteOps", "volume_writes", "count/s", "write requests", _A_SECOND, sums=True),
    Counted("VolumeReadBytes", "volume_read", "bytes/s", "read", _A_SECOND, sums=True),
    Counted("VolumeWriteBytes", "volume_written", "bytes/s", "written", _A_SECOND, sums=True),
    Counted("VolumeTotalReadTime", "volume_in_reads", "count", "reads in flight, on average", _A_SECOND, sums=True),
    Counted("VolumeTotalWriteTime", "volume_in_writes", "count", "writes in flight, on average", _A_SECOND, sums=True),
    Counted("VolumeQueueLength", "volume_queue", "count", "requests that wait"),
    Counted("BurstBalance", "volume_burst", "share", "of a gp2 volume's burst credits that is left", 0.01),
    Counted("VolumeIOPSExceededCheck", "volume_iops_exceeded", "share", "1 if the volume's limit was exceeded"),
    Counted("VolumeThroughputExceededCheck", "volume_throughput_exceeded", "share", "likewise of bytes"),
)
"""Metrics of an EBS volume, with the label `volume`: `root`, `data`, `wal`."""
LATENCIES = (
    ("volume_read_latency", "volume_in_reads", "volume_reads", "a read request, on average"),
    ("volume_write_latency", "volume_in_writes", "volume_writes", "a write request, on average"),
)
"""Latencies in ms by Little's law: a volume's requests in flight, divided by its requests per second."""


_VOLUMES: Mapping[str, str] = {DATA_DEVICE: "data", WAL_DEVICE: "wal"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A resource with metrics in CloudWatch."""

    namespace: str
    dimension: str
    id: str
    metrics: tuple[Counted, ...]
    labels: tuple[tuple[str, str], ...] = ()


def database(instance: str) -> list[Subject]:
    return [Subject("AWS/RDS", "DBInstanceIdentifier", instance, DATABASE)]


def host(cloud: Cloud, tokens: Iterable[str]) -> list[Subject]:
    """Return the running instance that a request with one of these tokens created, and its volumes. Raises AwsError."""
    filters = [{"Name": "client-token", "Values": list(tokens)}]
    for each in cloud.list_elements("ec2", "describe_instances", "Reservations[].Instances[]", Filters=filters):
        if each["State"]["Name"] == "running":
            return [Subject("AWS/EC2", "InstanceId", each["InstanceId"], HOST), *_volumes(each)]
    raise NotThereError("the instance no longer exists")


def _volumes(instance: Mapping[str, Any]) -> list[Subject]:
    return [
        Subject("AWS/EBS", "VolumeId", each["Ebs"]["VolumeId"], VOLUME, (("volume", _role(instance, each)),))
        for each in instance.get("BlockDeviceMappings", ())
    ]


def _role(instance: Mapping[str, Any], mapping: Mapping[str, Any]) -> str:
    device = mapping["DeviceName"]
    return "root" if device == instance.get("RootDeviceName") else _VOLUMES.get(device, device)


def asking_of_host(cloud: Cloud, tokens: Iterable[str], span: Span) -> Callable[[], Observed]:
    """Return a function that requests the metrics of `host` at each call, and looks the host up only at the first.

    The instance and its volumes do not change while pgdyno waits for their metrics. The function raises AwsError.
    """
    subjects = cache(partial(host, cloud, tuple(tokens)))
    return lambda: cloudwatch_figures(cloud, subjects(), span)


_ALWAYS = "cpu"
"""A metric that every server has, and whose newest value therefore says up to when metrics are available."""


def cloudwatch_figures(cloud: Cloud, subjects: Sequence[Subject], span: Span) -> Observed:
    """Return all metrics of `subjects` for the whole minutes that `span` touches. Raises AwsError.

    A metric without any value is one that the server does not have.
    """
    minutes = span.widen_to_periods(PERIOD_S)
    pairs = ((subject, each) for subject in subjects for each in subject.metrics)
    asked = {f"m{place}": pair for place, pair in enumerate(pairs)}
    answered = cloud.list_elements(
        "cloudwatch",
        "get_metric_data",
        "MetricDataResults",
        MetricDataQueries=[metric_query(name, *pair) for name, pair in asked.items()],
        StartTime=_moment(minutes.from_us),
        EndTime=_moment(minutes.to_us),
        ScanBy="TimestampAscending",
    )
    found: dict[str, list[Figure]] = defaultdict(list)
    for each in answered:
        if each.get("StatusCode") == "Forbidden":
            raise AwsError("the permission cloudwatch:GetMetricData is missing for these metrics", code="Forbidden")
        subject, counted = asked[each["Id"]]
        found[counted.metric] += _figures(subject, counted, each)
    gaps = missing_spans(minutes, PERIOD_S, (each.t_us for each in found[_ALWAYS]))
    every = [*(each for of in found.values() for each in of), *_latencies(found)]
    figures = sorted(every, key=lambda each: (each.t_us, each.metric, each.labels))
    return Observed(PERIOD_S, figures, gaps, is_complete(minutes, gaps))


def metric_query(name: str, subject: Subject, counted: Counted, period_s: int = PERIOD_S) -> Mapping[str, Any]:
    """Return a request for one metric, which the answer calls `name`."""
    dimensions = [{"Name": subject.dimension, "Value": subject.id}]
    metric = {"Namespace": subject.namespace, "MetricName": counted.name, "Dimensions": dimensions}
    statistic = "Sum" if counted.sums else "Average"
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": period_s, "Stat": statistic}}


def _figures(subject: Subject, counted: Counted, told: Mapping[str, Any]) -> list[Figure]:
    # CloudWatch names a period by its start, Observed by its end.
    period_us = PERIOD_S * SECOND_US
    times = (round(at.timestamp()) * SECOND_US + period_us for at in told.get("Timestamps", ()))
    return [
        Figure(end_us, period_us, counted.metric, value * counted.factor, subject.labels)
        for end_us, value in zip(times, told.get("Values", ()), strict=True)
    ]


def _latencies(found: Mapping[str, Sequence[Figure]]) -> Iterable[Figure]:
    for metric, in_flight, coming, _ in LATENCIES:
        rates = {(each.t_us, each.labels): each.value for each in found.get(coming, ())}
        for each in found.get(in_flight, ()):
            # A minute without requests has no latency.
            if rate := rates.get((each.t_us, each.labels)):
                yield Figure(each.t_us, each.span_us, metric, 1000 * each.value / rate, each.labels)


def _moment(t_us: int) -> datetime:
    return datetime.fromtimestamp(t_us / SECOND_US, UTC)
