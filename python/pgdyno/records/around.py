"""What was done before a trial, and checked after it."""

from __future__ import annotations

from pydantic import Field

from pgdyno.records.base import Record


class PrepareStep(Record):
    """One step before a trial."""

    name: str
    """load, read sums, vacuum, template, copy, stop, start, verify, checkpoint, restart and the like."""
    seconds: float
    detail: str | None = None


class Preparation(Record):
    """The steps that restored the state in which a trial starts."""

    method: str
    """How the dataset was restored: reset.method of the plan."""
    seconds: float
    """Duration of all steps."""
    steps: list[PrepareStep]
    """In order."""
    dataset_bytes: int | None = None
    """Main forks of the dataset's tables and indexes; None if the shares were not requested."""
    shared_buffers_share: float | None = None
    """Share of these bytes in shared buffers at the end; None if unknown."""
    page_cache_share: float | None = None
    """Share of these bytes in the operating system's page cache at the end; None if unknown."""


class Leftovers(Record):
    """Sessions of earlier trials of the run that were still in the server before a trial."""

    sessions: int
    """Their number, on the server and its standbys."""
    seconds: float
    """How long the trial waited for the last of them to end."""
    canceled: int = 0
    """Statements that pgdyno canceled because they did not end by themselves."""
    terminated: int = 0
    """Sessions that pgdyno terminated because canceling did not end them."""


class Consistency(Record):
    """The consistency check after a trial, which follows its measurement."""

    scope: str
    """full, counts or none."""
    rule: str
    """The condition, in words."""
    seconds: float
    counts: dict[str, int]
    """Exact rows by table; tables that were not counted are absent."""
    changes: dict[str, int] = Field(default_factory=dict)
    """With scope full only: the change of each table's sum of balances during the trial, and the sum over the rows that
    pgbench_history gained.
    """
    violations: list[str] = Field(default_factory=list)
