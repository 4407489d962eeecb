"""Reads pgbench's transaction and aggregate logs through DuckDB in bounded memory.

Columns: https://www.postgresql.org/docs/current/pgbench.html, "Per-Transaction Logging" and "Aggregated Logging", and
the same pages of earlier releases.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from pgdyno.errors import StoreError
from pgdyno.importers.pgbench_log_counts import LogCounts, by_key
from pgdyno.records import Latency, Summary
from pgdyno.store import HistogramRow, IntervalRow, TrialTables
from pgdyno.store.trial_tables import TOTAL

MEMORY_LIMIT = "1GB"
"""DuckDB's limit; more is written to disk."""
AT_ONCE = 200
"""Seconds of a log whose counts are processed together."""
LINE_BYTES = 200
_TRANSACTION = re.compile(
    rb"\d{1,7} \d+ (?:\d+|skipped|failed|serialization|deadlock) \d+ \d{9,10} \d{1,6}(?: \d+){0,2}\s*"
)
_AGGREGATE = re.compile(rb"\d{9,10} \d+ \d+ \d+ \d+ \d+(?: \d+){0,9}\s*")
_THREAD = re.compile(r"(?P<run>.+\.\d+)\.\d+")


class LogKind(Enum):
    TRANSACTIONS = "transactions"
    AGGREGATES = "aggregates"


@dataclass(frozen=True, slots=True)
class LogTrial:
    summary: Summary
    tables: TrialTables
    clients: int
    """0, because aggregate logs do not report them."""
    lines: int
    started_at: datetime
    ended_at: datetime


def log_kind(first: bytes) -> LogKind | None:
    """Return the kind of log that begins with the line `first`; None if it is not a log."""
    if _AGGREGATE.fullmatch(first):
        return LogKind.AGGREGATES
    return LogKind.TRANSACTIONS if _TRANSACTION.fullmatch(first) else None


def by_run(paths: Sequence[Path]) -> list[list[Path]]:
    """Group logs of the threads of one pgbench (`pgbench_log.PID`, `pgbench_log.PID.1`, …)."""
    runs: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for path in paths:
        thread = _THREAD.fullmatch(path.name)
        runs[path.parent, thread["run"] if thread else path.name].append(path)
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
    listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
    types = ", ".join(f"'{name}': '{sql_type}'" for name, sql_type in columns)
    return f"read_csv([{listed}], delim=' ', header=false, quote='', escape='', auto_detect=false, columns={{{types}}})"


def _width(path: Path) -> int:
    with path.open("rb") as file:
        return len(file.readline(LINE_BYTES).split())


# ---- transaction logs ----

_COLUMNS = [
    ("client", "INTEGER"), ("number", "BIGINT"), ("time", "VARCHAR"), ("script", "INTEGER"), ("epoch", "BIGINT"),
    ("us", "INTEGER"), ("more", "BIGINT"), ("retries", "BIGINT"),
]  # fmt: skip

# one pass: counts by second, script, outcome and bucket of three digits, whose width is 2^shift
_GROUPED = """
CREATE TEMP TABLE grouped AS
SELECT epoch, script, lost, shift, (ns >> shift) << shift AS bucket, count(*) AS n,
       sum(ns)::BIGINT AS sum_ns, sum((ns / 1e6) * (ns / 1e6)) AS squares_ms, min(ns) AS least, max(ns) AS most,
       min(ended - coalesce(ns, 0) // 1000) AS first, max(ended) AS last, max(client) AS client
FROM (SELECT *, CASE WHEN ns < 2048 THEN 0 ELSE floor(log2(ns))::INTEGER - 10 END AS shift
      FROM (SELECT client, epoch, script, epoch * 1000000 + us AS ended,
                   CASE WHEN time[1] BETWEEN '0' AND '9' THEN time::BIGINT * 1000 END AS ns,
                   CASE WHEN time[1] BETWEEN '0' AND '9' THEN NULL ELSE time END AS lost FROM {log}))
GROUP BY epoch, script, lost, shift, bucket
"""
_LOST_WORDS = ("skipped", "failed", "serialization", "deadlock")
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


def _transactions(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], trial: int) -> LogTrial:
    log = _csv(paths, _COLUMNS[: _width(paths[0])])
    connection.execute(_GROUPED.format(log=log))
    whole = connection.execute("SELECT min(first), max(last), max(client) + 1, sum(n)::BIGINT FROM grouped").fetchone()
    if whole is None or whole[0] is None:
        raise StoreError(f"cannot read the log {paths[0]}: it has no transaction")
    start_us, end_us, clients, lines = whole
    strange = connection.execute(
        "SELECT lost FROM grouped WHERE lost NOT IN ($1, $2, $3, $4)", list(_LOST_WORDS)
    ).fetchone()
    if strange is not None:
        raise StoreError(
            f"cannot read the log {paths[0]}: a transaction took {strange[0]!r}",
            hint=f"pgbench writes microseconds or {', '.join(_LOST_WORDS)}",
        )
    lost = {(epoch, script): counts for epoch, script, *counts in connection.execute(_LOST).fetchall()}
    skipped, failed = (sum(counts[at] for counts in lost.values()) for at in (0, 1))
    tables = TrialTables()
    first = start_us // 1_000_000
    for seconds in _slices(connection, lost):
        for (epoch, script), second in seconds.items():
            bounds = (max(epoch * 1_000_000, start_us) - start_us, min((epoch + 1) * 1_000_000, end_us) - start_us)
            gone = lost.get((epoch, script), (0, 0))
            tables.intervals.append(_interval(trial, epoch - first, bounds, script, second, gone, clients))
            if second.n:
                tables.histograms.append(HistogramRow(trial, epoch - first, "measure", script, second.histogram()))
    for (script,), total in by_key(connection.execute(_TOTALS).fetchnumpy(), ("script",)):
        tables.histograms.append(HistogramRow(trial, TOTAL, "measure", script, total.histogram()))
    every = LogCounts.of(connection.execute(_EVERY).fetchnumpy(), slice(None))
    summary = _summary((end_us - start_us) / 1e6, every.n, skipped, failed, every.latency())
    return LogTrial(summary, tables, clients, lines, _instant(start_us), _instant(end_us))


def _slices(
    connection: duckdb.DuckDBPyConnection, more: Iterable[tuple[int, int]]
) -> Iterator[dict[tuple[int, int], LogCounts]]:
    """Yield counts by second and script, some seconds at a time; `more` are seconds in which nothing succeeded."""
    epochs = [epoch for (epoch,) in connection.execute("SELECT DISTINCT epoch FROM grouped ORDER BY 1").fetchall()]
    for begin in range(0, len(epochs), AT_ONCE):
        batch = epochs[begin : begin + AT_ONCE]
        columns = connection.execute(_SUCCEEDED, [batch[0], batch[-1]]).fetchnumpy()
        nothing = LogCounts.of(columns, slice(0))
        found = {key: nothing for key in more if batch[0] <= key[0] <= batch[-1]}
        found |= {(epoch, script): counts for (epoch, script), counts in by_key(columns, ("epoch", "script"))}
        yield dict(sorted(found.items()))


def _interval(
    trial: int,
    second: int,
    bounds: tuple[int, int],
    script: int,
    counts: LogCounts,
    lost: Sequence[int],
    clients: int,
) -> IntervalRow:
    p50, p95, p99, p999 = counts.percentiles([50, 95, 99, 99.9])
    return _row(
        trial=trial,
        second=second,
        from_us=bounds[0],
        to_us=bounds[1],
        script=script,
        succeeded=counts.n,
        failed=lost[1],
        skipped=lost[0],
        clients=clients,
        latency_sum_ns=float(counts.sum_ns) if counts.n else None,
        latency_min_ns=counts.least,
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        p999_ns=p999,
        latency_max_ns=counts.most,
    )


def _row(**given: int | float | str | None) -> IntervalRow:
    """Return an interval with the log's figures; the rest is unknown."""
    known = {"phase": "measure", "retried": 0, "retries": 0, "in_flight": None, "worker_cpu_us": None}
    known |= dict.fromkeys(("p50_ns", "p95_ns", "p99_ns", "p999_ns"))
    return IntervalRow(**{**known, **given})  # type: ignore[arg-type]


# ---- aggregate logs ----

_START, _COUNT, _SUM, _SQUARES, _MIN, _MAX = range(6)
_SKIPPED, _RETRIED, _RETRIES, _SERIALIZATION, _DEADLOCK = range(10, 15)


def _aggregates(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], trial: int) -> LogTrial:
    width = _width(paths[0])
    names = [f"c{at}" for at in range(width)]
    # intervals of several threads with the same start are one
    how = {_START: "c0", _MIN: "min(c4)", _MAX: "max(c5)"}
    asked = ", ".join(how.get(at, f"sum(c{at})::BIGINT") for at in range(width))
    log = _csv(paths, [(name, "BIGINT") for name in names])
    rows = connection.execute(f"SELECT {asked}, count(*) FROM {log} GROUP BY c0 ORDER BY c0").fetchall()  # noqa: S608
    steps = [after[0] - before[0] for before, after in pairwise(rows)]
    if not steps:
        raise StoreError(f"cannot read the log {paths[0]}: it has only one interval, whose length is unknown")
    step_s = min(steps)
    # the last interval was cut off by the end of the run: it is kept, and not counted
    counted = rows[:-1]
    tables = TrialTables()
    tables.intervals = [
        _aggregate_row(trial, at, row, (row[0] - rows[0][0], step_s), "measure" if at < len(counted) else "drain")
        for at, row in enumerate(rows)
    ]
    n = sum(row[_COUNT] for row in counted)
    summary = _summary(
        float(rows[-1][0] - rows[0][0]),
        n,
        _total(counted, _SKIPPED, width),
        _total(counted, _SERIALIZATION, width) + _total(counted, _DEADLOCK, width),
        _aggregate_latency(counted, n),
    ).model_copy(update={"retried": _total(counted, _RETRIED, width), "retries": _total(counted, _RETRIES, width)})
    started, ended = rows[0][0] * 1_000_000, (rows[-1][0] + step_s) * 1_000_000
    return LogTrial(summary, tables, 0, sum(row[-1] for row in rows), _instant(started), _instant(ended))


def _total(rows: Sequence[Sequence[int]], column: int, width: int) -> int:
    return sum(row[column] for row in rows) if column < width else 0


def _aggregate_row(trial: int, at: int, row: Sequence[int], place: tuple[int, int], phase: str) -> IntervalRow:
    width = len(row) - 1
    from_s, step_s = place
    return _row(
        trial=trial,
        second=at,
        from_us=from_s * 1_000_000,
        to_us=(from_s + step_s) * 1_000_000,
        phase=phase,
        script=0,
        succeeded=row[_COUNT],
        failed=_total([row], _SERIALIZATION, width) + _total([row], _DEADLOCK, width),
        skipped=_total([row], _SKIPPED, width),
        retried=_total([row], _RETRIED, width),
        retries=_total([row], _RETRIES, width),
        clients=0,
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


def _summary(measured_s: float, succeeded: int, skipped: int, failed: int, latency: Latency | None) -> Summary:
    return Summary(
        measured_s=measured_s,
        scheduled=succeeded + skipped + failed,
        succeeded=succeeded,
        failed=failed,
        skipped=skipped,
        in_flight=0,
        retried=0,
        retries=0,
        clients_aborted=0,
        tps=succeeded / measured_s if measured_s > 0 else 0.0,
        latency_ns=latency,
        connect_us=None,
        scripts=[],
        errors=[],
    )


def _instant(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)
