"""`trial.json`, with what was done before a trial and where load and server were."""

from pydantic import AliasChoices, Field

from pgdyno.records import FORMAT
from pgdyno.records.base import Instant, Outcome, Record, server_name
from pgdyno.records.during_trial import (
    ArchiveBacklog,
    BackgroundFigures,
    EventRecord,
    LedgerRecord,
    Likeness,
    ReadOrder,
    ReplicaLag,
)
from pgdyno.records.imported import Imported
from pgdyno.records.measured import Failure, Generator, QueryResult, Summary
from pgdyno.records.point import Point
from pgdyno.records.probe import ProbeRecord


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
    """Number of sessions on the server and its standbys."""
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
    changes: dict[str, int] = {}
    """With scope full only: the change of each table's sum of balances, and the sum of pgbench_history's new rows."""
    violations: list[str] = []


class StepRecord(Record):
    name: str
    does: str
    """sql, vacuum, checkpoint or wait."""
    seconds: float
    wal_bytes: int | None = None
    """WAL that the server wrote meanwhile; None on a standby."""


class NetworkPathRecord(Record):
    """Measured directly before a trial; for several rented generators, each has its own in `generator.hosts`."""

    round_trips: int
    """The number of statements that were sent, one after the other, over one connection."""
    generator: str | None = None
    """For several rented generators, the one farthest from the server, with its host."""
    least_us: float
    """The fastest of them, including the server's time for an empty answer."""
    median_us: float
    clock_ahead_us: int | None = None
    """How far the server's clock was ahead of the generator's, even if that is rented; negative: behind."""
    clock_uncertainty_us: int | None = None
    """Half of the fastest round trip in which it was read; with a rented generator, the sum for both clocks."""
    generator_zone: str | None = None
    """Availability zone of the machine that the load came from, of several the farthest; None: it was not
    rented, or its provider does not report it."""
    server_zone: str | None = None
    """None if the server was not rented for the run."""
    instance: str | None = None
    """The rented class, possibly one of `instead`."""
    cpu_model: str | None = None
    """As reported on the server itself; None if that is not accessible."""


class DuetRecord(Record):
    """A trial that ran at the same time as another one, each on half of the processors.

    The figures of such a trial depend on its partner: only their ratio means something.
    """

    partner: int
    """Number of the other trial."""
    processors: list[int]
    """Those of its server, its generator and its probe."""
    tps_ratio: float | None = None
    """Its throughput over its partner's: geometric mean over shared seconds; None if one had no transaction."""
    seconds: float = 0.0
    """Total length of the seconds that both measured."""


class TrialRecord(Record):
    """`trial.json`: one repetition of a point."""

    format: int = FORMAT
    number: int
    """Position in the run's order, from 1."""
    slug: str
    target: str
    instance: int | None = None
    """Number of the target's instance, from 1; None for a target that is one server, and in earlier records."""
    point: Point
    session_settings: dict[str, str] = {}
    """The settings of each connection of the load; empty in records of earlier versions."""
    repeat: int
    """Counted from 1."""
    control: bool = False
    """Whether it is the second trial of the baseline in its block; false in records of earlier versions."""
    started_at: Instant | None
    """None, like the end, in an imported trial whose source does not report it."""
    ended_at: Instant | None
    warmup_s: float
    begin_s: float = 0.0
    """When a group of clients began, from the start of measuring; 0 in records of earlier versions."""
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
    events: list[EventRecord] = []
    """The plan's events, in its order."""
    ledger: LedgerRecord | None = None
    """None without a commit ledger, and if it could not be checked."""
    archive: ArchiveBacklog | None = None
    """None without an archive in the plan."""
    read_order: ReadOrder | None = None
    """None without a commit ledger, and without standbys."""
    background: list[BackgroundFigures] = Field(
        default_factory=list, validation_alias=AliasChoices("background", "replica_load")
    )
    """By group in the background; of groups at once, with the first trial. No other figure includes it."""
    beside: list[int] = []
    """Numbers of the trials of other groups of clients, which ran at the same time on the same server."""
    steps: list[StepRecord] = []
    """What the plan's steps did between the load before and this one, or after the last load."""
    replication: list[ReplicaLag] = []
    """By standby; empty without standbys."""
    probe: ProbeRecord | None = None
    """None without a probe, and in records of earlier versions."""
    network_path: NetworkPathRecord | None = Field(default=None, validation_alias=AliasChoices("network_path", "way"))
    """The network path to the server; None if it was not measured, and in records of earlier versions."""
    likeness: Likeness | None = None
    """None for a load without a capture, and if nothing was measured."""
    query_results: list[QueryResult] = []
    """With the first trial of query files in each arm at each point; empty in others."""
    duet: DuetRecord | None = None
    """None for a trial that ran alone, and in earlier records."""
    imported: Imported | None = None
    """None in pgdyno's own trials."""

    @property
    def server(self) -> str:
        """Return the name of its server: that of the target, with the number of an instance."""
        return server_name(self.target, self.instance)

    @property
    def load_begins_us(self) -> int:
        """Return when its load began, on the clock of timelines: 0 is the start of measuring, the warm-up is before."""
        return round((self.begin_s - self.warmup_s) * 1e6)

    @property
    def is_seen(self) -> bool:
        """Return whether the trial may have figures of the server: from a probe, or from the cloud provider."""
        return self.probe is not None or (self.network_path is not None and self.network_path.instance is not None)
