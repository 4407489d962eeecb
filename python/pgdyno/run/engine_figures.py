"""Reads from the engine's last event what a workload counts besides transactions."""

from __future__ import annotations

from typing import Any

from pgdyno.records import ReplayFigures, StatementCounts, TpccFigures, TpccType, TpchFigures


def statement_counts(end: dict[str, Any]) -> StatementCounts | None:
    """Returns the counts of a Lua script's clients; None for other workloads."""
    counts = end.get("statements")
    if counts is None or end.get("tpcc") is not None:
        return None
    return StatementCounts(**{name: counts[name] for name in StatementCounts.model_fields})


def replay_figures(end: dict[str, Any]) -> ReplayFigures | None:
    """Returns the figures of a replay; None for other workloads."""
    figures = end.get("replay")
    if figures is None:
        return None
    return ReplayFigures(**{name: figures[name] for name in ReplayFigures.model_fields if name in figures})


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


def tpch_figures(end: dict[str, Any]) -> TpchFigures | None:
    """Returns the figures of a load derived from TPC-H; None for other workloads."""
    figures = end.get("tpch")
    if figures is None:
        return None
    return TpchFigures.model_validate({name: figures[name] for name in TpchFigures.model_fields})
