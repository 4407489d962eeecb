"""What went on beside a load: events, the ledger, standbys, the probe."""

from __future__ import annotations

from enum import StrEnum

from pgdyno.records.base import Record
from pgdyno.records.measured import Latency


class EventOutcome(StrEnum):
    """What became of an event of the plan."""

    DONE = "done"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """It was still going on when the trial ended, and was stopped."""
    NOT_REACHED = "not reached"
    """The trial ended before."""


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


class ReplicaFigures(Record):
    """What the load on one standby came to, in the whole seconds that lie within the trial's measured part."""

    name: str
    """As pg_stat_replication calls it: `pgdyno_1`."""
    clients: int
    measured_s: float
    """Of these seconds; 0 when there was none."""
    succeeded: int
    failed: int
    skipped: int
    tps: float | None
    latency_ns: Latency | None
    """None when nothing succeeded."""
    seed: int
    workers: int
    """Of its engine, in the end."""


class ReplicaLag(Record):
    """How far one standby was behind its primary during a trial, warm-up counted; asked for once a second.

    None where it never answered. Times are those of pg_stat_replication: from a flush at the primary until the
    standby said that it had written, flushed, replayed.
    """

    name: str
    sync_state: str | None
    """async, sync, quorum; that of the last answer."""
    samples: int
    """How often it was there when asked."""
    bytes_last: int | None
    """Of WAL that it had not replayed, at the last time of asking, up to a second before the trial's end."""
    bytes_max: int | None
    write_lag_max_s: float | None
    flush_lag_max_s: float | None
    replay_lag_max_s: float | None
    replay_lag_last_s: float | None
    """None, too, when there was nothing to replay."""
