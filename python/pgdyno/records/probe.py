"""How the probes beside a trial fared, and where their lines belong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from pgdyno.records.base import Record

ALIGNED_US = 10_000
"""Seconds of two hosts line up when their instants can be told to this."""


class ClockRecord(Record):
    """The clock of the database's host against the generator's, from round trips over SSH."""

    offset_us: int
    """By how much its wall clock was ahead when the trial began; negative: behind."""
    uncertainty_us: int
    """Most by which a sample may be placed wrongly."""
    drift_ppm: float | None = None
    """How much faster it goes, parts in a million; None: the trial was too short, or cut."""
    drift_uncertainty_ppm: float | None = None
    round_trip_us: int
    """The quickest."""
    rounds: int
    """How often it was asked, each time by several round trips."""
    aligned: bool
    """Whether the uncertainty is within 10 ms."""


class OverSshRecord(Record):
    """The probe on the database's host."""

    host: str
    """As the plan names it."""
    version: str | None = None
    """None when it never began."""
    connections: int = 0
    """1, and one more for each time that the connection was cut and made anew."""
    cpu_us: int | None = None
    """What it cost there; None when it broke off."""
    late: int | None = None
    """Samples that it left out because their time had passed."""
    clock: ClockRecord | None = None
    """None when the clock could not be asked for: then its samples are not kept."""
    message: str | None = None
    """Why there are no figures of the host, or not all; None when all went well."""


class StandbyProbeRecord(Record):
    """The probe of one standby, over SQL."""

    name: str
    """As pg_stat_replication calls it: `pgdyno_1`."""
    cpu_us: int | None = None
    """What it cost; None when it broke off."""
    gaps: int = 0
    warnings: list[str] = Field(default_factory=list)
    message: str | None = None
    """All three as in `ProbeRecord`."""
    active: float | None = None
    """Mean number of active sessions of clients; None when nobody looked."""
    waits: dict[str, float] = Field(default_factory=dict)
    """Mean number of active sessions by what they waited for, the five with the most: `CPU`, `IO:DataFileRead`;
    of others than clients with their kind in front."""


class ProbeRecord(Record):
    """How the probe beside a trial fared."""

    version: str | None = None
    """None when it never began."""
    waits_hz: int | None = None
    """How often a second it looked at sessions; None when the server was not sampled."""
    host: bool = False
    server: bool = False
    """Whether each was to be sampled."""
    cpu_us: int | None = None
    """What it cost; None when it broke off."""
    late: int | None = None
    """Samples that it left out because their time had passed."""
    gaps: int = 0
    """Stretches without figures; the table of events says when."""
    warnings: list[str] = Field(default_factory=list)
    """What it lacked: source and reason, the first 20."""
    message: str | None = None
    """Why there are no figures, or not all; None when all went well."""
    standbys: list[StandbyProbeRecord] = Field(default_factory=list)
    over_ssh: OverSshRecord | None = None
    """Of the database's host, where the plan says how to get there; the rest is then of the probe here."""


@dataclass(frozen=True, slots=True)
class PlacedLines:
    """A file of pgprobe's lines, and how its times become the engine's."""

    path: Path
    offset_us: float
    """The engine's time at which the probe's was 0."""
    rate: float = 1.0
    """The engine's microseconds for one of the probe's."""
    epoch_us: int | None = None
    """The engine's start since 1970, where wall times are to be the generator's; None: as the probe has them."""
    own_source: str = "probe"
    """What the probe's figures of itself are stored as."""
    standby: str | None = None
    """Whose figures they are; None: the primary's, and its host's."""
