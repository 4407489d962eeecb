"""Averages of the probe's samples over each measured trial: the figures that show what limited it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.store.parquet import connect, fetched_rows, stored
from pgdyno.store.read import RunData
from pgdyno.store.storing import storing

_QUERY = """
WITH origin AS (
    SELECT trial, any_value(CAST(detail->>'origin_us' AS BIGINT)) AS origin_us FROM events
    WHERE kind = 'connected' GROUP BY 1),
bounds AS (
    SELECT trial, min(from_us) + any_value(origin_us) AS begin_us, max(to_us) + any_value(origin_us) AS end_us
    FROM intervals JOIN origin USING (trial) WHERE phase = 'measure' GROUP BY 1),
inside AS (
    -- a sample is about the time before it: its middle decides
    SELECT series.* FROM series JOIN bounds USING (trial)
    WHERE span_us IS NOT NULL AND t_us - span_us / 2 BETWEEN begin_us AND end_us),
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
seen AS (SELECT waits.* FROM waits JOIN bounds USING (trial) WHERE t_us BETWEEN begin_us AND end_us),
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
FROM bounds LEFT JOIN counted USING (trial) LEFT JOIN made USING (trial) LEFT JOIN parallel USING (trial)
     LEFT JOIN cpu USING (trial) LEFT JOIN wal USING (trial)
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
class SeenBeside:
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
    return all(_has(run.folder.trials_path / trial.slug) for trial in run.trials)


def _has(folder: Path) -> bool:
    return all((folder / f"{name}.parquet").exists() for name in ("series", "waits"))


def seen_beside(run: RunData, trials: Collection[int] | None = None) -> list[SeenBeside]:
    """Return averages of trials with a probe, in order; only `trials` if given. Raises StoreError."""
    slugs = {record.number: record.slug for record in run.trials if trials is None or record.number in trials}
    there = [slug for slug in slugs.values() if _has(run.folder.trials_path / slug)]
    if not there:
        return []
    with storing("read", run.folder.path), connect() as connection:
        for name in _TABLES:
            paths = [run.folder.trials_path / slug / f"{name}.parquet" for slug in there]
            connection.execute(f"CREATE VIEW {name} AS FROM {stored(paths)}")
        found = connection.execute(_QUERY.format(seconds=_COUNTED_S))
        rows = list(fetched_rows(found, run.folder.path, slugs))
    return [
        SeenBeside(number, slugs[number], busy, steal, counted_waits(waits or (), counted, transactions or 0), *rest)
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
