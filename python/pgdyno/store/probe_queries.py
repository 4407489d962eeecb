"""What a probe saw during trials: folded into steps, as limits, and as statements and tables of the server."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pgdyno.store.duckdb_session import quote_text, session
from pgdyno.store.parquet import fetched_rows, table_query
from pgdyno.store.read_runs import RunData
from pgdyno.store.safe_files import store_errors

AMOUNTS = (
    ("disk", "read"), ("disk", "written"), ("wal_position", "inserted"), ("checkpoints", "timed"),
    ("checkpoints", "requested"), ("tables", "vacuums"), ("tables", "autovacuums"),
)  # fmt: skip
"""Source and metric of counters, which are returned as a rate."""
MEANS = (
    ("cpu", "user"), ("cpu", "system"), ("cpu", "iowait"), ("cpu", "irq"), ("cpu", "steal"), ("disk", "utilisation"),
    ("queries", "value"),
)  # fmt: skip
"""Source and metric of shares and numbers averaged over time, which are returned as their mean."""
FILES_AT_ONCE = 100
"""Trials per query: DuckDB opens all its files before it reads."""


class SeriesStep(NamedTuple):
    """A metric over one step of a trial."""

    trial: int
    step: int
    """From the start of the first transaction; 0 is the first."""
    source: str
    metric: str
    label: str
    """The disk with its contents, or the name of a query of the plan; empty without a label."""
    value: float
    """Mean, or for a counter its increase per second."""


class WaitStep(NamedTuple):
    """Active sessions of one wait over one step of a trial."""

    trial: int
    step: int
    wait_type: str
    wait: str
    sessions: float
    """Mean over the samples of the step."""


@dataclass(frozen=True, slots=True)
class ProcessSum:
    """The total of all processes of a kind in a trial."""

    kind: str
    cpu_us: float
    read_bytes: float
    written_bytes: float
    """To the page cache, or to devices without it."""


def series_steps(run: RunData, widths_us: Mapping[int, int]) -> list[SeriesStep]:
    """Return the metrics above of each trial of `widths_us`, in steps of that width. Raises StoreError."""
    wanted = [(*each, True) for each in AMOUNTS] + [(*each, False) for each in MEANS]
    values = ", ".join(f"({quote_text(source)}, {quote_text(metric)}, {rate})" for source, metric, rate in wanted)
    query = f"""
        WITH wanted (source, metric, is_amount) AS (VALUES {values}), chosen AS (
            -- a sample is about the time before it: its middle decides
            SELECT s.trial, (s.t_us - coalesce(s.span_us, 0) / 2 - coalesce(o.origin_us, 0)) / w.width_us AS middle,
                   floor(middle)::INTEGER AS step, source, metric, is_amount, value, span_us,
                   json_extract_string(labels, '$.holds') AS holds, json_extract_string(labels, '$.device') AS device,
                   json_extract_string(labels, '$.query') AS query
            FROM {{series}} s JOIN wanted USING (source, metric) JOIN widths w USING (trial)
            LEFT JOIN origins o USING (trial)
        )
        SELECT trial, step, source, metric, coalesce(holds || ', ' || device, query, '') AS label,
               CASE WHEN is_amount THEN 1e6 * sum(value) / sum(span_us) ELSE avg(value) END AS figure
        FROM chosen
        WHERE step >= 0 AND (source <> 'disk' OR holds IS NOT NULL) AND (NOT is_amount OR span_us > 0)
        GROUP BY trial, step, source, metric, label, is_amount ORDER BY ALL
    """  # noqa: S608 - names of ours
    return [SeriesStep(*row) for row in rows_of(run, "series", query, widths_us)]


def wait_steps(run: RunData, widths_us: Mapping[int, int]) -> list[WaitStep]:
    """Return active client sessions of each trial of `widths_us` by wait. Raises StoreError."""
    query = """
        WITH looks AS (
            SELECT s.trial, floor((s.t_us - coalesce(o.origin_us, 0)) / w.width_us)::INTEGER AS step,
                   s.t_us, backend_type, wait_type, wait, sessions
            FROM {waits} s JOIN widths w USING (trial) LEFT JOIN origins o USING (trial)
        ), number AS (SELECT trial, step, count(DISTINCT t_us) AS looks FROM looks GROUP BY ALL)
        SELECT trial, step, wait_type, coalesce(wait, ''), sum(sessions) / any_value(looks)
        FROM looks JOIN number USING (trial, step)
        WHERE step >= 0 AND sessions > 0 AND wait_type IS NOT NULL
          AND (backend_type IS NULL OR backend_type IN ('client backend', 'parallel worker'))
        GROUP BY trial, step, wait_type, coalesce(wait, '') ORDER BY ALL
    """
    return [WaitStep(*row) for row in rows_of(run, "waits", query, widths_us)]


def process_sums(run: RunData, trial: int) -> list[ProcessSum]:
    """Return processes of trial number `trial` by kind, most I/O first. Raises StoreError."""
    query = """
        SELECT json_extract_string(labels, '$.kind') AS kind,
               coalesce(sum(value) FILTER (metric = 'cpu'), 0), coalesce(sum(value) FILTER (metric = 'read'), 0),
               coalesce(sum(value) FILTER (metric = 'written'), 0)
        FROM {series} WHERE source = 'processes' AND json_extract_string(labels, '$.kind') IS NOT NULL GROUP BY kind
    """
    rows = [ProcessSum(*row) for row in rows_of(run, "series", query, {trial: 1_000_000})]
    return sorted(rows, key=lambda row: (-(row.read_bytes + row.written_bytes), -row.cpu_us, row.kind))


def rows_of(run: RunData, table: str, query: str, widths_us: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Return the result of `query` on `{table}` of some trials; nothing if they lack the table. Raises StoreError.

    The query may also use `origins` (trial, origin_us) and `widths` (trial, width_us).
    """
    slugs = {record.number: record.slug for record in run.trials if record.is_seen}
    numbers = [number for number in widths_us if number in slugs]
    rows: list[tuple[Any, ...]] = []
    for at in range(0, len(numbers), FILES_AT_ONCE):
        chosen = numbers[at : at + FILES_AT_ONCE]
        rows += _of_files(run, [slugs[each] for each in chosen], table, query, {n: widths_us[n] for n in chosen})
    return rows


def _of_files(
    run: RunData, slugs: Sequence[str], table: str, query: str, widths_us: Mapping[int, int]
) -> list[tuple[Any, ...]]:
    def files(name: str) -> str:
        paths = [run.folder.trials_path / slug / f"{name}.parquet" for slug in slugs]
        return table_query([path for path in paths if path.exists()])

    if not any((run.folder.trials_path / slug / f"{table}.parquet").exists() for slug in slugs):
        return []
    with store_errors("read", run.folder.path), session() as connection:
        widths = "SELECT unnest(?::INTEGER[]) AS trial, unnest(?::BIGINT[]) AS width_us"
        connection.execute(f"CREATE TEMP TABLE widths AS {widths}", [list(widths_us), list(widths_us.values())])
        connection.execute(
            f"""CREATE TEMP TABLE origins AS SELECT trial, max(json_extract(detail, '$.origin_us')::BIGINT) AS origin_us
            FROM {files("events")} WHERE kind = 'connected' GROUP BY trial"""  # noqa: S608 - names of ours
        )
        return list(fetched_rows(connection.execute(query.replace("{" + table + "}", files(table))), run.folder.path))


_QUERY = """
WITH origin AS (
    SELECT trial, any_value(CAST(detail->>'origin_us' AS BIGINT)) AS origin_us FROM events
    WHERE kind = 'connected' GROUP BY 1),
measured AS (SELECT DISTINCT trial, from_us, to_us FROM intervals WHERE phase = 'measure'),
parts AS (
    -- phases without a result may interrupt the measured part
    SELECT trial, from_us, to_us, sum(begins) OVER (PARTITION BY trial ORDER BY from_us) AS part
    FROM (SELECT *, CASE WHEN from_us > lag(to_us) OVER (PARTITION BY trial ORDER BY from_us) THEN 1 ELSE 0 END
          AS begins FROM measured)),
bounds AS (
    SELECT trial, min(from_us) + any_value(origin_us) AS begin_us, max(to_us) + any_value(origin_us) AS end_us
    FROM parts JOIN origin USING (trial) GROUP BY trial, part),
inside AS (
    -- a sample is about the time before it: its middle decides
    SELECT series.* FROM series JOIN bounds USING (trial)
    WHERE span_us IS NOT NULL AND t_us - span_us / 2 >= begin_us AND t_us - span_us / 2 < end_us),
cpu AS (
    SELECT trial, sum(value * span_us) FILTER (WHERE metric IN ('user', 'system', 'irq', 'guest'))
                  / sum(span_us) FILTER (WHERE metric = 'user') AS busy,
           sum(value * span_us) FILTER (WHERE metric = 'steal')
                  / sum(span_us) FILTER (WHERE metric = 'steal') AS steal
    FROM inside WHERE source = 'cpu' GROUP BY 1),
wal AS (
    SELECT trial, sum(value) / (sum(span_us) / 1e6) AS bytes_per_s FROM inside
    WHERE source = 'wal_position' AND metric = 'inserted' GROUP BY 1),
disks AS (
    SELECT trial, labels->>'device' AS device, sum(value * span_us) / sum(span_us) AS utilisation FROM inside
    WHERE source = 'disk' AND metric = 'utilisation' AND labels->>'holds' <> '' GROUP BY ALL),
disk AS (SELECT trial, arg_max(device, utilisation) AS device, max(utilisation) AS utilisation FROM disks GROUP BY 1),
seen AS (SELECT waits.* FROM waits JOIN bounds USING (trial) WHERE t_us >= begin_us AND t_us < end_us),
looks AS (SELECT trial, count(DISTINCT t_us) AS looks FROM seen GROUP BY 1),
sums AS (
    SELECT trial, wait_type, coalesce(wait, '') AS wait, sum(sessions) / any_value(looks) AS sessions
    FROM seen JOIN looks USING (trial)
    WHERE wait_type IS NOT NULL AND backend_type IN ('client backend', 'parallel worker') GROUP BY ALL),
counted AS (
    -- pg_stat_database: what statements took, which sessions report when they end
    SELECT trial, sum(active_ms) / (sum(span_us) / 1e3) AS sessions, sum(span_us) / 1e6 AS seconds
    FROM (SELECT trial, t_us, any_value(span_us) AS span_us,
                 sum(value) FILTER (WHERE metric = 'active_time') AS active_ms
          FROM inside WHERE source = 'database' GROUP BY ALL) GROUP BY 1),
made AS (SELECT trial, sum(succeeded) AS transactions FROM intervals WHERE phase = 'measure' GROUP BY 1),
parallel AS (SELECT trial, bool_or(backend_type = 'parallel worker') AS is_parallel FROM seen GROUP BY 1),
active AS (
    SELECT trial, list((wait_type, wait, sessions) ORDER BY sessions DESC, wait DESC) AS waits FROM sums GROUP BY 1)
SELECT trial, CASE WHEN NOT is_parallel AND seconds >= {seconds} THEN counted.sessions END, transactions,
       busy, steal, waits, bytes_per_s, device, utilisation
FROM (SELECT DISTINCT trial FROM bounds) LEFT JOIN counted USING (trial) LEFT JOIN made USING (trial)
     LEFT JOIN parallel USING (trial) LEFT JOIN cpu USING (trial) LEFT JOIN wal USING (trial)
     LEFT JOIN disk USING (trial) LEFT JOIN active USING (trial)
WHERE coalesce(busy, len(waits), bytes_per_s) IS NOT NULL ORDER BY trial
"""
_COUNTED_S = 10
"""Trial length from which its counters show how many sessions were active: they are up to a second late."""
_ENDED = 100
"""Transactions per active session, likewise: what spans the start or the end is then under a hundredth."""
_TABLES = ("events", "intervals", "series", "waits")


CPU = "CPU"
Wait = tuple[str, str, float]
"""Kind, name (empty without one), mean sessions."""


@dataclass(frozen=True, slots=True)
class ProbeAverages:
    """Averages over the measured part of a trial; None if the probe has no samples."""

    trial: int
    slug: str
    cpu: float | None
    """Share of all cores of the server's host."""
    steal: float | None
    waits: Sequence[Wait]
    """Kind, name (empty without one), and sessions of clients, most first; empty without samples. Sessions on CPU are
    chosen so that the total equals the server's count, if available (`counted_waits`).
    """
    wal_bytes_per_s: float | None
    disk: str | None
    """The busiest disk with data or WAL."""
    disk_utilisation: float | None


def has_probe_tables(run: RunData) -> bool:
    """Return whether every trial has the probe's tables, which folders of earlier versions lack."""
    return all(_has_probe_tables(run.folder.trials_path / trial.slug) for trial in run.trials)


def _has_probe_tables(folder: Path) -> bool:
    return all((folder / f"{name}.parquet").exists() for name in ("series", "waits"))


def probe_averages(run: RunData, trials: Collection[int] | None = None) -> list[ProbeAverages]:
    """Return averages of trials with a probe, in order; only `trials` if given. Raises StoreError."""
    slugs = {record.number: record.slug for record in run.trials if trials is None or record.number in trials}
    there = [slug for slug in slugs.values() if _has_probe_tables(run.folder.trials_path / slug)]
    if not there:
        return []
    with store_errors("read", run.folder.path), session() as connection:
        for name in _TABLES:
            paths = [run.folder.trials_path / slug / f"{name}.parquet" for slug in there]
            connection.execute(f"CREATE TEMP VIEW {name} AS FROM {table_query(paths)}")
        found = connection.execute(_QUERY.format(seconds=_COUNTED_S))
        rows = list(fetched_rows(found, run.folder.path, slugs))
    return [
        ProbeAverages(number, slugs[number], busy, steal, counted_waits(waits or (), counted, transactions or 0), *rest)
        for number, counted, transactions, busy, steal, waits, *rest in rows
    ]


def counted_waits(waits: Sequence[Wait], counted: float | None, transactions: int) -> Sequence[Wait]:
    """Return `waits` with as many sessions on CPU as make the sum `counted`, the mean active sessions by `active_time`.

    Samples count waiting sessions correctly, whoever uses the CPU. On a busy host, a sample is taken when a session has
    just left its core, so it counts too few running sessions. Returns `waits` unchanged if the counter is missing, has
    too few transactions, or contradicts the samples.
    """
    total = sum(sessions for _, _, sessions in waits)
    waiting = [each for each in waits if each[0] != CPU]
    running = (counted or 0.0) - sum(sessions for _, _, sessions in waiting)
    if counted is None or not waits or running <= 0 or transactions < _ENDED * max(total, counted):
        return waits
    return sorted([*waiting, (CPU, "", running)], key=lambda each: -each[2])


MOST_STATEMENTS = 15
MOST_TABLES = 20

_TABLE_SUMS = """
    WITH seen AS (
        SELECT t_us, json_extract_string(labels, '$.table') AS name, metric, value,
               metric IN ('size', 'indexes', 'others') AS is_size
        FROM {series} WHERE source = 'relations'
    ), ends AS (SELECT name, min(t_us) AS first, max(t_us) AS last FROM seen GROUP BY name)
    SELECT name, sum(value) FILTER (is_size AND t_us = last),
           sum(value) FILTER (is_size AND t_us = last) - sum(value) FILTER (is_size AND t_us = first),
           sum(value) FILTER (metric = 'dead_rows' AND t_us = last),
           sum(value) FILTER (metric = 'live_rows' AND t_us = last),
           sum(value) FILTER (metric = 'inserted') AS inserted, sum(value) FILTER (metric = 'updated') AS updated,
           sum(value) FILTER (metric = 'hot_updated'), sum(value) FILTER (metric = 'deleted') AS deleted,
           sum(value) FILTER (metric = 'scans'), any_value(first = last)
    FROM seen JOIN ends USING (name) WHERE name IS NOT NULL
    GROUP BY name ORDER BY coalesce(inserted, 0) + coalesce(updated, 0) + coalesce(deleted, 0) DESC, name
"""
_STATEMENTS = """
    SELECT coalesce(text, ''), sum(calls), sum(exec_time_ms) AS spent, sum(spent) OVER (), sum(rows), sum(blocks_read),
           sum(wal_bytes)
    FROM {server_statements} GROUP BY query_id, text HAVING sum(calls) > 0 ORDER BY spent DESC NULLS LAST, text
"""


@dataclass(frozen=True, slots=True)
class TableSum:
    """A table that changed during a trial, among those that changed most."""

    name: str
    bytes: float
    """At the end, with indexes and TOAST."""
    grown_bytes: float | None
    """This and all counts below are differences between the first and the last sample; None for a single sample."""
    dead_rows: float
    live_rows: float
    """Both at the end."""
    inserted: float | None
    updated: float | None
    hot_updated: float | None
    """Updates without new index entries."""
    deleted: float | None
    scans: float | None
    """Sequential scans."""


@dataclass(frozen=True, slots=True)
class ServerStatementSum:
    """A statement from pg_stat_statements, among those with the most execution time."""

    text: str
    calls: float
    spent_ms: float | None
    all_ms: float | None
    """Total time of all statements."""
    rows: float | None
    blocks_read: float | None
    wal_bytes: float | None


def table_sums(run: RunData, trial: int) -> list[TableSum]:
    """Return tables of trial number `trial`, those that changed most first. Raises StoreError."""
    return [_table_sum(*row) for row in rows_of(run, "series", _TABLE_SUMS, {trial: 1})[:MOST_TABLES]]


def _table_sum(name: str, *rest: float | None) -> TableSum:
    # samples leave out zeros; with a single sample, the increase is unknown
    *figures, is_alone = rest
    size, grown, dead, live, *gained = (figure or 0.0 for figure in figures)
    if is_alone:
        return TableSum(name, size, None, dead, live, *(None for _ in gained))
    return TableSum(name, size, grown, dead, live, *gained)


def server_statement_sums(run: RunData, trial: int) -> list[ServerStatementSum]:
    """Return statements of a trial, the most expensive first; none without the extension. Raises StoreError."""
    rows = rows_of(run, "server_statements", _STATEMENTS, {trial: 1})
    return [ServerStatementSum(*row) for row in rows[:MOST_STATEMENTS]]
