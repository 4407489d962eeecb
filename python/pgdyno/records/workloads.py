"""What workloads count beside transactions: sysbench's statements, TPC-C's orders."""

from __future__ import annotations

from pgdyno.records.base import Record


class StatementCounts(Record):
    """Statements of a Lua script's clients in the measured part, as sysbench counts them."""

    reads: int
    """Gave rows."""
    writes: int
    """Changed rows."""
    others: int
    ignored_errors: int
    """Those of the script's statements that it goes on after."""
    reconnects: int

    @property
    def queries(self) -> int:
        """All that succeeded."""
        return self.reads + self.writes + self.others


class TpccType(Record):
    """One of TPC-C's five transactions."""

    name: str
    count: int
    percent: float
    asked_percent: float
    p90_ns: int | None
    """90th percentile of its response time; None when none ended."""
    limit_s: float
    """The standard's limit of it (clause 5.2.5.4)."""

    @property
    def is_within(self) -> bool | None:
        """Whether the limit is kept; None when none ended."""
        return None if self.p90_ns is None else self.p90_ns <= self.limit_s * 1e9


class TpccFigures(Record):
    """TPC-C's own figures of a trial. Rates are a minute."""

    nopm: float
    """New-Orders that were committed, by the driver."""
    tpm: float
    """Transactions by the driver, those that were to be rolled back among them."""
    server_nopm: float | None
    """Increase of sum(d_next_o_id); None when the server could not be asked."""
    server_tpm: float | None
    """Increase of xact_commit + xact_rollback over all databases."""
    types: list[TpccType]
