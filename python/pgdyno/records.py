"""Records that pass from step to step and onto disk. Format 1 of a run folder.

Times are ISO 8601 in UTC; latencies are nanoseconds unless a name says otherwise.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
"""Version of the run folder that this code writes."""


class Record(BaseModel):
    """Base of all records: immutable; fields of later versions are kept, not refused."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Outcome(StrEnum):
    """How a trial ended."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Stage(StrEnum):
    """Where a trial failed."""

    TARGET = "target"
    PREPARE = "prepare"
    RUN = "run"
    HOOK = "hook"
    """A command of the plan's [hooks] failed before the trial."""
    VERIFY = "verify"
    """The trial's figures were taken, and then the dataset was found not to hold together."""


class EventOutcome(StrEnum):
    """What became of an event of the plan."""

    DONE = "done"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """It was still going on when the trial ended, and was stopped."""
    NOT_REACHED = "not reached"
    """The trial ended before."""


class Point(Record):
    """One combination of the sweep's parameters."""

    clients: int
    """0 only in an imported trial whose source does not tell them."""
    workers: int | None = None
    """Engine threads as the plan asks; None leaves it to the engine."""
    protocol: str = "simple"
    """Empty only in an imported trial whose source does not tell it."""
    scale: int | None = None
    rate: float | None = None
    """Transactions a second in open loop; None in closed loop."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Swept settings of the server, over those of its target; empty when none are swept."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Swept variables of scripts, over the workload's; empty when none are swept."""

    def parameter(self, name: str) -> int | float | str | None:
        """The value of `workers`, `settings.work_mem` and the like; None for one that is left open here."""
        group, dot, key = name.partition(".")
        value: int | float | str | None = getattr(self, group).get(key) if dot else getattr(self, name)
        return value

    def parameters(self) -> list[str]:
        """Names of all parameters but the clients, in reading order; settings and variables as they are there."""
        further = [f"{group}.{name}" for group in ("settings", "variables") for name in getattr(self, group)]
        return ["protocol", "scale", "workers", "rate", *further]


class Latency(Record):
    """Latency of succeeded transactions, nanoseconds, from the intended start.

    Trials of our own have every figure; imported ones have those that were printed, and None for the rest.
    """

    mean: float | None = None
    stddev: float | None = None
    min: int | None = None
    p50: int | None = None
    p75: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None
    p999: int | None = None
    p9999: int | None = None
    max: int | None = None


class ScriptSummary(Record):
    """What one script did in the measured part of a trial."""

    id: int
    name: str
    weight: int
    succeeded: int
    failed: int
    skipped: int
    latency_ns: Latency | None = None


class ErrorCount(Record):
    """How often an error came."""

    sqlstate: str | None
    message: str
    count: int


class Summary(Record):
    """The measured part of a trial: scheduled = succeeded + failed + skipped + in_flight.

    Of an imported trial, what was not printed is None; a tool that tells nothing of failures counts none.
    """

    measured_s: float | None
    scheduled: int | None
    succeeded: int | None
    failed: int
    skipped: int
    in_flight: int | None
    retried: int
    retries: int
    clients_aborted: int
    unstarted: int = 0
    """Open loop: due before the end, and no client was free to begin them; in no other figure."""
    tps: float
    latency_ns: Latency | None
    """None when nothing succeeded."""
    connect_us: int | None
    scripts: list[ScriptSummary]
    errors: list[ErrorCount]


class Failure(Record):
    """Why a trial is not a result."""

    stage: Stage
    message: str
    hint: str | None = None
    sqlstate: str | None = None


class Generator(Record):
    """The engine that made the load, as it resolved itself."""

    version: str
    workers: int
    io: str
    seed: int
    exit_code: int | None
    cpu_user_us: int | None = None
    cpu_system_us: int | None = None


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


class EventEffect(Record):
    """What the load did from an event's begin to the next one's, or to the end of measuring."""

    nobody_served_s: float
    """The longest stretch in which no transaction of any client succeeded; 0 when none lasted 10 ms."""
    first_success_s: float | None
    """From the event's begin to the first success behind that stretch; None when there was none."""
    failed: int
    """Transactions that failed, by whole seconds; those lost are among them."""
    lost: int
    """Transactions whose connection was lost: whether they were committed is not known."""
    connections_lost: int
    """In outages that began in this stretch."""
    all_away_s: float
    """For how long, in these, no client had a connection."""
    before_tps: float | None
    """Median of the whole measured seconds before the trial's first event; None below three, and with phases."""
    lowest_tps: float | None
    """Of a whole second; None when there was none."""
    recovered_s: float | None
    """From the event's begin to the first of three seconds in a row that together were within 5 % of `before_tps`,
    and that lie behind the stretch in which nobody was served; None when that did not come."""


class EventRecord(Record):
    """An event of the plan, as it happened in a trial."""

    number: int
    """Place in the plan, from 1."""
    do: str
    """checkpoint, restart, kill, promote, pause, vacuum, or command."""
    command: str | None = None
    at_s: float
    """When it was meant to begin, from the start of measuring."""
    began_s: float | None
    """When it began; None when it never did."""
    seconds: float | None
    """How long it took."""
    outcome: EventOutcome
    message: str | None = None
    """What it says of itself, or why it failed."""
    effect: EventEffect | None = None
    """None when it never began."""


class LedgerRange(Record):
    """Transactions of a client, by their numbers in it; both ends belong to it."""

    client: int
    first: int
    last: int


class LedgerRecord(Record):
    """What clients heard of their transactions beside what the server had of them after the trial, warm-up counted."""

    acknowledged: int
    """Their success was answered."""
    missing: int
    """Acknowledged, and not there."""
    missing_ranges: list[LedgerRange]
    """Which: the first 100 ranges."""
    unknown: int
    """Nothing was heard of their end."""
    unknown_present: int
    """Of these, there: committed, and not heard of."""
    refused: int
    """The server said that they failed."""
    refused_present: int
    """Of these, there."""
    present: int
    """Rows in the table, those that are there twice counted once."""
    duplicates: int
    """Rows that were there before."""
    strange: int
    """Rows that no client has sent."""
    seconds: float
    """How long the check took."""


class Printed(Record):
    """A line of a file, and what was read in it."""

    line: int
    text: str


class Imported(Record):
    """Where an imported trial is from (lines count from 1), and its figures as they were printed."""

    file: str
    """Name of the file; the manifest has its path and its hash."""
    line: int
    last_line: int
    tool: str
    """pgbench, pgbench-log, sysbench, hammerdb, csv or table."""
    version: str | None = None
    command: str | None = None
    """The command line above the output; the version, too, is the tool's."""
    figures: dict[str, float] = Field(default_factory=dict)
    """Every figure in the unit of its name: `tps`, `latency_mean_ms`, `latency_p95_ms`; see the guide."""
    printed: dict[str, Printed] = Field(default_factory=dict)
    """By the same names: where each stood."""
    words: dict[str, str] = Field(default_factory=dict)
    """Heading, host and other words that tell it from its neighbours."""


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
    started_at: datetime | None
    """None in an imported trial whose source does not tell it; likewise the end."""
    ended_at: datetime | None
    warmup_s: float
    duration_s: float | None
    transactions: int | None
    outcome: Outcome
    failure: Failure | None = None
    generator: Generator | None = None
    summary: Summary | None = None
    prepare: Preparation | None = None
    """None in records of earlier versions, and when the trial failed before it was prepared."""
    consistency: Consistency | None = None
    """None when nothing was checked, as behind a trial that failed."""
    attempt: int = 1
    """Which of the manifest's attempts made it, from 1."""
    events: list[EventRecord] = Field(default_factory=list)
    """The plan's events, in its order."""
    ledger: LedgerRecord | None = None
    """None without a ledger, and when it could not be checked."""
    imported: Imported | None = None
    """None in trials of our own."""


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
    """The result in a sentence."""
    end: str | None = None
    """Of a peak: fell, limit or failed; see the guide."""
    tps: float | None = None
    """Mean over the trials there."""
    tps_half: float | None = None
    """Half of its 95 % interval."""
    knee: int | None = None
    """Of a peak: the fewest clients whose throughput cannot be told from it."""
    alike: tuple[int, int] | None = None
    """Of a peak: fewest and most clients around it of which that is true."""
    latency: str | dict[str, str] | None = None
    """Of a capacity: the target."""
    met: float | None = None
    """Of a capacity: the highest rate that met the target in all trials; None: the lowest rate did not."""
    missed: float | None = None
    """Of a capacity: the lowest rate above that missed it in all trials; None: the highest rate did not."""


class Host(Record):
    """The machine that a run ran on."""

    cpu_model: str
    cores: int
    memory_bytes: int
    kernel: str
    os: str
    architecture: str


class CheckVerdict(StrEnum):
    """What a check of the conditions comes to, the worst last; `unknown` is what could not be seen."""

    GOOD = "good"
    UNKNOWN = "unknown"
    NOTE = "note"
    WARNING = "warning"
    STOP = "stop"


class Check(Record):
    """One condition of a run, as `pgdyno doctor` found it."""

    id: str
    """Of `docs/reference/doctor.md`: `storage.fsync`."""
    verdict: CheckVerdict
    found: str
    """What is there."""
    means: str = ""
    """What it means for the plan."""
    change: str = ""
    """How to change it."""
    measured: dict[str, float | int | str] = Field(default_factory=dict)
    """Figures for programs, with the unit at the end of each name."""


class HostPrint(Record):
    """What of the machine must be alike for two runs to be comparable."""

    cpu_model: str
    cores: int
    numa_nodes: int | None = None
    threads_per_core: int | None = None
    memory_bytes: int
    cpu_limit: float | None = None
    """Cores that the control group allows; None without a limit."""
    memory_limit_bytes: int | None = None
    """Of the control group; None without a limit."""
    virtualisation: str | None = None
    """`none`, the hypervisor's name, or `unknown hypervisor`; None where that cannot be told."""
    architecture: str
    kernel: str
    os: str
    boot: dict[str, str] = Field(default_factory=dict)
    """Those parameters of the kernel's command line that change speed; a bare one has an empty value."""
    tuning: dict[str, str] = Field(default_factory=dict)
    """Settings of the kernel that change speed: governor, huge pages, swappiness, clock source."""
    disks: dict[str, str] = Field(default_factory=dict)
    """File system, device and its kind, by what lies there: `data of pg18`."""


class ServerPrint(Record):
    """What of a server must be alike."""

    version: str
    version_full: str
    configure: str | None = None
    """Arguments of its configure or meson, as pg_config tells; None where the server does not tell."""
    settings_changed: dict[str, str] = Field(default_factory=dict)
    """Settings whose source is not the default."""
    data_checksums: bool = False
    dataset_marks: list[str] = Field(default_factory=list)
    """What was loaded, by its marks: `pgbench version 1 scale 10`."""


class Fingerprint(Record):
    """What must be equal for two results to be comparable."""

    host: HostPrint
    pgdyno: str
    pgdrive: str
    generator: str
    """Where the load comes from: `the same machine`."""
    seed: int
    workload: dict[str, Any] = Field(default_factory=dict)
    """Scripts, dataset and variables as resolved; files with their SHA-256."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """How the state before every trial was made."""
    servers: dict[str, ServerPrint] = Field(default_factory=dict)
    """By target; those that have started."""


class ServerFacts(Record):
    """What a target turned out to be."""

    version: str
    """As the server says: "18.6"."""
    version_full: str
    """select version()"""
    settings_changed: dict[str, str]
    """Settings whose source is not the default, by name, in the server's units."""
    data_checksums: bool
    cluster_bytes: int | None = None


class TargetRecord(Record):
    """A target of a run: what the plan asked for, and what came."""

    name: str
    kind: str
    asked: dict[str, Any]
    facts: ServerFacts | None = None
    """None until it has started once."""


class KeptScript(Record):
    """A script file as it was when the run began; its copy lies in the run folder."""

    name: str
    """As the plan calls it."""
    kept: str
    """Path of the copy in the run folder."""
    sha256: str


class Attempt(Record):
    """One go at a run: the first, and one for each time that it was resumed."""

    started_at: datetime
    ended_at: datetime | None = None
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


class ImportedFile(Record):
    """A file that was imported."""

    path: str
    sha256: str
    trials: int


class ImportedLine(Record):
    """A line of a file, as it stands there."""

    file: str
    line: int
    text: str


class ImportedClaim(ImportedLine):
    """An equation that a file prints: `€ 0.17 ((€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS)`."""

    printed: float
    decimals: int
    """Digits behind the point of what is printed."""
    computed: float
    """What its own inputs give."""


class ImportRecord(Record):
    """What an imported run was made of."""

    files: list[ImportedFile]
    claims: list[ImportedClaim] = Field(default_factory=list)
    facts: dict[str, list[ImportedLine]] = Field(default_factory=dict)  # by what they tell: `autovacuum`, `tmpfs`
    unread: list[ImportedLine] = Field(default_factory=list)


class Manifest(Record):
    """`manifest.json`: what this run is."""

    format: int = FORMAT
    run: str
    """Name of the folder."""
    pgdyno: str
    pgdrive: str | None
    started_at: datetime
    """Of an imported run, when it was imported."""
    ended_at: datetime | None = None
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
    imported: ImportRecord | None = None
    """None of a run of our own."""
