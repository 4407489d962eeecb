"""`manifest.json`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pgdyno.messages import Message, Parameter
from pgdyno.records.base import FORMAT, Instant, Outcome, Record
from pgdyno.records.imported import ImportRecord
from pgdyno.records.machine import Check, Fingerprint, Host, TargetRecord
from pgdyno.records.measured import Point
from pgdyno.records.rent import RentRecord

MOST_NOTES = 200
"""Notes that are shown; the file has all."""
LONGEST_NOTE = 2_000
"""Characters, likewise."""


class KeptMessage(Record):
    """A message as a record keeps it: with its templates, so that a later version shows what this one said."""

    id: str
    template: str
    plural: str | None = None
    parameters: dict[str, Parameter]

    @classmethod
    def of(cls, message: Message) -> KeptMessage:
        """`message`, to be kept."""
        return cls(id=message.id, template=message.template, plural=message.plural, parameters=message.parameters)

    @property
    def message(self) -> Message:
        """What was kept."""
        return Message(self.id, self.template, self.plural, **self.parameters)


class SearchRecord(Record):
    """What a search found at one target, with all but the searched parameter the same."""

    find: str
    """peak or capacity"""
    target: str
    point: Point
    """Where: of a peak with its clients, of a capacity with the highest rate that met the target."""
    trials: int
    """How many it took."""
    words: str
    """The result in a sentence, which is English."""
    messages: list[KeptMessage] = Field(default_factory=list)
    """The parts of that sentence; none in older records."""
    end: str | None = None
    """Of a peak: fell, limit or failed; see the guide."""
    tps: float | None = None
    """Mean over the trials there."""
    tps_half: float | None = None
    """Half of its 95 % interval."""
    knee: int | None = None
    """Of a peak: the fewest clients whose throughput is shown to be at least 95 % of it; None: not determined. In older
    records, the fewest whose interval overlaps its."""
    alike: tuple[int, int] | None = None
    """Of a peak: fewest and most clients around it of which that is true."""
    latency: str | dict[str, str] | None = None
    """Of a capacity: the target."""
    met: float | None = None
    """Of a capacity: the highest rate that met the target in all trials; None: the lowest rate did not."""
    missed: float | None = None
    """Of a capacity: the lowest rate above that missed it in all trials; None: the highest rate did not."""
    rate: float | None = None
    """Of a capacity: the rate that every other trial meets; None in older records."""
    rate_low: float | None = None
    """End of its 95 % interval; None where that is below the lowest rate of the plan."""
    rate_high: float | None = None
    """Likewise; None where it is above the highest."""


class KeptScript(Record):
    """A script file as it was when the run began; its copy lies in the run folder."""

    name: str
    """As the plan calls it."""
    kept: str
    """Path of the copy in the run folder."""
    sha256: str


class Attempt(Record):
    """One go at a run: the first, and one for each time that it was resumed."""

    started_at: Instant
    ended_at: Instant | None = None
    """None while it goes on, and for ever when it was killed."""
    ended: str | None = None
    """How it ended, in words that go on from "it": came to its end, was interrupted, was stopped: ...; of one that
    was killed, what the next one made of it."""
    pid: int
    boot: str
    """Which boot of the machine it belongs to."""
    host: Host
    pgdyno: str
    pgdrive: str


class Manifest(Record):
    """`manifest.json`: what this run is."""

    format: int = FORMAT
    run: str
    """Name of the folder."""
    pgdyno: str
    pgdrive: str | None
    started_at: Instant
    """Of an imported run, when it was imported."""
    ended_at: Instant | None = None
    plan_source: str
    plan_folder: str | None = None
    """Where its script files are found from, and hooks run; None in manifests of earlier versions."""
    plan: dict[str, Any]
    """The plan as resolved: every default filled in, `--set` applied."""
    workload: str
    """Its short name, for headings: `select-only`."""
    host: Host | None
    """None of an imported run, as `pgdrive`."""
    targets: list[TargetRecord]
    trials_planned: int
    search: list[SearchRecord] = Field(default_factory=list)
    """What the plan's search found; empty without one, and before it has ended."""
    order: list[str] = Field(default_factory=list)
    """Slugs of all planned trials in the order in which they run, fixed before the first; empty in records of
    earlier versions."""
    outcome: Outcome | None = None
    """None while the run goes on, or when it was killed."""
    notes: list[str] = Field(default_factory=list)
    scripts: list[KeptScript] | None = None
    """None in manifests of earlier versions."""
    attempts: list[Attempt] = Field(default_factory=list)
    """In their order; empty in manifests of earlier versions."""
    preflight: list[Check] = Field(default_factory=list)
    """The conditions as they were before the first trial; empty when nobody looked."""
    fingerprint: Fingerprint | None = None
    """None in folders of earlier versions."""
    rented: list[RentRecord] = Field(default_factory=list)
    """What its rented servers were paid for, by attempt; empty without any, and in folders of earlier versions."""
    imported: ImportRecord | None = None
    """None of a run of our own."""

    @property
    def shown_notes(self) -> list[str]:
        """The notes as reports and pages have them: of very many, the first; of a very long one, its beginning."""
        shown = [f"{each[:LONGEST_NOTE]}…" if len(each) > LONGEST_NOTE else each for each in self.notes[:MOST_NOTES]]
        left = len(self.notes) - len(shown)
        return [*shown, f"and {left:,} more notes in manifest.json"] if left else shown
