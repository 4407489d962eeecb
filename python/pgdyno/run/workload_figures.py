"""Extracts sysbench's statement counts and TPC-C's order figures from the engine's `end` event."""

from __future__ import annotations

from typing import Any

from pgdyno.records import StatementCounts, TpccFigures, TpccType


def statement_counts(end: dict[str, Any]) -> StatementCounts | None:
    """Returns the counts of a Lua script's clients; None for other workloads."""
    counts = end.get("statements")
    if counts is None or end.get("tpcc") is not None:
        return None
    return StatementCounts(**{name: counts[name] for name in StatementCounts.model_fields})


def tpcc_figures(end: dict[str, Any]) -> TpccFigures | None:
    """Returns the figures of a TPC-C load; None for other workloads."""
    figures = end.get("tpcc")
    if figures is None:
        return None
    server = figures["server"]
    types = [TpccType(**{name: one[name] for name in TpccType.model_fields}) for one in figures["types"]]
    return TpccFigures(
        nopm=figures["nopm"],
        tpm=figures["tpm"],
        server_nopm=server.get("nopm"),
        server_tpm=server.get("tpm"),
        types=types,
    )
