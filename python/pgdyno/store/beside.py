"""The probe's samples of trials, aggregated into steps by DuckDB: an hour of them is a million rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.store.parquet import connect, fetched_rows, quoted, stored
from pgdyno.store.read import RunData
from pgdyno.store.storing import storing

AMOUNTS = (
    ("disk", "read"),
    ("disk", "written"),
    ("wal_position", "inserted"),
    ("checkpoints", "timed"),
    ("checkpoints", "requested"),
    ("tables", "vacuums"),
    ("tables", "autovacuums"),
)
"""Source and metric of counters, which are returned as a rate."""
MEANS = (
    ("cpu", "user"),
    ("cpu", "system"),
    ("cpu", "iowait"),
    ("cpu", "irq"),
    ("cpu", "steal"),
    ("disk", "utilisation"),
)
"""Source and metric of shares and numbers averaged over time, which are returned as their mean."""
FILES_AT_ONCE = 200
"""Trials per query: DuckDB opens all its files before it reads."""


@dataclass(frozen=True, slots=True)
class SeriesStep:
    """A metric over one step of a trial."""

    trial: int
    step: int
    """From the start of the first transaction; 0 is the first."""
    source: str
    metric: str
    label: str
    """The disk with its contents; empty without a label."""
    value: float
    """Mean, or for a counter its increase per second."""


@dataclass(frozen=True, slots=True)
class WaitStep:
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
    values = ", ".join(f"({quoted(source)}, {quoted(metric)}, {rate})" for source, metric, rate in wanted)
    query = f"""
        WITH wanted (source, metric, is_amount) AS (VALUES {values}), chosen AS (
            SELECT s.trial, floor((s.t_us - coalesce(o.origin_us, 0)) / w.width_us)::INTEGER AS step,
                   source, metric, is_amount, value, span_us, json_extract_string(labels, '$.holds') AS holds,
                   json_extract_string(labels, '$.device') AS device
            FROM {{series}} s JOIN wanted USING (source, metric) JOIN widths w USING (trial)
            LEFT JOIN origins o USING (trial)
        )
        SELECT trial, step, source, metric, coalesce(holds || ', ' || device, '') AS label,
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
        return stored([path for path in paths if path.exists()])

    if not any((run.folder.trials_path / slug / f"{table}.parquet").exists() for slug in slugs):
        return []
    with storing("read", run.folder.path), connect() as connection:
        connection.execute("CREATE TABLE widths (trial INTEGER, width_us BIGINT)")
        connection.executemany("INSERT INTO widths VALUES (?, ?)", [list(each) for each in widths_us.items()])
        connection.execute(
            f"""CREATE TABLE origins AS SELECT trial, max(json_extract(detail, '$.origin_us')::BIGINT) AS origin_us
            FROM {files("events")} WHERE kind = 'connected' GROUP BY trial"""  # noqa: S608 - names of ours
        )
        return list(fetched_rows(connection.execute(query.replace("{" + table + "}", files(table))), run.folder.path))
