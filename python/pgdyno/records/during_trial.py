"""What went on during a load: events, the commit ledger, standbys, and the provider's figures."""

from enum import StrEnum

from pgdyno.records import FORMAT
from pgdyno.records.base import Record
from pgdyno.records.measured import Latency


class EventOutcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """It had not ended at the end of the trial, and was stopped."""
    NOT_REACHED = "not reached"
    """The trial ended before it."""


class Stall(Record):
    """The longest period before, during or after an event in which no transaction of any client succeeded."""

    part: str
    """before, during, after: where its middle is."""
    from_s: float
    """From the start of measuring."""
    seconds: float


class EventEffect(Record):
    """The effect on the load, from an event's start to the next one's, or to the end of measuring."""

    nobody_served_s: float
    """The longest period in which no transaction of any client succeeded; 0 if none lasted 10 ms."""
    first_success_s: float | None
    """From the event's start to the first success after that period; None if there was none."""
    failed: int
    """Transactions that failed, in whole seconds, including lost ones."""
    lost: int
    """Transactions whose connection was lost: whether they were committed is unknown."""
    connections_lost: int
    """Connections lost in outages that began in this period."""
    all_away_s: float
    """How long no client had a connection in these outages."""
    before_tps: float | None
    """Median of the measured seconds before the trial's first event; None for fewer than three, and with phases."""
    lowest_tps: float | None
    """The lowest of a complete second; None if there was none."""
    recovered_s: float | None
    """From the event's start to the first of three consecutive seconds that together were within 5 % of `before_tps`,
    or no slower than `before_latency_ns`, after the period without successes; None if that did not happen.
    """
    before_latency_ns: float | None = None
    """At a rate: 1.25 of the highest mean latency of three consecutive seconds before the trial's first event."""
    as_before_s: float | None = None
    """As `recovered_s`, from the event's end, in seconds after it; None in records of earlier versions, too."""
    stalls: list[Stall] = []
    """Of each part that has one of 10 ms."""


class EventRecord(Record):
    number: int
    """Position in the plan, from 1."""
    do: str
    """checkpoint, restart, kill, promote, pause, vacuum, backup, sql, or command."""
    command: str | None = None
    """The shell command, or the SQL."""
    at_s: float
    """Planned start, from the start of measuring."""
    began_s: float | None
    """Actual start; None if it never started."""
    seconds: float | None
    """Duration of the event; None if it did not end."""
    outcome: EventOutcome
    message: str | None = None
    """The event's own report, or why it failed."""
    effect: EventEffect | None = None
    """None if it never started."""
    is_control: bool = False
    """Whether the trial only waited in its place, as long as it took in others."""
    alone_s: float | None = None
    """How long it took after the load of a control, without any load."""


class LedgerRange(Record):
    """Transactions of a client by their numbers; both ends are included."""

    client: int
    first: int
    last: int


class LedgerRecord(Record):
    """The results that clients received, compared with the server's rows after the trial; includes the warm-up."""

    acknowledged: int
    """The server reported their success."""
    missing: int
    """Acknowledged, but missing in the database."""
    missing_ranges: list[LedgerRange]
    """The first 100 ranges of missing transactions."""
    unknown: int
    unknown_present: int
    """Unknown transactions that were committed."""
    refused: int
    """The server reported that they failed."""
    refused_present: int
    """Refused, but present in the database."""
    present: int
    """Rows in the table; duplicates count once."""
    duplicates: int
    """Rows that exist more than once."""
    strange: int
    """Rows that no client sent."""
    seconds: float
    """Duration of the check."""


class ReadOrder(Record):
    """Reads from a primary and its standbys in turn, 50 per second, of a time that is written 50 times per second."""

    reads: int
    went_back: int
    """Those that saw an older time than an earlier read, of whichever server, had seen."""
    furthest_s: float
    """By how much at most."""


class ArchiveBacklog(Record):
    """WAL files that waited for the plan's archive during a trial, warm-up included; sampled once per second."""

    samples: int
    segment_bytes: int
    """Size of a file."""
    archived: int
    failed: int
    """Attempts."""
    waiting_last: int
    """At the end; none waited at the beginning."""
    waiting_max: int


class BackgroundFigures(Record):
    """The load of a group in the background, in the complete seconds within the trial's measured part."""

    name: str
    """That of the group; in records of earlier versions, of the standby in pg_stat_replication: `pgdyno_1`."""
    clients: int
    measured_s: float
    """Number of these seconds; may be 0."""
    succeeded: int
    failed: int
    skipped: int
    tps: float | None
    latency_ns: Latency | None
    """None if nothing succeeded."""
    seed: int
    workers: int
    """Final number of workers of its engine."""


class ReplicaLag(Record):
    """The lag of one standby during a trial, including warm-up; sampled once per second.

    None if it never answered. Times are those of pg_stat_replication: from a flush on the primary until the standby
    reported write, flush, replay. A logical subscriber is sampled ten times per second; its replay lag is for how long
    the WAL after the position that its slot has confirmed has been on the publisher's disk.
    """

    name: str
    sync_state: str | None
    """async, sync or quorum, in the last sample."""
    samples: int
    """The number of samples in which it was connected."""
    bytes_last: int | None
    """WAL not yet replayed in the last sample, up to a second before the trial's end."""
    bytes_max: int | None
    write_lag_max_s: float | None
    flush_lag_max_s: float | None
    replay_lag_max_s: float | None
    replay_lag_last_s: float | None
    """None also if there was nothing to replay."""
    is_logical: bool = False
    """Whether it is a logical subscriber."""


class ClassLikeness(Record):
    """One class of statements in the capture and in the trial; latencies of None are unknown."""

    number: int
    text: str
    """The first characters of the statement."""
    captured_calls: int
    captured_share: float
    captured_errors: int
    captured_p50_us: float | None
    """Time on the server; for the trial, the time until the client had the whole answer."""
    captured_p99_us: float | None
    calls: int
    share: float
    errors: int
    p50_us: float | None
    p99_us: float | None


class CapturedWait(Record):
    """Mean sessions in a state while the load was captured."""

    wait: str
    """`CPU`, else type and event: `Lock:tuple`."""
    sessions: float


class Likeness(Record):
    """The load of a trial compared with the capture that it repeats or models."""

    captured_calls: int
    """Statements of the capture."""
    captured_per_s: float | None
    """Statements of the capture a second."""
    calls: int
    """Statements of the trial, with those that failed."""
    classes: list[ClassLikeness]
    """Those with the most time in the capture first; at most 100."""
    classes_left_out: int = 0
    """How many further classes there are."""
    largest_difference: float
    """The largest difference of a share, over all classes."""
    unlike_class: int | None = None
    """The number of the class with this difference; None: statements that are in no class of the capture."""
    outside: int = 0
    """Statements of the trial that are in no class of the capture."""
    not_modelled: float = 0.0
    """Share of the capture's statements whose classes are in no script."""
    copies_left_out: int = 0
    """COPY from the client: the capture has neither these statements nor their rows."""
    true_to: float | None = None
    """The least share of statements with the captured result of which figures stand; None if nothing is replayed."""
    waits: list[CapturedWait] = []
    """Of the capture; empty if it has no samples. The trial's own are in its table `waits`."""


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


class CloudReport(Record):
    """What one source reported."""

    source: CloudSource
    period_s: int | None = None
    """Its finest resolution; None for the log, whose lines have a second."""
    figures: int = 0
    """Number of samples, or of log lines."""
    gaps: list[CloudGap] = []
    message: str | None = None
    """Why figures are missing; None if all arrived."""


class CloudRecord(Record):
    """`cloud.json`."""

    format: int = FORMAT
    instance: str
    """The provider's name of the server."""
    shift_us: int
    """Subtracted from the provider's times to obtain the generator's: how far the server's clock was ahead at the start
    of the trial (`network_path` of trial.json); 0 if unknown.
    """
    sources: list[CloudReport]
