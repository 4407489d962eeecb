"""What Amazon's services report on a rented server during a trial; they are asked after it, as figures come late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pgdyno.records import CloudSource
from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.cloudwatch import asking_of_host, cloudwatch_figures, database
from pgdyno.targets.aws.faults import AwsError
from pgdyno.targets.aws.insights import insights_figures
from pgdyno.targets.aws.late import whole
from pgdyno.targets.aws.server import instance_of
from pgdyno.targets.aws.server_log import log_part
from pgdyno.targets.observed import Observed, Span
from pgdyno.targets.rental import Say, Told
from pgdyno.units import format_duration

_NAMES = {
    CloudSource.METRICS: "CloudWatch's figures",
    CloudSource.SESSIONS: "figures of Performance Insights",
    CloudSource.LOG: "the server's log",
}


def told_of_host(cloud: Cloud, requests: Sequence[str], span: Span, late_s: float, say: Say) -> Iterator[Told]:
    """Of the host that one of `requests` made."""
    yield _figures(CloudSource.METRICS, asking_of_host(cloud, requests, span), late_s, say)


def told_of_database(cloud: Cloud, instance: str, span: Span, late_s: float, say: Say) -> Iterator[Told]:
    """Of the database instance `instance`."""
    resource, problem = _resource(cloud, instance)
    # Performance Insights is there first, and CloudWatch is waited for
    if resource is not None:
        yield _figures(CloudSource.SESSIONS, partial(insights_figures, cloud, resource, span), late_s, say)
    else:
        yield _told(CloudSource.SESSIONS, problem)
    ask = partial(cloudwatch_figures, cloud, database(instance), span)
    yield _figures(CloudSource.METRICS, ask, late_s, say)
    yield _log(cloud, instance, span)


def _told(source: CloudSource, message: str | None) -> Told:
    return Told(source, _NAMES[source], message)


def _resource(cloud: Cloud, instance: str) -> tuple[str | None, str]:
    """The instance's id at Performance Insights; None with the reason."""
    try:
        found = instance_of(cloud, instance)
    except AwsError as error:
        return None, error.message
    if not found.get("PerformanceInsightsEnabled"):
        return None, "Performance Insights is switched off for this server"
    return str(found["DbiResourceId"]), ""


def _figures(source: CloudSource, ask: Callable[[], Observed], late_s: float, say: Say) -> Told:
    def waits() -> None:
        say(f"waiting for {_NAMES[source]}, up to {format_duration(max(late_s, 1.0))}")

    told = _told(source, None)
    try:
        told.observed = whole(ask, late_s, waits)
    except AwsError as error:
        return _told(source, error.message)
    told.notes = list(_spent(told.observed))
    return told


_CREDITS = {
    "storage_burst": ("burst credits of the volume", 100.0, " %"),
    "volume_burst": ("burst credits of the volume", 100.0, " %"),
    "ebs_io_burst": ("the instance's burst credits for requests to storage", 100.0, " %"),
    "ebs_byte_burst": ("the instance's burst credits for bytes to storage", 100.0, " %"),
    "cpu_credits": ("CPU credits", 1.0, ""),
}
LEAST_SPENT = 0.02
"""Of what was there when the trial began."""
_LIMITS = {"volume_iops_exceeded": "requests", "volume_throughput_exceeded": "bytes"}


def _by_what(found: Observed) -> dict[tuple[str, str], list[float]]:
    """Values in time, by metric and by the words that tell a volume from others."""
    values: dict[tuple[str, str], list[float]] = {}
    for each in found.figures:
        volume = dict(each.labels).get("volume", "")
        values.setdefault((each.metric, f" {volume}" if volume else ""), []).append(each.value)
    return values


def _spent(found: Observed) -> Iterator[str]:
    """What a trial lived on, and a longer one would not have had; and limits of volumes that it met."""
    for (metric, which), values in _by_what(found).items():
        if metric in _CREDITS and min(values) < (1 - LEAST_SPENT) * values[0]:
            words, factor, unit = _CREDITS[metric]
            fell = f"fell from {factor * values[0]:.3g} to {factor * min(values):.3g}{unit}"
            yield f"{words}{which} {fell}: when they are used up, the server is slower"
        if metric in _LIMITS and any(values):
            minutes = f"{sum(each > 0 for each in values)} of {len(values)} minutes"
            yield f"the volume{which} was asked for more {_LIMITS[metric]} than it gives in {minutes}"


def _log(cloud: Cloud, instance: str, span: Span) -> Told:
    try:
        part = log_part(cloud, instance, span)
    except AwsError as error:
        return _told(CloudSource.LOG, error.message)
    told = _told(CloudSource.LOG, "there was more than is kept" if part.cut else None)
    told.log, told.checkpoints = part.lines, part.checkpoints
    return told
