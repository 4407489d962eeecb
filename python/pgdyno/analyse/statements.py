"""Statements of a trial, by total time."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.analyse.source import RunSource


@dataclass(frozen=True, slots=True)
class StatementShare:
    """One statement of a script."""

    script: int
    line: int
    text: str
    executions: int
    failures: int
    mean_ns: float
    p99_ns: int | None
    total_s: float
    """executions x mean: how long all clients together waited for it."""
    share: float
    """Share of the total time of all statements."""


def statement_shares(run: RunSource, trial: int) -> list[StatementShare]:
    """Return the statements of trial number `trial`, the most expensive first, without those that never succeeded or
    were not counted.
    """
    rows = [
        (row, row.executions, row.latency_mean_ns)
        for row in run.statements(trial)
        if row.executions and row.latency_mean_ns is not None
    ]
    total = sum(executions * mean for _, executions, mean in rows if executions and mean is not None)
    found = [
        StatementShare(
            row.script, row.line, row.text, executions, row.failures or 0, mean, row.p99_ns,
            executions * mean / 1e9, executions * mean / total if total else 0.0,
        )
        for row, executions, mean in rows
        if executions is not None and mean is not None
    ]  # fmt: skip
    return sorted(found, key=lambda each: -each.total_s)
