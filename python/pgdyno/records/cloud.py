"""What the service tells of a rented server beside a trial: `cloud.json`, which comes after the trial is whole."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from pgdyno.records.base import FORMAT, Record


class CloudSource(StrEnum):
    """Who told it; the first two are sources in `cloud_series`."""

    CLOUDWATCH = "cloudwatch"
    INSIGHTS = "insights"
    LOG = "log"


class CloudGap(Record):
    """A stretch of the trial of which a source says nothing. Nothing is filled in."""

    from_s: float
    to_s: float
    """Since the trial's first transaction was due, warm-up counted; negative before it."""


class CloudTold(Record):
    """What one source told."""

    source: CloudSource
    period_s: int | None = None
    """The finest that it has; None of the log, whose lines have a second."""
    figures: int = 0
    """Samples; lines of the log."""
    gaps: list[CloudGap] = Field(default_factory=list)
    message: str | None = None
    """Why there is nothing, or not all; None when all came."""


class CloudRecord(Record):
    """`cloud.json`."""

    format: int = FORMAT
    instance: str
    """As the service calls the server."""
    shift_us: int
    """What was taken from the service's times to have the generator's: the server's clock was ahead by so much when
    the trial began (`way` of trial.json); 0 where that was not measured."""
    sources: list[CloudTold]
