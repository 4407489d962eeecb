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
    """Place in the run's order, from 1."""
    slug: str
    target: str
    point: Point
    repeat: int
    """From 1."""
    started_at: Instant | None
    """None in an imported trial whose source does not tell it; likewise the end."""
    ended_at: Instant | None
    warmup_s: float
    duration_s: float | None
    transactions: int | None
    outcome: Outcome
    failure: Failure | None = None
    generator: Generator | None = None
    summary: Summary | None = None
    prepare: Preparation | None = None
    """None in records of earlier versions, and when the trial failed before it was prepared."""
    leftovers: Leftovers | None = None
    """None when no session of an earlier trial was in the server, and in records of earlier versions."""
    consistency: Consistency | None = None
    """None when nothing was checked, as behind a trial that failed."""
    attempt: int = 1
    """Which of the manifest's attempts made it, from 1."""
    events: list[EventRecord] = Field(default_factory=list)
    """The plan's events, in its order."""
    ledger: LedgerRecord | None = None
    """None without a ledger, and when it could not be checked."""
    replica_load: list[ReplicaFigures] = Field(default_factory=list)
    """By standby; empty without a load on them. They are in no other figure of the trial."""
    replication: list[ReplicaLag] = Field(default_factory=list)
    """By standby; empty without standbys."""
    probe: ProbeRecord | None = None
    """None without a probe, and in records of earlier versions."""
    way: WayRecord | None = None
    """From the load to the server; None where it was not measured, and in records of earlier versions."""
    imported: Imported | None = None
    """None in trials of our own."""

    @property
    def is_seen(self) -> bool:
        """Whether there may be figures of the server besides the engine's: of a probe, or of who rents it out."""
        return self.probe is not None or (self.way is not None and self.way.instance is not None)
