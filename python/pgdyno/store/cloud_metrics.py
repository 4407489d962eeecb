"""Cloud monitoring of a rented server during a trial: tables that are added after the trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.records import CloudRecord, CloudSource
from pgdyno.store.parquet import write_tables
from pgdyno.store.probe_queries import SeriesStep, WaitStep, rows_of
from pgdyno.store.read_runs import RunData
from pgdyno.store.safe_files import DAMAGED, parse_json, read_record, replace_durably, store_errors, sync_tree
from pgdyno.store.trial_tables import CloudEventRow, CloudSeriesRow

RECORD = "cloud.json"
MOST_STEPS = 10_000
"""The most steps of one figure, which covers about a minute."""
LOG = "server.log"

_MINUTES = """
    SELECT trial, metric, coalesce(json_extract_string(labels, '$.volume'), '') AS volume,
           t_us - span_us - coalesce(origin_us, 0), t_us - coalesce(origin_us, 0), value
    FROM {cloud_series} LEFT JOIN origins USING (trial) WHERE source = 'cloudwatch' ORDER BY trial, metric, volume, t_us
"""
_LOAD = """
    WITH placed AS (
        SELECT s.trial, metric, value, json_extract_string(labels, '$.wait_type') AS wait_type,
               coalesce(json_extract_string(labels, '$.wait'), '') AS wait,
               floor((s.t_us - s.span_us / 2 - coalesce(o.origin_us, 0)) / w.width_us)::INTEGER AS step
        FROM {cloud_series} s JOIN widths w USING (trial) LEFT JOIN origins o USING (trial) WHERE source = 'insights'
    ), looks AS (SELECT trial, step, count(*) AS looks FROM placed WHERE metric = 'load' GROUP BY ALL)
    SELECT trial, step, wait_type, wait, sum(value) / any_value(looks)
    FROM placed JOIN looks USING (trial, step) WHERE metric = 'sessions' AND step >= 0 GROUP BY ALL
    UNION ALL
    SELECT trial, step, '', '', avg(value) FROM placed WHERE metric = 'load' AND step >= 0 GROUP BY ALL ORDER BY ALL
"""
_CHECKPOINTS = """
    SELECT trial, (t_us - coalesce(origin_us, 0)) / 1e6, coalesce(json_extract_string(detail, '$.reason'), '')
    FROM {cloud_events} LEFT JOIN origins USING (trial)
    WHERE kind = 'cloud_checkpoint' AND json_extract_string(detail, '$.phase') = 'started' ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class LoggedCheckpoint:
    """The start of a checkpoint, from the server's log."""

    trial: int
    at_s: float
    """Since the first transaction was due, accurate to a second."""
    reason: str
    """In the server's words: `time`, `wal`."""


CloudSeries = tuple[list[SeriesStep], list[WaitStep], list[LoggedCheckpoint]]
"""Metrics by the minute and active sessions from the provider, checkpoints in the log."""


def stored_cloud(trial: Path) -> CloudRecord | None:
    """Return the tables in the folder of a trial; None if it has none. Raises StoreError."""
    path = trial / RECORD
    with store_errors("read", path):
        if not path.exists():
            return None
        content = read_record(path)
    try:
        parse_json(content)
        return CloudRecord.model_validate_json(content)
    except ValueError as error:
        raise StoreError(f"cannot read {path}: {str(error).splitlines()[0]}", hint=DAMAGED) from error


def write_cloud(
    trial: Path,
    record: CloudRecord,
    series: Sequence[CloudSeriesRow],
    events: Sequence[CloudEventRow],
    log: Sequence[str],
) -> None:
    """Add the tables to the folder of a complete trial; the record is written last, as proof of completeness.

    `log` are lines of the server's log. Raises StoreError.
    """
    with store_errors("write", trial):
        write_tables(trial, {"cloud_series": series, "cloud_events": events})
        if log:
            (trial / "log" / LOG).write_text("\n".join(log) + "\n", encoding="utf-8")
        sync_tree(trial)
        replace_durably(trial / RECORD, (record.model_dump_json(indent=2) + "\n").encode())


def minute_steps(run: RunData, widths_us: Mapping[int, int]) -> list[SeriesStep]:
    """The provider's metrics of each trial of `widths_us`, in steps so wide. Raises StoreError.

    A step has the figure of the minute that contains its middle; without a figure there is no step.
    """
    found = []
    for trial, metric, volume, begin_us, end_us, value in rows_of(run, "cloud_series", _MINUTES, widths_us):
        width = widths_us[trial]
        # the steps whose middles are in the minute
        first, behind = (max(0, -int(-(at - width / 2) // width)) for at in (begin_us, end_us))
        found += [
            SeriesStep(trial, at, CloudSource.METRICS, metric, volume, value)
            for at in range(first, min(behind, first + MOST_STEPS))
        ]
    return found


def cloud_series(run: RunData, widths_us: Mapping[int, int]) -> dict[int, CloudSeries]:
    """Return all tables, by trial of `widths_us`. Raises StoreError."""
    found: dict[int, CloudSeries] = {number: ([], [], []) for number in widths_us}
    for minute in minute_steps(run, widths_us):
        found[minute.trial][0].append(minute)
    for wait in [WaitStep(*row) for row in rows_of(run, "cloud_series", _LOAD, widths_us)]:
        found[wait.trial][1].append(wait)
    for row in rows_of(run, "cloud_events", _CHECKPOINTS, widths_us):
        found[row[0]][2].append(LoggedCheckpoint(*row))
    return found
