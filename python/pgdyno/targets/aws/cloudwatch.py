"""CloudWatch's figures of a server, by the minute: the finest period that it has of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.counted import DATABASE, HOST, LATENCIES, PERIOD_S, VOLUME, Counted
from pgdyno.targets.aws.devices import DATA_DEVICE, WAL_DEVICE
from pgdyno.targets.aws.faults import AwsError, NotThereError
from pgdyno.targets.observed import SECOND_US, Figure, Observed, Span, is_complete, missing

_VOLUMES: Mapping[str, str] = {DATA_DEVICE: "data", WAL_DEVICE: "wal"}


@dataclass(frozen=True, slots=True)
class Subject:
    """What CloudWatch knows by one name."""

    namespace: str
    dimension: str
    id: str
    metrics: tuple[Counted, ...]
    labels: tuple[tuple[str, str], ...] = ()


def database(instance: str) -> list[Subject]:
    """The database instance of this name."""
    return [Subject("AWS/RDS", "DBInstanceIdentifier", instance, DATABASE)]


def host(cloud: Cloud, tokens: Iterable[str]) -> list[Subject]:
    """The running instance that one of the requests with these tokens made, and its volumes. Raises AwsError."""
    filters = [{"Name": "client-token", "Values": list(tokens)}]
    for reservation in cloud.each("ec2", "describe_instances", "Reservations", Filters=filters):
        for each in reservation["Instances"]:
            if each["State"]["Name"] == "running":
                return [Subject("AWS/EC2", "InstanceId", each["InstanceId"], HOST), *_volumes(each)]
    raise NotThereError("the instance is not there any more")


def _volumes(instance: Mapping[str, Any]) -> list[Subject]:
    return [
        Subject("AWS/EBS", "VolumeId", each["Ebs"]["VolumeId"], VOLUME, (("volume", _role(instance, each)),))
        for each in instance.get("BlockDeviceMappings", ())
    ]


def _role(instance: Mapping[str, Any], mapping: Mapping[str, Any]) -> str:
    device = mapping["DeviceName"]
    return "root" if device == instance.get("RootDeviceName") else _VOLUMES.get(device, device)


def asking_of_host(cloud: Cloud, tokens: Iterable[str], span: Span) -> Callable[[], Observed]:
    """Asks for what `host` names, as often as it is called; the host is looked up by the first call. Raises AwsError.

    While figures are waited for, a host stays what it is, and so do its volumes.
    """
    subjects = cache(partial(host, cloud, tuple(tokens)))
    return lambda: cloudwatch_figures(cloud, subjects(), span)


_ALWAYS = "cpu"
"""What every server has: it tells how far the figures have come."""


def cloudwatch_figures(cloud: Cloud, subjects: Sequence[Subject], span: Span) -> Observed:
    """All metrics of `subjects` over the whole minutes that `span` touches. Raises AwsError.

    A metric that has nothing in it at all is one that the server does not have.
    """
    minutes = span.widened(PERIOD_S)
    pairs = ((subject, each) for subject in subjects for each in subject.metrics)
    asked = {f"m{place}": pair for place, pair in enumerate(pairs)}
    answered = cloud.each(
        "cloudwatch",
        "get_metric_data",
        "MetricDataResults",
        MetricDataQueries=[_query(name, *pair) for name, pair in asked.items()],
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
    gaps = missing(minutes, PERIOD_S, (each.t_us for each in found[_ALWAYS]))
    every = [*(each for of in found.values() for each in of), *_latencies(found)]
    figures = sorted(every, key=lambda each: (each.t_us, each.metric, each.labels))
    return Observed(PERIOD_S, figures, gaps, is_complete(minutes, gaps))


def _query(name: str, subject: Subject, counted: Counted) -> Mapping[str, Any]:
    dimensions = [{"Name": subject.dimension, "Value": subject.id}]
    metric = {"Namespace": subject.namespace, "MetricName": counted.name, "Dimensions": dimensions}
    statistic = "Sum" if counted.sums else "Average"
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": PERIOD_S, "Stat": statistic}}


def _figures(subject: Subject, counted: Counted, told: Mapping[str, Any]) -> list[Figure]:
    # CloudWatch names a period by its begin
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
            # a minute without requests has no latency
            if rate := rates.get((each.t_us, each.labels)):
                yield Figure(each.t_us, each.span_us, metric, 1000 * each.value / rate, each.labels)


def _moment(t_us: int) -> datetime:
    return datetime.fromtimestamp(t_us / SECOND_US, UTC)
