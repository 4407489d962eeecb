"""Reads pgbench's transaction and aggregate logs through DuckDB in bounded memory.

Columns: https://www.postgresql.org/docs/current/pgbench.html, "Per-Transaction Logging" and "Aggregated Logging", and
the same pages of earlier releases.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from pgdyno.errors import StoreError
from pgdyno.importers.pgbench_logs.latency_counts import LogCounts, counts_by_key
from pgdyno.importers.pgbench_logs.optional_columns import COLUMNS, SHORTEST_TRY_NS, optional_columns, refuse_incomplete
from pgdyno.records import EARLIEST, LATEST, Latency, Summary
from pgdyno.store import HistogramRow, IntervalRow, TrialTables
from pgdyno.store.duckdb_session import table_function
from pgdyno.store.trial_tables import TOTAL

MEMORY_LIMIT = "1GB"
"""DuckDB's limit; more is written to disk."""
AT_ONCE = 200
"""Seconds of a log whose counts are processed together."""
LINE_BYTES = 200
_TRANSACTION = re.compile(
    rb"\d{1,7} \d+ (?:\d+|skipped|failed|serialization|deadlock|other|lost) \d+ \d{9,10} \d{1,6}(?: \d+){0,2}\s*"
)
_AGGREGATE = re.compile(rb"\d{9,10} \d+ \d+ \d+ \d+ \d+(?: \d+){0,11}\s*")
_THREAD = re.compile(r"(?P<run>.+\.\d+)\.\d+")


class LogKind(Enum):
    TRANSACTIONS = "transactions"
    AGGREGATES = "aggregates"


@dataclass(frozen=True, slots=True)
class LogTrial:
    summary: Summary
    tables: TrialTables
    clients: int | None
    """None for aggregate logs, which do not report them."""
    lines: int
    started_at: datetime
    ended_at: datetime
    lag_ms: float | None = None
    """Mean schedule lag, which only a log under a rate limit (-R) has."""
    is_open: bool | None = None
    """Whether a rate limited the load; None if the log does not show it."""


def log_kind(first: bytes) -> LogKind | None:
    """Return the kind of log that begins with the line `first`; None if it is not a log."""
    if _AGGREGATE.fullmatch(first):
        return LogKind.AGGREGATES
    return LogKind.TRANSACTIONS if _TRANSACTION.fullmatch(first) else None


def logs_by_run(paths: Sequence[Path]) -> list[list[Path]]:
    """Group logs of the threads of one pgbench (`pgbench_log.PID`, `pgbench_log.PID.1`, …)."""
    runs: dict[Path, list[Path]] = defaultdict(list)
    every = set(paths)
    for path in paths:
        thread = _THREAD.fullmatch(path.name)
        first = path.with_name(thread["run"]) if thread else path
        # a prefix may end in a number, too: `pg17.2.PID` is a thread's log only if there is a first thread's `pg17.2`
        runs[first if first in every else path].append(path)
    return list(runs.values())


def read_log(paths: Sequence[Path], trial: int, kind: LogKind) -> LogTrial:
    """Return one trial from the logs of its threads. Raises StoreError for a line that is not pgbench's.

    For each second, script and latency (to three digits) a count is kept, not the transactions.
    """
    with (
        TemporaryDirectory(prefix="pgdyno-import-") as folder,
        duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "threads": 2,
                "memory_limit": MEMORY_LIMIT,
                # with many seconds and latencies, even the counts are too many for memory
                "temp_directory": folder,
            }
        ) as connection,
    ):
        try:
            if kind is LogKind.AGGREGATES:
                return _aggregates(connection, paths, trial)
            return _transactions(connection, paths, trial)
        except duckdb.Error as error:
            reason = str(error).strip().split("\n", 1)[0]
            is_ours = isinstance(error, duckdb.IOException | duckdb.OutOfMemoryException)
            hint = f"free space in {folder}" if is_ours else "a line that was cut, or that pgbench did not write"
            raise StoreError(f"cannot read the log {paths[0]}: {reason}", hint=hint) from error


def _csv(paths: Sequence[Path], columns: Sequence[tuple[str, str]]) -> str:
    types = ", ".join(f"'{name}': '{sql_type}'" for name, sql_type in columns)
    form = "delim=' ', header=false, quote='', escape='', auto_detect=false"
    return table_function("read_csv", paths, f"{form}, filename=true, columns={{{types}}}")


def _width(path: Path) -> int:
    with path.open("rb") as file:
        return len(file.readline(LINE_BYTES).split())


# ---- transaction logs ----

# one pass: counts by second, script, outcome and bucket of three digits, whose width is 2^shift; and by client
_COUNTED = """
CREATE TEMP TABLE counted AS
SELECT epoch, script, lost, shift, (ns >> shift) << shift AS bucket, count(*) AS n,
       sum(ns)::BIGINT AS sum_ns, sum((ns / 1e6) * (ns / 1e6)) AS squares_ms, min(ns) AS least, max(ns) AS most,
       min(ended - coalesce(ns, 0) // 1000) AS first, max(ended) AS ended,
       sum(more)::BIGINT AS more, count_if(more > 0) AS more_some, bool_or(more > ns // {shortest}) AS too_fast,
       sum(last)::BIGINT AS last, count_if(last > 0) AS last_some,
       grouping(client) = 0 AS of_client, file, client, min(number) AS low, max(number) AS high
FROM (SELECT *, CASE WHEN ns < 2048 THEN 0 ELSE floor(log2(ns))::INTEGER - 10 END AS shift
      FROM (SELECT filename AS file, client, number, epoch, script, epoch * 1000000 + us AS ended,
                   CASE WHEN time[1] BETWEEN '0' AND '9' THEN time::BIGINT * 1000 END AS ns,
                   CASE WHEN time[1] BETWEEN '0' AND '9' THEN NULL ELSE time END AS lost,
                   {more} AS more, {last} AS last FROM {log}))
GROUP BY GROUPING SETS ((epoch, script, lost, shift, bucket), (file, client))
"""
_VIEWS = """
CREATE TEMP VIEW grouped AS SELECT * FROM counted WHERE NOT of_client;
CREATE TEMP VIEW clients AS SELECT file, client, low, high, n FROM counted WHERE of_client
"""
_LOST_WORDS = ("skipped", "failed", "serialization", "deadlock", "other", "lost")
"""`other` of pgbench 19, `lost` of pgdrive."""
_SUCCEEDED = """
SELECT epoch, script, shift, bucket, n, sum_ns, squares_ms, least, most FROM grouped
WHERE lost IS NULL AND epoch BETWEEN $1 AND $2 ORDER BY epoch, script, bucket
"""
_SUMS = """
sum(n)::BIGINT AS n, sum(sum_ns)::DOUBLE AS sum_ns, sum(squares_ms) AS squares_ms, min(least) AS least,
max(most) AS most FROM grouped WHERE lost IS NULL
"""
_TOTALS = f"SELECT script, shift, bucket, {_SUMS} GROUP BY script, shift, bucket ORDER BY script, bucket"
_EVERY = f"SELECT shift, bucket, {_SUMS} GROUP BY shift, bucket ORDER BY bucket"
_LOST = """
SELECT epoch, script, coalesce(sum(n) FILTER (lost = 'skipped'), 0)::BIGINT,
       coalesce(sum(n) FILTER (lost <> 'skipped'), 0)::BIGINT
FROM grouped WHERE lost IS NOT NULL GROUP BY ALL
"""
_TRIED_AGAIN = """
SELECT epoch, script, sum({column}_some)::BIGINT, sum({column})::BIGINT
FROM grouped WHERE lost IS DISTINCT FROM 'skipped' GROUP BY ALL
"""


def _transactions(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], trial: int) -> LogTrial:
    width = _width(paths[0])
    start_us, end_us, clients, lines = _count(connection, paths, width)
    lost = {(epoch, script): counts for epoch, script, *counts in connection.execute(_LOST).fetchall()}
    skipped, failed = (sum(counts[at] for counts in lost.values()) for at in (0, 1))
    columns = optional_columns(connection, width)
    again = connection.execute(_TRIED_AGAIN.format(column=columns.retries)).fetchall() if columns.retries else []
    retried = {(epoch, script): counts for epoch, script, *counts in again}
    lag = f"SELECT sum({columns.lag}) / 1e3 / sum(n) FROM grouped WHERE lost IS NULL"  # noqa: S608
    lag_ms = connection.execute(lag).fetchall()[0][0] if columns.lag else None
    tables = TrialTables()
    first = start_us // 1_000_000
    for seconds in _slices(connection, lost):
        for (epoch, script), second in seconds.items():
            bounds = (max(epoch * 1_000_000, start_us) - start_us, min((epoch + 1) * 1_000_000, end_us) - start_us)
            rest = (*lost.get((epoch, script), (0, 0)), *retried.get((epoch, script), (0, 0)))
            tables.intervals.append(_interval(trial, epoch - first, bounds, script, second, rest, clients))
            if second.n:
                tables.histograms.append(HistogramRow(trial, epoch - first, "measure", script, second.histogram()))
    for (script,), total in counts_by_key(connection.execute(_TOTALS).fetchnumpy(), ("script",)):
        tables.histograms.append(HistogramRow(trial, TOTAL, "measure", script, total.histogram()))
    every = LogCounts.from_rows(connection.execute(_EVERY).fetchnumpy(), slice(None))
    tries = [sum(counts[at] for counts in retried.values()) if columns.is_decided else None for at in (0, 1)]
    summary = _summary((end_us - start_us) / 1e6, every.n, skipped, failed, every.latency(), tries)
    # only a rate lets pgbench skip transactions
    is_open = columns.lag is not None or skipped > 0 if columns.is_decided else None
    started, ended = (_instant(each, paths[0]) for each in (start_us, end_us))
    return LogTrial(summary, tables, clients, lines, started, ended, lag_ms, is_open)


def _count(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], width: int) -> tuple[int, int, int, int]:
    known = [name for name, _ in COLUMNS[:width]]
    more, last = (name if name in known else "NULL::BIGINT" for name in ("more", "last"))
    log = _csv(paths, COLUMNS[:width])
    connection.execute(_COUNTED.format(more=more, last=last, log=log, shortest=SHORTEST_TRY_NS))
    connection.execute(_VIEWS)
    whole = connection.execute("SELECT min(first), max(ended), sum(n)::BIGINT FROM grouped").fetchone()
    if whole is None or whole[0] is None:
        raise StoreError(f"cannot read the log {paths[0]}: it has no transaction")
    strange = connection.execute(
        "SELECT lost FROM grouped WHERE NOT list_contains($1, lost)", [list(_LOST_WORDS)]
    ).fetchone()
    if strange is not None:
        raise StoreError(
            f"cannot read the log {paths[0]}: a transaction took {strange[0]!r}",
            hint=f"pgbench writes microseconds or {', '.join(_LOST_WORDS)}",
        )
    refuse_incomplete(connection)
    clients: int = connection.execute("SELECT max(client) + 1 FROM clients").fetchall()[0][0]
    return whole[0], whole[1], clients, whole[2]


def _slices(
    connection: duckdb.DuckDBPyConnection, more: Iterable[tuple[int, int]]
) -> Iterator[dict[tuple[int, int], LogCounts]]:
    epochs = [epoch for (epoch,) in connection.execute("SELECT DISTINCT epoch FROM grouped ORDER BY 1").fetchall()]
    for begin in range(0, len(epochs), AT_ONCE):
        batch = epochs[begin : begin + AT_ONCE]
        columns = connection.execute(_SUCCEEDED, [batch[0], batch[-1]]).fetchnumpy()
        nothing = LogCounts.from_rows(columns, slice(0))
        found = {key: nothing for key in more if batch[0] <= key[0] <= batch[-1]}
        found |= {(epoch, script): counts for (epoch, script), counts in counts_by_key(columns, ("epoch", "script"))}
        yield dict(sorted(found.items()))


def _interval(
    trial: int, second: int, bounds: tuple[int, int], script: int, counts: LogCounts, rest: Sequence[int], clients: int
) -> IntervalRow:
    p50, p95, p99, p999 = counts.percentiles([50, 95, 99, 99.9])
    skipped, failed, retried, retries = rest
    return IntervalRow(
        trial=trial,
        second=second,
        from_us=bounds[0],
        to_us=bounds[1],
        phase="measure",
        script=script,
        succeeded=counts.n,
        failed=failed,
        skipped=skipped,
        retried=retried,
        retries=retries,
        clients=clients,
        latency_sum_ns=float(counts.sum_ns) if counts.n else None,
        latency_min_ns=counts.least,
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        p999_ns=p999,
        latency_max_ns=counts.most,
    )


# ---- aggregate logs ----

_START, _COUNT, _SUM, _SQUARES, _MIN, _MAX, _LAG = range(7)
_SKIPPED, _RETRIED, _RETRIES, _FAILED = range(10, 14)
"""From here on, failures by kind: serialization, deadlock, other (pgbench 19); pgdrive --reconnect adds lost ones."""
_WIDTH_BEFORE_15 = 11
"""Columns of a log with skipped transactions before PostgreSQL 15, whose counts include them."""
_STEP = """
SELECT min(begin_s), min(step_s), count(*) FROM (
    SELECT file, min(c0) AS begin_s, min(c0 - previous) AS step_s FROM (
        SELECT filename AS file, c0, lag(c0) OVER (PARTITION BY filename ORDER BY c0) AS previous FROM lines
    ) GROUP BY file)
"""


def _aggregates(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], trial: int) -> LogTrial:
    width = _width(paths[0])
    log = _csv(paths, [(f"c{at}", "BIGINT") for at in range(width)])
    connection.execute(f"CREATE TEMP TABLE lines AS FROM {log}")
    begin_s, step_s, threads = connection.execute(_STEP).fetchall()[0]
    if not step_s:
        wrong = "only one interval, whose length is unknown" if step_s is None else "two intervals with the same start"
        raise StoreError(
            f"cannot read the log {paths[0]}: it has {wrong}",
            hint="pgdyno reads one run's intervals, as pgbench wrote them, and at least two",
        )
    # intervals of threads that began on either side of a second's end are one, too
    how = {_START: f"{begin_s} + (c0 - {begin_s}) // {step_s} * {step_s} AS start_s", _MIN: "min(c4)", _MAX: "max(c5)"}
    asked = ", ".join(how.get(at, f"sum(c{at})::BIGINT") for at in range(width))
    query = f"SELECT {asked}, count(*) FROM lines GROUP BY start_s ORDER BY start_s"  # noqa: S608 - numbers of ours
    rows: Sequence[Sequence[int]] = connection.execute(query).fetchall()
    if width == _WIDTH_BEFORE_15:
        rows = [_without_skipped(row, paths[0]) for row in rows]
    first, end = _whole_intervals(rows, threads, paths[0])
    counted = rows[first:end]
    tables = TrialTables()
    phases = [*["warm-up"] * first, *["measure"] * len(counted), *["drain"] * (len(rows) - end)]
    tables.intervals = [
        _aggregate_row(trial, at, row, (row[0] - begin_s, step_s), phase)
        for at, (row, phase) in enumerate(zip(rows, phases, strict=True))
    ]
    n = sum(row[_COUNT] for row in counted)
    summary = _summary(
        float(rows[end - 1][0] + step_s - rows[first][0]),
        n,
        _total(counted, _SKIPPED, width),
        sum(map(_failed_count, counted)),
        _aggregate_latency(counted, n),
        [_total(counted, at, width) for at in (_RETRIED, _RETRIES)],
    )
    started, ended = (_instant(each * 1_000_000, paths[0]) for each in (rows[0][0], rows[-1][0] + step_s))
    lines, is_open = sum(row[-1] for row in rows), _LAG < width <= _WIDTH_BEFORE_15
    # from PostgreSQL 15 on, the lag is 0 without a rate limit
    is_open = is_open or any(_total(rows, at, width) for at in range(_LAG, _SKIPPED + 1))
    lag_ms = _total(counted, _LAG, width) / 1e3 / n if n and is_open else None
    return LogTrial(summary, tables, None, lines, started, ended, lag_ms, is_open)


def _whole_intervals(rows: Sequence[Sequence[int]], threads: int, path: Path) -> tuple[int, int]:
    """Return the first of `rows` and the end of those in which all `threads` worked for all of the interval.

    pgbench dates its first interval back to the begin of a second, so that this one is up to a second too short; it
    omits the last one, unless it is complete. With -t, threads end one by one. Raises StoreError if no row is left.
    """
    with_all = [at for at, row in enumerate(rows) if row[-1] == threads]
    if len(with_all) < 2:
        raise StoreError(
            f"cannot read the log {path}: it has no complete interval",
            hint="the first one, which pgbench begins up to a second early, never is; log a longer run",
        )
    return with_all[0] + 1, with_all[-1] + 1


def _without_skipped(row: Sequence[int], path: Path) -> Sequence[int]:
    if row[_SKIPPED] > row[_COUNT]:
        raise StoreError(
            f"cannot read the log {path}: the interval {row[_START]} has {row[_COUNT]} transactions, of which "
            f"{row[_SKIPPED]} were skipped",
            hint="a line that was cut, or that pgbench did not write",
        )
    return (row[_START], row[_COUNT] - row[_SKIPPED], *row[_SUM:])


def _total(rows: Sequence[Sequence[int]], column: int, width: int) -> int:
    return sum(row[column] for row in rows) if column < width else 0


def _failed_count(row: Sequence[int]) -> int:
    return sum(row[_FAILED:-1])


def _aggregate_row(trial: int, at: int, row: Sequence[int], place: tuple[int, int], phase: str) -> IntervalRow:
    width = len(row) - 1
    from_s, step_s = place
    return IntervalRow(
        trial=trial,
        second=at,
        from_us=from_s * 1_000_000,
        to_us=(from_s + step_s) * 1_000_000,
        phase=phase,
        script=0,
        succeeded=row[_COUNT],
        failed=_failed_count(row),
        skipped=_total([row], _SKIPPED, width),
        retried=_total([row], _RETRIED, width),
        retries=_total([row], _RETRIES, width),
        latency_sum_ns=row[_SUM] * 1000.0 if row[_COUNT] else None,
        latency_min_ns=row[_MIN] * 1000 if row[_COUNT] else None,
        latency_max_ns=row[_MAX] * 1000 if row[_COUNT] else None,
    )


def _aggregate_latency(rows: Sequence[Sequence[int]], n: int) -> Latency | None:
    if n == 0:
        return None
    mean_us = sum(row[_SUM] for row in rows) / n
    variance = max(sum(row[_SQUARES] for row in rows) / n - mean_us * mean_us, 0.0)
    busy = [row for row in rows if row[_COUNT]]
    return Latency(
        mean=mean_us * 1000,
        stddev=math.sqrt(variance) * 1000,
        min=min(row[_MIN] for row in busy) * 1000,
        max=max(row[_MAX] for row in busy) * 1000,
    )


def _summary(
    measured_s: float, succeeded: int, skipped: int, failed: int, latency: Latency | None, tries: Sequence[int | None]
) -> Summary:
    return Summary(
        measured_s=measured_s,
        scheduled=succeeded + skipped + failed,
        succeeded=succeeded,
        failed=failed,
        skipped=skipped,
        in_flight=0,
        retried=tries[0],
        retries=tries[1],
        clients_aborted=0,
        tps=succeeded / measured_s if measured_s > 0 else 0.0,
        latency_ns=latency,
        connect_us=None,
        scripts=[],
        errors=[],
    )


def _instant(us: int, path: Path) -> datetime:
    with suppress(ValueError, OverflowError, OSError):
        instant = datetime.fromtimestamp(us / 1e6, UTC)
        if EARLIEST <= instant.year <= LATEST:
            return instant
    raise StoreError(
        f"cannot read the log {path}: a transaction began or ended {us / 1e6:,.0f} s after 1970",
        hint="a line that was cut, or that pgbench did not write",
    )
