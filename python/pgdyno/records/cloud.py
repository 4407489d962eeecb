"""The cloud provider's monitoring of a rented server during a trial: `cloud.json`, which is written after the trial."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from pgdyno.records.base import FORMAT, Record


class CloudSource(StrEnum):
    """The source of the figures; the first two are sources in `cloud_series`."""

    METRICS = "cloudwatch"
    """Metrics of the provider; run folders keep the name of the first service that had them."""
    SESSIONS = "insights"
    """Active sessions, sampled by the provider."""
    LOG = "log"


class CloudGap(Record):
    """A period of the trial without figures from a source. Gaps are not filled."""

    from_s: float
    to_s: float
    """Relative to the time at which the trial's first transaction was due, warm-up included; may be negative."""


class CloudTold(Record):
    """What one source reported."""

    source: CloudSource
    period_s: int | None = None
    """Its finest resolution; None for the log, whose lines have a second."""
    figures: int = 0
    """Number of samples, or of log lines."""
    gaps: list[CloudGap] = Field(default_factory=list)
    message: str | None = None
    """Why figures are missing; None if all arrived."""


class CloudRecord(Record):
    """`cloud.json`."""

    format: int = FORMAT
    instance: str
    """The provider's name of the server."""
    shift_us: int
    """Subtracted from the provider's times to obtain the generator's: how far the server's clock was ahead at the start
    of the trial (`way` of trial.json); 0 if unknown.
    """
    sources: list[CloudTold]
