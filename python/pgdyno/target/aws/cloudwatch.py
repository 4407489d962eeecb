"""CloudWatch's figures of a database instance, by the minute: the finest period that it has of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgdyno.target.aws.cloud import Cloud
from pgdyno.target.aws.faults import AwsError
from pgdyno.target.aws.observed import SECOND_US, Figure, Observed, Span, is_complete, missing

PERIOD_S = 60
NAMESPACE = "AWS/RDS"


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric of Amazon's, and what it is called here."""

    name: str
    """Amazon's."""
    metric: str
    unit: str
    """share, bytes, ms, count, and these a second."""
    meaning: str
    factor: float = 1.0
    """From Amazon's unit."""


METRICS = (
    Counted("CPUUtilization", "cpu", "share", "processors that were busy", 0.01),
    Counted("DatabaseConnections", "connections", "count", "sessions, also those that rest"),
    Counted("FreeableMemory", "free_memory", "bytes", "memory that is free, or can be had at once"),
    Counted("SwapUsage", "swap_used", "bytes", "swap in use"),
    Counted("ReadIOPS", "reads", "count/s", "read requests to storage"),
    Counted("WriteIOPS", "writes", "count/s", "write requests to storage"),
    Counted("ReadThroughput", "read", "bytes/s", "read from storage"),
    Counted("WriteThroughput", "written", "bytes/s", "written to storage"),
    Counted("ReadLatency", "read_latency", "ms", "a read request, on average", 1000.0),
    Counted("WriteLatency", "write_latency", "ms", "a write request, on average", 1000.0),
    Counted("DiskQueueDepth", "queue", "count", "requests that wait for storage"),
    Counted("NetworkReceiveThroughput", "received", "bytes/s", "over the network, the service's own among it"),
    Counted("NetworkTransmitThroughput", "sent", "bytes/s", "likewise"),
    Counted("BurstBalance", "storage_burst", "share", "of a gp2 volume's burst credits that is left", 0.01),
    Counted(
        "EBSIOBalance%", "ebs_io_burst", "share", "of the instance's burst credits for requests that is left", 0.01
    ),
    Counted("EBSByteBalance%", "ebs_byte_burst", "share", "likewise for bytes", 0.01),
    Counted("CPUCreditBalance", "cpu_credits", "count", "credits of a burstable class that are left"),
    Counted("CPUSurplusCreditBalance", "cpu_surplus_credits", "count", "credits that it has had beyond these"),
    Counted("TransactionLogsGeneration", "wal", "bytes/s", "WAL (RDS)"),
    Counted("CommitLatency", "commit_latency", "ms", "a commit, on average (Aurora)"),
    Counted("CommitThroughput", "commits", "count/s", "commits (Aurora)"),
    Counted("StorageNetworkReceiveThroughput", "storage_received", "bytes/s", "from the cluster's storage (Aurora)"),
    Counted("StorageNetworkTransmitThroughput", "storage_sent", "bytes/s", "to the cluster's storage (Aurora)"),
)
"""All that is asked for; an instance has some of them."""
_ALWAYS = "cpu"
"""What every instance has: it tells how far the figures have come."""


def cloudwatch_figures(cloud: Cloud, instance: str, span: Span) -> Observed:
    """All metrics of `instance` over the whole minutes that `span` touches. Raises AwsError.

    A metric that has nothing in it at all is one that the instance does not have.
    """
    minutes = span.widened(PERIOD_S)
    asked = {f"m{place}": each for place, each in enumerate(METRICS)}
    answered = cloud.each(
        "cloudwatch",
        "get_metric_data",
        "MetricDataResults",
        MetricDataQueries=[_query(name, each, instance) for name, each in asked.items()],
        StartTime=_moment(minutes.from_us),
        EndTime=_moment(minutes.to_us),
        ScanBy="TimestampAscending",
    )
    found: dict[str, list[Figure]] = defaultdict(list)
    for each in answered:
        if each.get("StatusCode") == "Forbidden":
            raise AwsError("the permission cloudwatch:GetMetricData is missing for these metrics", code="Forbidden")
        counted = asked[each["Id"]]
        found[counted.metric] += _figures(counted, each)
    gaps = missing(minutes, PERIOD_S, (each.t_us for each in found[_ALWAYS]))
    figures = sorted((each for of in found.values() for each in of), key=lambda each: (each.t_us, each.metric))
    return Observed(PERIOD_S, figures, gaps, is_complete(minutes, gaps))


def _query(name: str, counted: Counted, instance: str) -> Mapping[str, Any]:
    dimensions = [{"Name": "DBInstanceIdentifier", "Value": instance}]
    metric = {"Namespace": NAMESPACE, "MetricName": counted.name, "Dimensions": dimensions}
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": PERIOD_S, "Stat": "Average"}}


def _figures(counted: Counted, told: Mapping[str, Any]) -> list[Figure]:
    # CloudWatch names a period by its begin
    period_us = PERIOD_S * SECOND_US
    return [
        Figure(round(at.timestamp()) * SECOND_US + period_us, period_us, counted.metric, value * counted.factor)
        for at, value in zip(told.get("Timestamps", ()), told.get("Values", ()), strict=True)
    ]


def _moment(t_us: int) -> datetime:
    return datetime.fromtimestamp(t_us / SECOND_US, UTC)
