"""What was done before a trial, and checked behind it."""

from __future__ import annotations

from pydantic import Field

from pgdyno.records.base import Record


class PrepareStep(Record):
    """One thing that was done before a trial."""

    name: str
    """load, read sums, vacuum, template, copy, stop, start, verify, checkpoint, restart and the like."""
    seconds: float
    detail: str | None = None


class Preparation(Record):
    """What was done to bring the target to the state in which a trial starts."""

    method: str
    """How the dataset was brought back: reset.method of the plan."""
    seconds: float
    """All steps together."""
    steps: list[PrepareStep]
    """In their order."""
    dataset_bytes: int | None = None
    """Main forks of the dataset's tables and indexes; None when the shares were not asked for."""
    shared_buffers_share: float | None = None
    """How much of them was in shared buffers at the end; None where that cannot be known."""
    page_cache_share: float | None = None
    """How much of them was in the operating system's page cache at the end; likewise."""


class Leftovers(Record):
    """Sessions of earlier trials of the run that were still in the server when a trial was due."""

    sessions: int
    """How many were found, on the server and its standbys."""
    seconds: float
    """How long the trial waited until the last of them had ended."""
    canceled: int = 0
    """Statements that did not end by themselves, and were canceled."""
    terminated: int = 0
    """Sessions that did not end then either, and were terminated."""


class Consistency(Record):
    """What was checked behind a trial, after its figures were taken."""

    scope: str
    """full, counts or none."""
    rule: str
    """What had to hold, in words."""
    seconds: float
    counts: dict[str, int]
    """Rows by table, exact; tables that were not counted are absent."""
    changes: dict[str, int] = Field(default_factory=dict)
    """Full only: how much the sum of balances of each table changed during the trial, and the sum of the rows
    that pgbench_history got meanwhile."""
    violations: list[str] = Field(default_factory=list)
