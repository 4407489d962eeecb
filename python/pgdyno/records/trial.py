"""`trial.json`."""

from __future__ import annotations

from pydantic import Field

from pgdyno.records.around import Consistency, Leftovers, Preparation
from pgdyno.records.base import FORMAT, Instant, Outcome, Record
from pgdyno.records.beside import EventRecord, LedgerRecord, ReplicaFigures, ReplicaLag
from pgdyno.records.imported import Imported
from pgdyno.records.measured import Failure, Generator, Point, Summary
from pgdyno.records.probe import ProbeRecord
from pgdyno.records.way import WayRecord


class TrialRecord(Record):
    """`trial.json`: one repetition of a point."""

    format: int = FORMAT
    number: int
    """Position in the run's order, from 1."""
    slug: str
    target: str
    point: Point
    repeat: int
    """From 1."""
    started_at: Instant | None
    """None, like the end, in an imported trial whose source does not report it."""
    ended_at: Instant | None
    warmup_s: float
    duration_s: float | None
    transactions: int | None
    outcome: Outcome
    failure: Failure | None = None
    generator: Generator | None = None
    summary: Summary | None = None
    prepare: Preparation | None = None
    """None in records of earlier versions, and if the trial failed before its preparation."""
    leftovers: Leftovers | None = None
    """None if the server had no session of an earlier trial, and in records of earlier versions."""
    consistency: Consistency | None = None
    """None if nothing was checked, as after a failed trial."""
    attempt: int = 1
    """The number of the attempt in the manifest, from 1."""
    events: list[EventRecord] = Field(default_factory=list)
    """The plan's events, in its order."""
    ledger: LedgerRecord | None = None
    """None without a commit ledger, and if it could not be checked."""
    replica_load: list[ReplicaFigures] = Field(default_factory=list)
    """By standby; empty without a load on them. No other figure of the trial includes it."""
    replication: list[ReplicaLag] = Field(default_factory=list)
    """By standby; empty without standbys."""
    probe: ProbeRecord | None = None
    """None without a probe, and in records of earlier versions."""
    way: WayRecord | None = None
    """The network path to the server; None if it was not measured, and in records of earlier versions."""
    imported: Imported | None = None
    """None in pgdyno's own trials."""

    @property
    def is_seen(self) -> bool:
        """Return whether the trial may have figures of the server besides the engine's: from a probe, or from the cloud
        provider.
        """
        return self.probe is not None or (self.way is not None and self.way.instance is not None)
