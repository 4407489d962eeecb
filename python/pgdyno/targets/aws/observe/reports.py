"""What Amazon's services report on a rented server: asked after the trial, because metrics arrive late."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pgdyno.messages import Message
from pgdyno.records import CloudSource
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, Patience
from pgdyno.targets.aws.databases.service import describe_resource
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.observe.cloudwatch import asking_of_host, cloudwatch_figures, database
from pgdyno.targets.aws.observe.server_log import log_part
from pgdyno.targets.rented.rental import (
    SECOND_US,
    Figure,
    Observed,
    Say,
    SourceReport,
    Span,
    is_complete,
    missing_spans,
)
from pgdyno.units import duration_words


def ask_until_complete(ask: Callable[[], Observed], within_s: float, waits: Callable[[], None]) -> Observed:
    """Call `ask` until its answer covers the whole span, or `within_s` have passed; what is missing then is a gap.

    Calls `waits` once if it has to wait. With 0 s, it calls `ask` once. Raises AwsError.
    """
    patience, waited = Patience(within_s), False
    while not (found := ask()).complete and not patience.is_over():
        if not waited:
            waits()
        waited = True
        patience.pause()
    return found


PERIOD_S = 1
CHUNK_S = 300
"""The seconds that one request covers."""
MOST_WAITS = 24
"""The most wait events of one request, by sessions; the total counts all."""
LOAD, SESSIONS = "load", "sessions"
METRICS = (
    (LOAD, "count", "active sessions, all waits and CPU together"),
    (SESSIONS, "count", "of these, in one wait; labels `wait_type` and `wait`"),
)
"""Metric, unit and meaning; values are means over the preceding second."""


def insights_figures(cloud: Cloud, resource: str, span: Span) -> Observed:
    """Return active sessions over `span` of the instance with the id `resource` (`db-ABC…`). Raises AwsError."""
    seconds = span.widen_to_periods(PERIOD_S)
    figures = [figure for part in _parts(seconds) for figure in _part(cloud, resource, part)]
    gaps = missing_spans(seconds, PERIOD_S, (each.t_us for each in figures if each.metric == LOAD))
    return Observed(PERIOD_S, figures, gaps, is_complete(seconds, gaps))


def _parts(span: Span) -> Iterator[Span]:
    for begin in range(span.from_us, span.to_us, CHUNK_S * SECOND_US):
        yield Span(begin, min(begin + CHUNK_S * SECOND_US, span.to_us))


def _part(cloud: Cloud, resource: str, part: Span) -> Iterator[Figure]:
    asked: dict[str, Any] = {
        "ServiceType": "RDS",
        "Identifier": resource,
        "MetricQueries": [{"Metric": "db.load.avg", "GroupBy": {"Group": "db.wait_event", "Limit": MOST_WAITS}}],
        "StartTime": datetime.fromtimestamp(part.from_us / SECOND_US, UTC),
        "EndTime": datetime.fromtimestamp(part.to_us / SECOND_US, UTC),
        "PeriodInSeconds": PERIOD_S,
        "PeriodAlignment": "END_TIME",
    }
    while True:
        answer = cloud.call("pi", "get_resource_metrics", **asked)
        for report in answer.get("MetricList", ()):
            yield from _insights_figures(report, part)
        if "NextToken" not in answer:
            return
        asked["NextToken"] = answer["NextToken"]


def _insights_figures(report: Mapping[str, Any], part: Span) -> Iterator[Figure]:
    dimensions = report["Key"].get("Dimensions")
    metric = SESSIONS if dimensions else LOAD
    labels = _labels(dimensions) if dimensions else ()
    for point in report.get("DataPoints", ()):
        value, t_us = point.get("Value"), round(point["Timestamp"].timestamp()) * SECOND_US
        # A second without a value is a gap. A wait event without sessions is not recorded.
        if value is None or math.isnan(value) or not part.from_us < t_us <= part.to_us:
            continue
        if value or metric == LOAD:
            yield Figure(t_us, SECOND_US, metric, float(value), labels)


def _labels(dimensions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    name = dimensions.get("db.wait_event.name", "")
    kind, _, wait = name.rpartition(":")
    kind = dimensions.get("db.wait_event.type", kind) or wait
    return (("wait", "" if wait.upper() == "CPU" else wait), ("wait_type", "CPU" if kind.upper() == "CPU" else kind))


_NAMES = {
    CloudSource.METRICS: Message("cloudwatch-figures", "CloudWatch's figures"),
    CloudSource.SESSIONS: Message("performance-insights-figures", "figures of Performance Insights"),
    CloudSource.LOG: Message("server-log", "the server's log"),
}


def host_reports(cloud: Cloud, requests: Sequence[str], span: Span, late_s: float, say: Say) -> Iterator[SourceReport]:
    yield _figures(CloudSource.METRICS, asking_of_host(cloud, requests, span), late_s, say)


def database_reports(cloud: Cloud, instance: str, span: Span, late_s: float, say: Say) -> Iterator[SourceReport]:
    resource, problem = _resource(cloud, instance)
    # Performance Insights has its figures earlier than CloudWatch.
    if resource is not None:
        yield _figures(CloudSource.SESSIONS, partial(insights_figures, cloud, resource, span), late_s, say)
    else:
        yield _report(CloudSource.SESSIONS, problem)
    ask = partial(cloudwatch_figures, cloud, database(instance), span)
    yield _figures(CloudSource.METRICS, ask, late_s, say)
    yield _log(cloud, instance, span)


def _report(source: CloudSource, message: Message | str | None) -> SourceReport:
    return SourceReport(source, _NAMES[source], message)


def _resource(cloud: Cloud, instance: str) -> tuple[str | None, Message | str]:
    """Return the instance's id at Performance Insights, or None and the reason."""
    try:
        found = describe_resource(cloud, Kind.DB_INSTANCE, instance)
    except AwsError as error:
        return None, error.message
    if not found.get("PerformanceInsightsEnabled"):
        return None, Message("performance-insights-off", "Performance Insights is switched off for this server")
    return str(found["DbiResourceId"]), ""


def _figures(source: CloudSource, ask: Callable[[], Observed], late_s: float, say: Say) -> SourceReport:
    def waits() -> None:
        say(f"waiting for {_NAMES[source]}, up to {duration_words(max(late_s, 1.0))}")

    report = _report(source, None)
    try:
        report.observed = ask_until_complete(ask, late_s, waits)
    except AwsError as error:
        return _report(source, error.message)
    report.notes = list(_report_volumes(report.observed))
    return report


LEAST_SPENT = 0.02
"""The smallest loss of credits that is reported, as a share of those at the start of the trial."""


def _by_volume(found: Observed) -> dict[tuple[str, str], list[float]]:
    values: dict[tuple[str, str], list[float]] = {}
    for each in found.figures:
        values.setdefault((each.metric, dict(each.labels).get("volume", "")), []).append(each.value)
    return values


def _report_volumes(found: Observed) -> Iterator[Message]:
    for (metric, volume), values in _by_volume(found).items():
        if min(values) < (1 - LEAST_SPENT) * values[0]:
            yield from _credits_spent(metric, volume, values[0], min(values))
        if any(values):
            yield from _limit_reached(metric, volume, sum(each > 0 for each in values), len(values))


def _credits_spent(metric: str, volume: str, first: float, least: float) -> Iterator[Message]:
    if metric in ("storage_burst", "volume_burst"):
        yield Message(
            "volume-credits-spent",
            "burst credits of the volume {volume} fell from {first:.1%} to {least:.1%}: when they are used up, the "
            "server is slower"
            if volume
            else "burst credits of the volume fell from {first:.1%} to {least:.1%}: when they are used up, the server "
            "is slower",
            volume=volume,
            first=first,
            least=least,
        )
    elif metric == "ebs_io_burst":
        yield Message(
            "request-credits-spent",
            "the instance's burst credits for requests to storage fell from {first:.1%} to {least:.1%}: when they are "
            "used up, the server is slower",
            first=first,
            least=least,
        )
    elif metric == "ebs_byte_burst":
        yield Message(
            "byte-credits-spent",
            "the instance's burst credits for bytes to storage fell from {first:.1%} to {least:.1%}: when they are "
            "used up, the server is slower",
            first=first,
            least=least,
        )
    elif metric == "cpu_credits":
        yield Message(
            "cpu-credits-spent",
            "CPU credits fell from {first:.3g} to {least:.3g}: when they are used up, the server is slower",
            first=first,
            least=least,
        )


def _limit_reached(metric: str, volume: str, minutes: int, all_minutes: int) -> Iterator[Message]:
    if metric == "volume_iops_exceeded":
        yield Message(
            "volume-iops-reached",
            "the volume {volume} reached its IOPS limit in {minutes} of {all} minutes"
            if volume
            else "the volume reached its IOPS limit in {minutes} of {all} minutes",
            volume=volume,
            minutes=minutes,
            all=all_minutes,
        )
    elif metric == "volume_throughput_exceeded":
        yield Message(
            "volume-throughput-reached",
            "the volume {volume} reached its throughput limit in {minutes} of {all} minutes"
            if volume
            else "the volume reached its throughput limit in {minutes} of {all} minutes",
            volume=volume,
            minutes=minutes,
            all=all_minutes,
        )


def _log(cloud: Cloud, instance: str, span: Span) -> SourceReport:
    try:
        part = log_part(cloud, instance, span)
    except AwsError as error:
        return _report(CloudSource.LOG, error.message)
    cut = Message("log-cut", "only part of it is kept")
    report = _report(CloudSource.LOG, cut if part.cut else None)
    report.log, report.checkpoints = part.lines, part.checkpoints
    return report
