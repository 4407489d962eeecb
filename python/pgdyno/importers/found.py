"""What a parser found: one output of a tool, as printed, and where it stood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Tool = Literal["pgbench", "sysbench", "hammerdb", "benchbase", "table", "csv"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One row of `pgbench -r`."""

    text: str
    latency_ms: float
    failures: int | None = None
    retries: int | None = None
    script: int = 0
    """Which of the output's scripts it belongs to, from 0."""


@dataclass(slots=True)
class ScriptPart:
    """What pgbench reports for one of several scripts."""

    name: str
    weight: int = 1
    transactions: int | None = None
    failed: int = 0
    skipped: int = 0
    latency_mean_ms: float | None = None
    latency_stddev_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of progress: what happened since the line before."""

    line: int
    at_s: float
    """Seconds from the start, at the end of the stretch."""
    tps: float
    latency_ms: float | None = None
    stddev_ms: float | None = None
    p95_ms: float | None = None
    """The percentile that sysbench was told to print; 95 unless told otherwise."""
    failed: float | None = None
    lag_ms: float | None = None
    skipped: float | None = None


@dataclass(slots=True)
class Output:
    """One output. What was not printed is None: nothing is filled in."""

    tool: Tool
    line: int
    """Where it begins, from 1."""
    last_line: int
    target: str | None = None
    """What a heading or a column says was measured."""
    version: str | None = None
    """Of the tool."""
    command: str | None = None
    """The command line above it."""
    workload: str | None = None
    scale: int | None = None
    warehouses: int | None = None
    clients: int | None = None
    workers: int | None = None
    protocol: str | None = None
    rate: float | None = None
    duration_s: float | None = None
    transactions: int | None = None
    transactions_per_client: int | None = None
    failed: int | None = None
    skipped: int | None = None
    retried: int | None = None
    retries: int | None = None
    schedule_lag_ms: float | None = None
    """Mean, under a rate limit."""
    goodput: float | None = None
    """BenchBase's: requests a second that were completed; `tps` has those that were aborted, too."""
    reads: int | None = None
    writes: int | None = None
    others: int | None = None
    errors: int | None = None
    tps: float | None = None
    tps_excluding_connections: float | None = None
    qps: float | None = None
    nopm: float | None = None
    tpm: float | None = None
    latency_mean_ms: float | None = None
    latency_stddev_ms: float | None = None
    latency_min_ms: float | None = None
    latency_max_ms: float | None = None
    percentiles_ms: dict[float, float] = field(default_factory=dict)
    """By percentile: {95.0: 20.74}."""
    connect_ms: float | None = None
    client_transactions_mean: float | None = None
    """By client, as client_transactions_stddev."""
    client_transactions_stddev: float | None = None
    group: int = 0
    """Line on which its table begins, from 1; 0 outside of tables. A table's rows are points of one target."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of the server, as columns."""
    variables: dict[str, str] = field(default_factory=dict)
    """Given on the command line with -D, or as a column."""
    words: dict[str, str] = field(default_factory=dict)
    """Anything else that tells this output from its neighbours: a word of a heading or a column."""
    server: str = ""
    """Host, port and database of the command line."""
    options: str = ""
    """Options of the command line that a point does not hold, in order: `-C -L 100`."""
    asked: dict[str, object] = field(default_factory=dict)
    """What the command line says, by field: a summary that says something else is another run's."""
    place: tuple[str, ...] = ()
    """Headings above it, the highest first; names of machines and versions among them."""
    section: int = 0
    """Counts the texts between outputs: outputs with no text between them have the same."""
    warmup: str | None = None
    """What says that it is a warm-up run."""
    aborted: str | None = None
    """What says that the run was aborted."""
    clients_aborted: int = 0
    scripts: list[ScriptPart] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    progress: list[Moment] = field(default_factory=list)
    printed: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By field: the line on which it stood and the text that was read, for whoever doubts it."""

    def put(self, name: str, value: object, line: int, text: str) -> None:
        """Sets field `name` to what stood in `line`."""
        setattr(self, name, value)
        self.printed[name] = (line, text.strip())
        self.last_line = max(self.last_line, line)


@dataclass(frozen=True, slots=True)
class Claim:
    """An equation that a document prints: `€ 0.17 ((€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS)`."""

    line: int
    text: str
    printed: float
    decimals: int
    """Digits after the point of what is printed."""
    computed: float
    currency: str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """A line that tells of a setting, of storage or of what was swept."""

    line: int
    name: str
    """`autovacuum`, `tmpfs`, `sweep`."""
    text: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A line with figures that no parser understood."""

    line: int
    text: str
