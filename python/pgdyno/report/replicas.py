"""Standbys of trials: their load and their lag; separate from the figures of their primary."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.records import ReplicaFigures, ReplicaLag, StandbyProbeRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext, gettext_each, gettext_noop

CAPTION = gettext_noop("Standbys during each trial; largest replay lag, in kB and ms")
TEXT_COLUMNS = 2
MOST_LINES = 12
"""Limit in a terminal; the HTML report has all."""


def replica_table(trials: Sequence[TrialRecord]) -> Table | None:
    """Return a row per trial and standby; None without standbys."""
    rows = []
    for trial in trials:
        loads = {each.name: each for each in trial.replica_load}
        lags = {each.name: each for each in trial.replication}
        probes = {each.name: each for each in trial.probe.standbys} if trial.probe is not None else {}
        for name in dict.fromkeys([*loads, *lags]):
            cells = (*_load(loads.get(name)), *_lag(lags.get(name)), *_activity(probes.get(name)))
            rows.append((str(trial.number), name, *cells))
    headings = (
        *gettext_each("trial", "standby", "clients"),
        *("tps", "p50, ms", "p99, ms"),
        *gettext_each("failed", "behind, kB", "lag, ms", "active", "top wait"),
    )
    return Table(gettext(CAPTION), headings, tuple(rows), TEXT_COLUMNS) if rows else None


def replica_lines(trials: Sequence[TrialRecord]) -> list[str]:
    """Return the first of the rows for a terminal; empty without standbys."""
    table = replica_table(trials)
    if table is None:
        return []
    # 80 columns have no room for their waits
    headings, *shown = [row[:-1] for row in (table.headings, *table.rows[:MOST_LINES])]
    widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
    lines = [f"{table.caption}:", *(_padded(row, widths) for row in (headings, *shown))]
    more = len(table.rows) - len(shown)
    return [*lines, f"{more} more in the HTML report"] if more else lines


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if at < TEXT_COLUMNS else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return " ".join(cells).rstrip()


def _load(load: ReplicaFigures | None) -> tuple[str, ...]:
    if load is None:
        return (numbers.NOTHING,) * 5
    latency = load.latency_ns
    return (
        f"{load.clients:,}",
        numbers.NOTHING if load.tps is None else numbers.rounded(load.tps),
        numbers.ms(latency.p50 if latency is not None else None),
        numbers.ms(latency.p99 if latency is not None else None),
        f"{load.failed:,}",
    )


def _lag(lag: ReplicaLag | None) -> tuple[str, str]:
    behind = None if lag is None else lag.bytes_max
    replay_s = None if lag is None else lag.replay_lag_max_s
    return (
        numbers.NOTHING if behind is None else numbers.rounded(behind / 1000),
        numbers.ms(None if replay_s is None else replay_s * 1e9),
    )


def _activity(probe: StandbyProbeRecord | None) -> tuple[str, str]:
    """Return active sessions of clients, and the top wait, including other backends."""
    if probe is None or probe.active is None:
        return (numbers.NOTHING,) * 2
    top = next(iter(probe.waits.items()), None)
    shown = numbers.NOTHING if top is None else f"{top[0]} {numbers.rounded(top[1], 2)}"
    return numbers.rounded(probe.active, 2), shown
