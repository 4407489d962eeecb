"""What the probe saw while trials were measured, a row a trial: the figures that say what limited it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.store.parquet import connect, quoted
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
active AS (
    SELECT trial, list((wait_type, wait, sessions) ORDER BY sessions DESC, wait DESC) AS waits FROM sums GROUP BY 1)
SELECT trial, busy, steal, waits, bytes_per_s, device, utilisation
FROM bounds LEFT JOIN cpu USING (trial) LEFT JOIN wal USING (trial)
     LEFT JOIN disk USING (trial) LEFT JOIN active USING (trial)
WHERE coalesce(busy, len(waits), bytes_per_s) IS NOT NULL ORDER BY trial
"""
_TABLES = ("events", "intervals", "series", "waits")


@dataclass(frozen=True, slots=True)
class SeenBeside:
    """Averages over the measured part of a trial; None where the probe had nothing."""

    trial: int
    slug: str
    cpu: float | None
    """Share of all cores of the server's host."""
    steal: float | None
    waits: Sequence[tuple[str, str, float]]
    """Kind, name (empty without one), and sessions of clients, most first; none where nobody looked."""
    wal_bytes_per_s: float | None
    disk: str | None
    """The busiest of those that hold data or WAL."""
    disk_utilisation: float | None


def has_probe_tables(run: RunData) -> bool:
    """Whether every trial has the probe's tables, which folders of earlier versions have not."""
    return all(_has(run.folder.trials_path / trial.slug) for trial in run.trials)


def _has(folder: Path) -> bool:
    return all((folder / f"{name}.parquet").exists() for name in ("series", "waits"))


def seen_beside(run: RunData, trials: Collection[int] | None = None) -> list[SeenBeside]:
    """Trials beside which there was a probe, in order; of `trials` only where they are named. Raises StoreError."""
    slugs = {record.number: record.slug for record in run.trials if trials is None or record.number in trials}
    there = [slug for slug in slugs.values() if _has(run.folder.trials_path / slug)]
    if not there:
        return []
    with storing("read", run.folder.path), connect() as connection:
        for name in _TABLES:
            paths = ", ".join(quoted(str(run.folder.trials_path / slug / f"{name}.parquet")) for slug in there)
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet([{paths}])")
        rows = connection.execute(_QUERY).fetchall()
    return [
        SeenBeside(number, slugs[number], busy, steal, waits or (), *rest) for number, busy, steal, waits, *rest in rows
    ]
