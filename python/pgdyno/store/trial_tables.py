"""The tables of a trial: one dataclass each, whose fields are the columns in order.

`docs/reference/run-folder.md` describes them for users; a test compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

Integer = Annotated[int, "INTEGER"]
BigInt = Annotated[int, "BIGINT"]
Double = Annotated[float, "DOUBLE"]
Text = Annotated[str, "VARCHAR"]
Blob = Annotated[bytes, "BLOB"]

TOTAL = -1
"""`second` of the histogram that holds a script's whole measured part."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One script in one second; latencies are None if none of its transactions succeeded in it."""

    trial: Integer
    second: Integer
    """Number of the interval from 0, including warm-up and drain; `from_us` is its time."""
    from_us: BigInt
    to_us: BigInt
    """Bounds since the first transaction was due in the file, since the start of measuring where `RunData` reads."""
    phase: Text
    """warm-up, measure or drain"""
    script: Integer
    succeeded: BigInt
    failed: BigInt
    skipped: BigInt
    retried: BigInt
    retries: BigInt
    in_flight: Integer | None = None
    """Of all scripts, at the end of the second: the same in every script's row. None if imported."""
    clients: Integer | None = None
    """Clients of all scripts together. None if imported from a source that does not report them."""
    latency_sum_ns: Double | None = None
    latency_min_ns: BigInt | None = None
    p50_ns: BigInt | None = None
    p95_ns: BigInt | None = None
    p99_ns: BigInt | None = None
    p999_ns: BigInt | None = None
    latency_max_ns: BigInt | None = None
    worker_cpu_us: BigInt | None = None
    """Of all workers together, in every script's row of a second. None if imported."""
    phase_name: Text | None = None
    """The plan's phase; None without phases, and after the last one."""


@dataclass(frozen=True, slots=True)
class HistogramRow:
    """Latencies of one script in one second, or in its whole measured part (`second` = TOTAL)."""

    trial: Integer
    second: Integer
    phase: Text
    script: Integer
    histogram: Blob
    """HdrHistogram V2, compressed, nanoseconds."""


@dataclass(frozen=True, slots=True)
class StatementRow:
    """One statement of a script in the measured part; latencies are None if it never succeeded."""

    trial: Integer
    script: Integer
    statement: Integer
    """The number of its command in the script, including meta commands."""
    line: Integer
    text: Text
    """The first line of the statement."""
    executions: BigInt | None = None
    """None, like failures, if an imported table of statements has no counts."""
    failures: BigInt | None = None
    latency_mean_ns: Double | None = None
    p50_ns: BigInt | None = None
    p95_ns: BigInt | None = None
    p99_ns: BigInt | None = None
    latency_max_ns: BigInt | None = None
    rows: BigInt | None = None
    """Returned or changed by all executions; None if the server does not say it, and in an explicit pipeline."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """Any other event of the engine."""

    trial: Integer
    t_us: BigInt
    """Since the engine's start."""
    kind: Text
    client: Integer | None
    script: Integer | None
    command: Integer | None
    sqlstate: Text | None
    message: Text | None
    detail: Text
    """The other fields, a JSON object."""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A line of pg_settings."""

    trial: Integer
    name: Text
    setting: Text | None
    unit: Text | None
    source: Text | None


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A sample of the probe; docs/reference/probe.md describes the metrics."""

    trial: Integer
    t_us: BigInt
    """Since the engine's start; negative before it."""
    wall_us: BigInt
    """Since 1970."""
    span_us: BigInt | None
    """Time since the sample before; None in the first."""
    source: Text
    metric: Text
    labels: Text
    """A JSON object."""
    value: Double


@dataclass(frozen=True, slots=True)
class WaitRow:
    """Sessions that waited for one thing in one sample of the probe; a sample without sessions has one row of 0."""

    trial: Integer
    t_us: BigInt
    """Since the engine's start; negative before it."""
    wall_us: BigInt
    """Since 1970."""
    backend_type: Text | None
    wait_type: Text | None
    """CPU if they did not wait."""
    wait: Text | None
    query_id: BigInt | None
    sessions: Integer


@dataclass(frozen=True, slots=True)
class StandbySeriesRow(SeriesRow):
    """A sample of a standby."""

    standby: Text
    """Its name in pg_stat_replication."""


@dataclass(frozen=True, slots=True)
class StandbyWaitRow(WaitRow):
    """Sessions of a standby."""

    standby: Text


@dataclass(frozen=True, slots=True)
class ServerStatementRow:
    """One statement from pg_stat_statements over a trial, among the 100 with the most execution time.

    Figures are None if the server's version of the extension lacks them.
    """

    trial: Integer
    since_us: BigInt
    """Start of the count since the engine's start; negative before it. It ends with the probe."""
    until_us: BigInt
    query_id: BigInt
    user: Text | None
    database: Text | None
    text: Text | None
    """With `$1` for constants; its first 2,000 characters. Statements with the word password are left out."""
    calls: Double | None
    rows: Double | None
    exec_time_ms: Double | None
    plans: Double | None
    plan_time_ms: Double | None
    blocks_hit: Double | None
    blocks_read: Double | None
    blocks_dirtied: Double | None
    blocks_written: Double | None
    read_time_ms: Double | None
    write_time_ms: Double | None
    temp_read: Double | None
    temp_written: Double | None
    wal_records: Double | None
    wal_full_page_images: Double | None
    wal_bytes: Double | None
    wal_buffers_full: Double | None


@dataclass(frozen=True, slots=True)
class QueryPlanRow:
    """The query plan of one statement of a script before a trial, by EXPLAIN."""

    trial: Integer
    script: Integer
    statement: Integer
    """The number of its command in the script, as in `statements`."""
    text: Text
    """The statement, with `$1` for variables."""
    shape: Text | None
    """A hash of its nodes, relations, indexes and joins, and of their order; None without a plan."""
    plan: Text | None
    """Without costs; None if the server cannot plan the statement."""
    reason: Text | None
    """Why there is no plan."""


@dataclass(frozen=True, slots=True)
class CloudSeriesRow(SeriesRow):
    """A sample from the cloud provider; docs/reference/cloud.md describes the metrics."""


@dataclass(frozen=True, slots=True)
class CloudEventRow(EventRow):
    """A gap in these figures, or a checkpoint in the server's log."""


Row = (
    IntervalRow
    | HistogramRow
    | StatementRow
    | EventRow
    | SettingRow
    | SeriesRow
    | WaitRow
    | ServerStatementRow
    | QueryPlanRow
)

TABLES: Mapping[str, type[Row]] = MappingProxyType(
    {
        "intervals": IntervalRow,
        "histograms": HistogramRow,
        "statements": StatementRow,
        "events": EventRow,
        "settings": SettingRow,
        "series": SeriesRow,
        "waits": WaitRow,
        "server_statements": ServerStatementRow,
        "query_plans": QueryPlanRow,
        "standby_series": StandbySeriesRow,
        "standby_waits": StandbyWaitRow,
        "cloud_series": CloudSeriesRow,
        "cloud_events": CloudEventRow,
    }
)
"""Row type of each table; `<table>.parquet` is its file in a trial's folder."""


@cache
def _hints(name: str) -> dict[str, Any]:
    return get_type_hints(globals()[name], include_extras=True)


def columns(row: type[Row]) -> Mapping[str, str]:
    return MappingProxyType({name: _sql_type(hint) for name, hint in _hints(row.__name__).items()})


def required_columns(row: type[Row]) -> frozenset[str]:
    """Return the columns of `row` that never are null."""
    return frozenset(name for name, hint in _hints(row.__name__).items() if hasattr(hint, "__metadata__"))


def _sql_type(hint: object) -> str:
    # Annotated[int, "BIGINT"], or its union with None
    annotated = hint if hasattr(hint, "__metadata__") else get_args(hint)[0]
    sql_type: str = annotated.__metadata__[0]
    return sql_type
