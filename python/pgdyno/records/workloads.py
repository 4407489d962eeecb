"""Figures of workloads besides transactions: sysbench's statements, TPC-C's orders."""

from __future__ import annotations

from pgdyno.records.base import Record


class StatementCounts(Record):
    """Statements of a Lua script's clients in the measured part, as sysbench counts them."""

    reads: int
    """Statements that returned rows."""
    writes: int
    """Statements that changed rows."""
    others: int
    ignored_errors: int
    """Errors that the script ignores."""
    reconnects: int

    @property
    def queries(self) -> int:
        """Return the number of succeeded statements."""
        return self.reads + self.writes + self.others


class TpccType(Record):
    """One of TPC-C's five transactions."""

    name: str
    count: int
    percent: float
    asked_percent: float
    p90_ns: int | None
    """90th percentile of its response time; None if none completed."""
    limit_s: float
    """The standard's limit (clause 5.2.5.4)."""

    @property
    def is_within(self) -> bool | None:
        """Return whether the limit is met; None if none completed."""
        return None if self.p90_ns is None else self.p90_ns <= self.limit_s * 1e9


class TpccFigures(Record):
    """TPC-C's own figures of a trial. Rates are per minute."""

    nopm: float
    """Committed New-Orders, counted by the driver."""
    tpm: float
    """Transactions counted by the driver, including intended rollbacks."""
    server_nopm: float | None
    """Increase of sum(d_next_o_id); None if the server could not be queried."""
    server_tpm: float | None
    """Increase of xact_commit + xact_rollback over all databases."""
    types: list[TpccType]
