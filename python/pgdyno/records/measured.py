"""What a trial measured, with what, and what its workload counts besides transactions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from statistics import median
from typing import ClassVar

from pydantic import AliasChoices, Field

from pgdyno.records.base import Record, Stage


class StatementCounts(Record):
    """Statements of a Lua script's clients in the measured part, as sysbench counts them."""

    reads: int
    """Statements that returned rows."""
    writes: int
    """Statements that changed rows."""
    others: int
    ignored_errors: int
    """Errors of the server that did not end a client: the event began again, or the script caught them."""
    reconnects: int

    @property
    def queries(self) -> int:
        return self.reads + self.writes + self.others


class TpccType(Record):
    """One of TPC-C's five transactions."""

    name: str
    count: int
    percent: float
    asked_percent: float
    p90_ns: int | None
    """90th percentile of its response time; None if none completed."""
    limit_s: float
    """The standard's limit (clause 5.2.5.4)."""

    @property
    def is_within(self) -> bool | None:
        """Return whether the limit is met; None if none completed."""
        return None if self.p90_ns is None else self.p90_ns <= self.limit_s * 1e9


class TpccFigures(Record):
    """TPC-C's own figures of a trial. Rates are per minute."""

    nopm: float
    """Committed New-Orders, counted by the driver."""
    tpm: float
    """Transactions counted by the driver, including intended rollbacks."""
    server_nopm: float | None
    """Increase of sum(d_next_o_id); None if the server could not be queried."""
    server_tpm: float | None
    """Increase of xact_commit + xact_rollback over all databases."""
    types: list[TpccType]


class TpchTiming(Record):
    """How long one query or refresh function of tpch took."""

    stream: int
    """0 for the power run; a refresh function of the throughput run has the stream whose pair it is."""
    query: str
    """`Q1` to `Q22`, `RF1` or `RF2`."""
    seconds: float


class TpchFigures(Record):
    """Figures of a trial of TPC-H, with the formulas of docs/guides/tpch.md. None if the run did not complete."""

    scale_factor: float
    streams: int
    power: float | None
    """Queries per hour x scale factor, by the geometric mean of the times of the power run."""
    throughput: float | None
    """Queries per hour x scale factor, of all streams together."""
    throughput_s: float | None
    """Length of the throughput run."""
    composite: float | None
    """Geometric mean of power and throughput."""
    timings: list[TpchTiming]
    """In the order of their end."""


class QueryRun(Record):
    """One run of a query that is a file."""

    query: str
    """The file, as in the plan."""
    client: int
    round: int
    """0 for the first run in its session."""
    seconds: float
    """From sending it to the end of its last row."""
    rows: int
    changed: bool = False
    """Whether its text had another constant, so that no cache could know its result; `round` then counts those before.
    """
    cached_share: float | None = None
    """Of a cold run, the share of the tables' pages in the kernel's cache before it; None for other runs."""
    blocks_read: int | None = None
    """Of a cold run, the blocks that the server read, with those of the catalogue."""

    @property
    def is_cold(self) -> bool:
        return self.cached_share is not None

    @property
    def is_repeat(self) -> bool:
        """Whether it repeats a text in its session."""
        return self.round > 0 and not self.changed

    @property
    def name(self) -> str:
        """Return what distinguishes its figures from others: `q1.sql`, `q1.sql (cold)`."""
        return f"{self.query} (cold)" if self.is_cold else self.query


class QueryResult(Record):
    """What a query returned, and what the server did for it, executed once after a trial."""

    query: str
    rows: int | None = None
    digest: str | None = None
    """Of all rows in any order, without columns of floats."""
    in_order: str | None = None
    """Of all rows in their order, likewise; None without ORDER BY."""
    float_sums: list[str] = []
    """The sum of each column of floats."""
    blocks_hit: int | None = None
    blocks_read: int | None = None
    temporary_blocks: int | None = None
    """Written; blocks are of 8 kB unless the server was built for others."""
    workers_planned: int | None = None
    workers_launched: int | None = None
    jit_ms: float | None = None
    reason: str | None = None
    """Why it has no result: it writes, for example."""
    instructions: float | None = None
    """Of one run in the server, without parallel workers; None unless the plan asks for them."""
    known: QueryResult | None = None
    """What it must return, if that is known; columns of numeric are then summed as those of floats."""


class Latency(Record):
    """Latency of succeeded transactions, in nanoseconds, from the intended start.

    pgdyno's own trials have every figure; imported ones have those that were printed, and None for the rest.
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


class Divergence(Record):
    """The statements of a class that disagreed with the capture."""

    id: int
    """Number of the class."""
    disagreements: dict[str, int]
    """By kind, as of the whole replay; without those that are 0."""
    sqlstate: str | None = None
    """Of the first error that follows from no other one; None if there was none."""
    message: str | None = None


class KeyCounts(Record):
    """Places of statements where the capture has a value that the server made."""

    mapped: int
    """Sent with the value that the server made during the replay."""
    not_mapped: int
    """Sent as captured: the statement that gives the value failed, had other rows, or came too late."""
    ambiguous: int
    """Sent as captured: several statements may have given the value."""


class ReplayFigures(Record):
    """What a replay counts besides transactions."""

    sessions: int
    """Sessions of the capture."""
    sessions_begun: int
    sessions_lost: int
    """Those whose connection was lost before their last statement."""
    statements: int
    """Statements of the capture."""
    done: int
    """Those that were sent and answered, also with an error."""
    not_started: int
    """Those that the end of the trial, or of their session, came before."""
    disagreements: dict[str, int]
    """Statements whose result differs from the captured one, by kind: `new_errors`, `missing_errors`,
    `other_errors`, `in_failed_transaction`, `different_rows`, `cancelled_waits`.
    """
    worst: list[Divergence] = []
    """The ten classes with the most; empty in records of earlier versions."""
    ids: KeyCounts | None = None
    """None in records of earlier versions."""
    copies_without_data: int = 0
    """COPY FROM STDIN whose rows the capture does not have."""
    lateness_ns: Latency | None = None
    """How long after their intended start statements began; None at the pace `max`, which intends none."""
    within_1ms: float | None = None
    """Share of the statements that began within 1 ms of their intended start."""
    delayed_by_answer: int = 0
    """Statements that were due while the answer before them in their session was not complete: the server's doing."""

    @property
    def disagreed(self) -> int:
        """Return the number of statements whose result differs."""
        return sum(self.disagreements.values())

    @property
    def agreement(self) -> float | None:
        """Return the share of the statements that had the captured result; None without any.

        Those that a lost connection prevented had another one.
        """
        expected = self.done + (self.not_started if self.sessions_lost else 0)
        return (self.done - self.disagreed) / expected if expected else None


class ScriptSummary(Record):
    """One script in the measured part of a trial."""

    id: int
    name: str
    weight: int
    succeeded: int
    failed: int
    skipped: int
    latency_ns: Latency | None = None
    retried: int | None = None
    """None, like retries, unless it was imported and printed."""
    retries: int | None = None


class ErrorCount(Record):
    """How often an error occurred."""

    sqlstate: str | None
    message: str
    count: int
    refused: bool = False
    """Whether the transactions had no connection."""


class ConnectFigures(Record):
    """Times to connect, with a connection for each transaction; of a part, those of the connections that had it."""

    count: int
    total: Latency | None
    socket: Latency | None
    """TCP, or the socket."""
    tls: Latency | None
    authentication: Latency | None
    backend_start: Latency | None
    """From the client's last message to ReadyForQuery."""


class PhaseFigures(Record):
    """One of the plan's phases: the transactions whose intended start is in it."""

    name: str
    result: bool
    """Whether it counts in the trial's figures."""
    measured_s: float
    scheduled: int
    succeeded: int
    failed: int
    skipped: int
    unstarted: int
    tps: float
    latency_ns: Latency | None
    """None if nothing succeeded."""


class StatementInstructions(Record):
    """A statement of a script, in the order of execution."""

    text: str
    """With `$1`, `$2`, … for variables."""
    instructions: float


class ScriptInstructions(Record):
    """What one script costs; each script is counted in a session of its own."""

    name: str
    weight: int
    instructions: float
    """Mean of a transaction."""
    statements: list[StatementInstructions]
    """Empty if transactions do not execute the same statements."""


class InstructionCounts(Record):
    """Instructions of user space that the server's process for the load executed."""

    counter: str
    """The program that counted: callgrind or perf."""
    transactions: int
    """Counted transactions of each script, after others that warm its session up."""
    instructions: float
    """Mean of a transaction, over the scripts by their weights."""
    scripts: list[ScriptInstructions]
    functions: dict[str, float]
    """Per transaction, of each function itself; those below 1/20,000 of a transaction are together in OTHERS."""
    jit: bool
    """The setting of the load's sessions."""

    OTHERS: ClassVar[str] = "[others]"


class Summary(Record):
    """The measured part of a trial: scheduled = succeeded + failed + skipped + in_flight.

    In an imported trial, figures that were not printed are None.
    """

    measured_s: float | None
    scheduled: int | None
    succeeded: int | None
    failed: int | None
    """None only if it was imported from a source that counts no failures; earlier versions stored 0 for those."""
    skipped: int
    in_flight: int | None
    retried: int | None
    """None, like retries, only if it was imported and the source does not show it; earlier versions stored 0."""
    retries: int | None
    clients_aborted: int
    unstarted: int = 0
    """Open loop: due before the end, but no client was free to start them; not included in any other figure."""
    tps: float
    latency_ns: Latency | None
    """None if nothing succeeded."""
    connect_us: int | None
    scripts: list[ScriptSummary]
    errors: list[ErrorCount]
    connect: ConnectFigures | None = None
    """Only with a connection for each transaction."""
    statements: StatementCounts | None = None
    """Only for sysbench's scripts and workloads."""
    tpcc: TpccFigures | None = None
    tpch: TpchFigures | None = None
    replay: ReplayFigures | None = None
    """Only for a replay."""
    queries: list[QueryRun] = []
    """In the order of their end; empty for loads that are not of query files."""
    phases: list[PhaseFigures] = []
    """In order; empty without phases, and in records of earlier versions."""
    instructions: InstructionCounts | None = None
    """Only if the trial counts instructions; its times are then those of a server that Valgrind slows down."""

    @property
    def rate_tps(self) -> float | None:
        """Transactions per second; None for queries that run once, each client's in one long transaction, and for
        trials that count instructions.
        """
        return None if self.tpch is not None or self.instructions is not None else self.tps

    @property
    def composite(self) -> float | None:
        """The figure of queries that run once; None for a stream of transactions, and if they did not complete."""
        return self.tpch.composite if self.tpch is not None else None

    @property
    def queries_s(self) -> float | None:
        """Return the sum over single queries of the median of their repeated runs; None without any."""
        times: dict[str, list[float]] = defaultdict(list)
        for each in self.queries:
            if each.is_repeat:
                times[each.query].append(each.seconds)
        return sum(map(median, times.values())) if times else None

    @property
    def refused(self) -> int:
        """Transactions of `failed` that had no connection."""
        return sum(each.count for each in self.errors if each.refused)

    @property
    def caught(self) -> int:
        """Errors of the server that a Lua script caught: those that it ignored and that began no event again."""
        return max(0, self.statements.ignored_errors - (self.retries or 0)) if self.statements is not None else 0

    @property
    def due(self) -> int:
        """Transactions that should have ended: scheduled, not in flight at the end; with those that never started."""
        # only imported trials have no counts
        return (self.scheduled or 0) - (self.in_flight or 0) + self.unstarted


class Failure(Record):
    """Why a trial failed."""

    stage: Stage
    id: str = ""
    """A `FailureId`; empty in records of earlier versions."""
    message: str
    hint: str | None = None
    sqlstate: str | None = None


class GeneratorHost(Record):
    """One of several generators that together generated the load."""

    name: str
    """Name of the node."""
    host: str
    """The host's own name."""
    boot: str = ""
    """Boot id of the machine; generators with the same id share it."""
    cores: int
    cpu_model: str
    """As reported by the host; also for a rented one."""
    zone: str | None = None
    """The provider's availability zone; None: it was not rented for the run."""
    instance: str | None = None
    """The rented type, possibly one of `instead`; None if it was not rented for the run."""
    round_trips: int | None = None
    """Round trips to the server, one after the other, directly before the trial; None if it was not rented."""
    round_trip_us: float | None = None
    """The fastest of them."""
    round_trip_median_us: float | None = None
    pgdyno: str
    pgdrive: str
    clients: int | None
    """None if it was lost before it reported them."""
    clients_aborted: int | None = None
    """Clients that aborted; None if the load was incomplete."""
    clock_ahead_us: int
    """How far its clock was ahead of pgdyno's before the load, accurate to half of the round trip."""
    clock_round_trip_us: int
    clock_ahead_after_us: int | None
    """The same after the load; this and the following are None if the load was incomplete."""
    report_delay_us: int = Field(validation_alias=AliasChoices("report_delay_us", "heard_late_us"))
    """Largest delay from the end of an interval to its arrival."""
    ray_cpu_us: dict[str, int] | None = None
    """Only in older run folders: CPU time of Ray on the host, `user` and `system`; the load's figure includes it."""
    start_late_us: int | None = None
    """Largest delay of a worker's start after the agreed time."""
    workers: int | None = None
    busiest_cpu_share: float | None = None
    """Share of a core that its busiest worker used in the measured part."""
    succeeded: int | None = None
    tps: float | None = None
    cpu_us: dict[str, int] | None = None
    ceiling_tps: float | None = None
    """Throughput against a null server, before the first trial; None if not measured."""

    @property
    def called(self) -> str:
        return f"{self.name} ({self.host})"


class WorkersTried(Record):
    """A number of engine threads that the warm-up tried, in run folders of pgdyno up to 0.2."""

    workers: int
    tps: float
    """Transactions per second, the median of its slots."""


class Generator(Record):
    """The engine that generated the load, as it resolved its options."""

    version: str
    workers: int
    io: str
    seed: int
    exit_code: int | None
    cpu_user_us: int | None = None
    cpu_system_us: int | None = None
    workers_tried: list[WorkersTried] = []
    """Only in older run folders; fewest first."""
    worker_added: int = 0
    """Only in older run folders: workers that were added during the measurement."""
    hosts: list[GeneratorHost] = []
    """The generators, if there are several; the figures above include all of them."""


OTHER_MESSAGES = "(other messages)"
"""How pgdrive counts those of a SQLSTATE beyond the first hundred."""
MOST_VALUES = 5
"""Messages that differ only in what is quoted and are told apart: they may name a constraint or a table."""
MOST_CHARACTERS = 200
_QUOTED = re.compile(r'"[^"]*"|«[^»]*»|„[^“]*“')


def merge_values(errors: Iterable[ErrorCount]) -> list[ErrorCount]:
    """Return `errors` with one message in place of many that differ in a quoted value.

    The most frequent come first, and those without their message last.
    """
    shapes: dict[tuple[str | None, str], Counter[str]] = defaultdict(Counter)
    for error in errors:
        shapes[error.sqlstate, _QUOTED.sub('"…"', error.message)][error.message] += error.count
    merged = [
        ErrorCount(sqlstate=sqlstate, message=message, count=count)
        for (sqlstate, shape), messages in shapes.items()
        for message, count in (messages.items() if len(messages) <= MOST_VALUES else [(shape, sum(messages.values()))])
    ]
    return sorted(merged, key=lambda each: (each.message == OTHER_MESSAGES, -each.count))


def most_frequent_error(errors: Iterable[ErrorCount]) -> ErrorCount | None:
    """Return the most frequent error of the most frequent SQLSTATE, if possible one whose message is known."""
    merged = merge_values(errors)
    by_state: Counter[str | None] = Counter()
    for each in merged:
        by_state[each.sqlstate] += each.count
    # the messages that pgdrive does not know are of the same kind as the others of their SQLSTATE
    return next((each for state, _ in by_state.most_common(1) for each in merged if each.sqlstate == state), None)


def error_words(error: ErrorCount) -> str:
    """Return the message, at most MOST_CHARACTERS of it, and the SQLSTATE of `error`."""
    whole = " ".join(error.message.split())
    message = whole if len(whole) <= MOST_CHARACTERS else whole[: MOST_CHARACTERS - 1] + "…"
    return message if error.sqlstate is None else f"{message} (SQLSTATE {error.sqlstate})"
