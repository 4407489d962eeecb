"""Results of probes during a trial, where their lines are, and classes of waits: WAL apart, rare types together."""

from dataclasses import dataclass
from pathlib import Path

from pgdyno.records.base import Record

ALIGNED_US = 10_000
"""Seconds of two hosts count as aligned if the uncertainty is below this."""

WAIT_CLASSES = ("CPU", "I/O", "WAL", "Lock", "LWLock", "Client", "other")
"""In the order of stacks, from the bottom. tests/unit/test_wait_colours.py finds each place that needs a colour."""
_BY_TYPE = {
    "CPU": "CPU",
    "IO": "I/O",
    "Lock": "Lock",
    "BufferPin": "Lock",
    "LWLock": "LWLock",
    "Buffer": "LWLock",
    "Client": "Client",
}
"""Buffer is PostgreSQL 19's: locks of a buffer's content, which were LWLocks, and BufferPin's wait."""
_PIN = "BufferCleanup"
SHOWN_AS_OTHER = frozenset(["Activity", "Extension", "InjectionPoint", "IPC", "Timeout"])
WAIT_TYPES = _BY_TYPE.keys() | SHOWN_AS_OTHER
"""Every type that a server of 10 to 19 reports, and CPU."""


def wait_class(wait_type: str | None, wait: str | None) -> str:
    """Return the class of a wait: writing and syncing WAL is a class of its own, apart from other I/O."""
    if wait is not None and wait.upper().startswith("WAL"):
        return "WAL"
    return "Lock" if wait == _PIN else _BY_TYPE.get(wait_type or "", "other")


class ClockRecord(Record):
    """The clock of the database's host relative to the generator's, from round trips over SSH."""

    offset_us: int
    """How far its wall clock was ahead at the start of the trial; negative: behind."""
    uncertainty_us: int
    """Largest error in the time of a sample."""
    drift_ppm: float | None = None
    """How much faster it runs, in parts per million; None if the trial was too short or interrupted."""
    drift_uncertainty_ppm: float | None = None
    round_trip_us: int
    rounds: int
    """The number of measurements, each of several round trips."""
    aligned: bool
    """Whether the uncertainty is within 10 ms."""


class OverSshRecord(Record):
    """The probe on the database's host."""

    host: str
    """Name of the host in the plan."""
    version: str | None = None
    """None if it never started."""
    connections: int = 0
    """Connections: 1, and one more for each reconnect."""
    cpu_us: int | None = None
    """Its CPU time on that host; None if it was interrupted."""
    late: int | None = None
    """Samples that it skipped because their time had passed."""
    clock: ClockRecord | None = None
    """None if the clock could not be read: then its samples are not kept."""
    message: str | None = None
    """Why figures of the host are missing; None if all are there."""


class StandbyProbeRecord(Record):
    """The probe of one standby, over SQL."""

    name: str
    """Its name in pg_stat_replication: `pgdyno_1`."""
    cpu_us: int | None = None
    """CPU time of the probe; None if it was interrupted."""
    gaps: int = 0
    """Periods without figures."""
    warnings: list[str] = []
    """Missing sources with reasons."""
    message: str | None = None
    """Why figures are missing; None if all are there."""
    active: float | None = None
    """Mean number of active client sessions; None without a sample."""
    waits: dict[str, float] = {}
    """Mean active sessions by wait, the five largest: `CPU`, `IO:DataFileRead`; others than clients with their type."""


class PoolerRecord(Record):
    """The connection pooler of the load's clients, in the measured part of a trial, from its console."""

    name: str
    pool: int | None = None
    """Sessions at the server; None if only the pooler knows it."""
    samples: int = 0
    clients_waiting: float | None = None
    """Mean number of clients that waited for a session; None without a sample, as all below."""
    longest_wait_ms: float | None = None
    servers_active: float | None = None
    """Mean number of sessions that a client uses, and of those that no client uses."""
    servers_idle: float | None = None
    transactions: int | None = None
    queue_ms: float | None = None
    """Mean wait of a transaction for a session, and mean time that its statements took at the server."""
    server_ms: float | None = None
    message: str | None = None
    """Why figures are missing; None if all are there."""

    @property
    def is_exhausted(self) -> bool:
        """Return whether clients waited while all sessions of the pool were in use."""
        pool, active = self.pool, self.servers_active or 0.0
        return (self.clients_waiting or 0.0) >= 1 and pool is not None and active >= 0.9 * pool


class ProbeRecord(Record):
    """The result of the probe during a trial."""

    version: str | None = None
    """None if it never started."""
    waits_hz: int | None = None
    """Session samples per second; None if the server was not sampled."""
    host: bool = False
    server: bool = False
    """Whether the server was to be sampled; `host` says the same of its host."""
    cpu_us: int | None = None
    """CPU time of the probe; None if it was interrupted."""
    late: int | None = None
    """Samples that it skipped because their time had passed."""
    gaps: int = 0
    """Periods without figures; the table of events lists them."""
    warnings: list[str] = []
    """Missing sources with reasons, the first 20."""
    message: str | None = None
    """Why figures are missing; None if all are there."""
    standbys: list[StandbyProbeRecord] = []
    pooler: PoolerRecord | None = None
    over_ssh: OverSshRecord | None = None
    """The probe on the database's host, if the plan has SSH access; the other fields are the local probe's."""


@dataclass(frozen=True, slots=True)
class PlacedLines:
    """A file of pgprobe's lines, and how its times convert to the engine's."""

    path: Path
    offset_us: float
    """The engine's time at which the probe's was 0."""
    rate: float = 1.0
    """The engine's microseconds for one of the probe's."""
    epoch_us: int | None = None
    """The engine's start since 1970, if wall times are to be the generator's; None keeps the probe's."""
    own_source: str = "probe"
    """The source name under which the probe's own figures are stored."""
    standby: str | None = None
    """The standby; None for the primary and its host."""
