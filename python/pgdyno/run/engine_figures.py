"""Reads from the engine's last event what a workload counts besides transactions; None for other workloads."""

from typing import Any

from pgdyno.records import ConnectFigures, ReplayFigures, StatementCounts, TpccFigures, TpccType, TpchFigures


def statement_counts(end: dict[str, Any]) -> StatementCounts | None:
    """Return the counts of a Lua script's clients."""
    counts = end.get("statements") if end.get("tpcc") is None else None
    return None if counts is None else StatementCounts.of_event(counts)


def connect_figures(end: dict[str, Any]) -> ConnectFigures | None:
    """Return the times to connect."""
    figures = end.get("connect")
    if figures is None:
        return None
    parts = {name: each and each["latency_ns"] for name, each in figures.items() if name != "count"}
    return ConnectFigures.model_validate({"count": figures["count"], **parts})


def replay_figures(end: dict[str, Any]) -> ReplayFigures | None:
    return None if end.get("replay") is None else ReplayFigures.of_event(end["replay"])


def tpcc_figures(end: dict[str, Any]) -> TpccFigures | None:
    figures = end.get("tpcc")
    if figures is None:
        return None
    on_server = {f"server_{name}": figures["server"].get(name) for name in ("nopm", "tpm")}
    return TpccFigures.of_event(figures, types=list(map(TpccType.of_event, figures["types"])), **on_server)


def tpch_figures(end: dict[str, Any]) -> TpchFigures | None:
    return None if end.get("tpch") is None else TpchFigures.of_event(end["tpch"])
