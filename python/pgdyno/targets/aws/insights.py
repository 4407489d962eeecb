"""Performance Insights: active sessions by what they waited for, second by second."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.observed import SECOND_US, Figure, Observed, Span, is_complete, missing

PERIOD_S = 1
CHUNK_S = 300
"""So much is asked for at once."""
MOST_WAITS = 24
"""Waits of a stretch, those with the most sessions; the sum has all."""
LOAD, SESSIONS = "load", "sessions"
METRICS = (
    (LOAD, "count", "active sessions, all waits and CPU together"),
    (SESSIONS, "count", "of these, in one wait; labels `wait_type` and `wait`"),
)
"""Metric, unit, meaning: averages over the second before."""


def insights_figures(cloud: Cloud, resource: str, span: Span) -> Observed:
    """Active sessions of the instance with the id `resource` (`db-ABC…`) over `span`. Raises AwsError."""
    seconds = span.widened(PERIOD_S)
    figures = [figure for part in _parts(seconds) for figure in _part(cloud, resource, part)]
    gaps = missing(seconds, PERIOD_S, (each.t_us for each in figures if each.metric == LOAD))
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
        for told in answer.get("MetricList", ()):
            yield from _figures(told, part)
        if "NextToken" not in answer:
            return
        asked["NextToken"] = answer["NextToken"]


def _figures(told: Mapping[str, Any], part: Span) -> Iterator[Figure]:
    dimensions = told["Key"].get("Dimensions")
    metric = SESSIONS if dimensions else LOAD
    labels = _labels(dimensions) if dimensions else ()
    for point in told.get("DataPoints", ()):
        value, t_us = point.get("Value"), round(point["Timestamp"].timestamp()) * SECOND_US
        # a second without a value is a gap; a wait that nobody was in is left out
        if value is None or math.isnan(value) or not part.from_us < t_us <= part.to_us:
            continue
        if value or metric == LOAD:
            yield Figure(t_us, SECOND_US, metric, float(value), labels)


def _labels(dimensions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """As the probe's waits have them: `IO` and `DataFileRead` of `IO:DataFileRead`."""
    name = dimensions.get("db.wait_event.name", "")
    kind, _, wait = name.rpartition(":")
    kind = dimensions.get("db.wait_event.type", kind) or wait
    return (("wait", "" if wait.upper() == "CPU" else wait), ("wait_type", "CPU" if kind.upper() == "CPU" else kind))
