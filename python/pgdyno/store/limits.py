"""What the probe saw while trials were measured, a row a trial: the figures that say what limited it."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.store.read import RunData

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
    SELECT trial, wait_type || coalesce(':' || wait, '') AS wait, sum(sessions) AS sessions FROM seen
    WHERE backend_type IN ('client backend', 'parallel worker') GROUP BY ALL),
active AS (
    SELECT trial, sum(sessions) / any_value(looks) AS active, arg_max(wait, (sessions, wait)) AS top,
           max(sessions) / any_value(looks) AS top_sessions
    FROM sums JOIN looks USING (trial) GROUP BY 1)
SELECT trial, slug, busy, steal, active, top, top_sessions, bytes_per_s, device, utilisation
FROM trials JOIN bounds USING (trial) LEFT JOIN cpu USING (trial) LEFT JOIN wal USING (trial)
     LEFT JOIN disk USING (trial) LEFT JOIN active USING (trial)
WHERE coalesce(busy, active, bytes_per_s) IS NOT NULL ORDER BY trial
"""


@dataclass(frozen=True, slots=True)
class SeenBeside:
    """Averages over the measured part of a trial; None where the probe had nothing."""

    trial: int
    slug: str
    cpu: float | None
    """Share of all cores of the server's host."""
    steal: float | None
    active: float | None
    """Sessions of clients at work."""
    top_wait: str | None
    top_sessions: float | None
    wal_bytes_per_s: float | None
    disk: str | None
    """The busiest of those that hold data or WAL."""
    disk_utilisation: float | None


def has_probe_tables(run: RunData) -> bool:
    """Whether every trial has the probe's tables, which folders of earlier versions have not."""
    folders = [run.folder.trials_path / trial.slug for trial in run.trials]
    return all((folder / f"{name}.parquet").exists() for folder in folders for name in ("series", "waits"))


def seen_beside(run: RunData) -> list[SeenBeside]:
    """Trials beside which there was a probe, in order. Raises StoreError."""
    if not has_probe_tables(run):
        return []
    return [SeenBeside(*row) for row in run.query(_QUERY).rows]
