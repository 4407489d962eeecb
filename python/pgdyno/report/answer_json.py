"""The answer for programs: as in `answer`, with names and figures in addition to the sentences."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pgdyno.analyse.estimate import CONFIDENCE, Estimate
from pgdyno.analyse.series import Series
from pgdyno.report.answer import Answer, Kind, answer, refusing
from pgdyno.report.comparison_export import comparison_json
from pgdyno.report.digest import Digest
from pgdyno.report.extras import Extras
from pgdyno.report.peaks import peaks
from pgdyno.report.phases import phases_of
from pgdyno.report.rates import KEPT_UP, rated_points, served_share
from pgdyno.report.texts import sentence


def answer_json(of: Digest, extras: Extras) -> dict[str, Any]:
    """Return the answer of a run; `docs/reference/analysis.md` describes the keys."""
    said = answer(of, extras)
    chief = said.chief
    others = [each for each in extras.comparisons if each is not chief]
    return {
        "kind": said.kind.value,
        "text": sentence(said.text),
        "details": [sentence(each) for each in said.details],
        "valid": said.kind not in (Kind.NOTHING, Kind.INCOMPARABLE) and not said.invalid,
        "invalid": [{"rule": each.rule, "trials": each.trials, "message": each.message} for each in refusing(extras)],
        "left_out": sorted(extras.left_out),
        "verdict": chief.chief.verdict.value if chief is not None and chief.chief is not None else None,
        "comparisons": [comparison_json(each) for each in ([chief, *others] if chief is not None else [])],
        "peaks": _peaks(of, said),
        "rates": _rates(of),
        "phases": _phases(of),
        "search": [each.model_dump(mode="json") for each in of.manifest.search],
    }


def _peaks(of: Digest, said: Answer) -> list[dict[str, Any]]:
    """Return the highest point of each series, unless the plan set the throughput."""
    if said.kind not in (Kind.PEAK, Kind.COMPARISON) or rated_points(of):
        return []
    return [
        {**_series(each.point.series), "clients": each.point.clients, "tps": estimate_json(each.tps)}
        for each in peaks(of)
    ]


def _rates(of: Digest) -> list[dict[str, Any]]:
    return [
        {
            **_series(point.series),
            "clients": point.clients,
            "rate": point.point.rate,
            "tps": estimate_json(point.tps),
            "served": served_share(of, point),
            "kept_up": served_share(of, point) >= KEPT_UP,
            "latency_ns": None
            if point.latency is None
            else {
                "p50": point.latency.p50_ns,
                "p99": point.latency.p99_ns,
                "max": point.latency.max_ns,
            },
        }
        for point in rated_points(of)
    ]


def _phases(of: Digest) -> list[dict[str, Any]]:
    return [
        {
            **_series(phase.point.series),
            "clients": phase.point.clients,
            "phase": phase.name,
            "result": phase.result,
            "tps": estimate_json(phase.tps),
            "p50_ns": phase.percentiles_ns("p50"),
            "p99_ns": phase.percentiles_ns("p99"),
            "unserved": phase.unserved,
        }
        for phase in phases_of(of)
    ]


def _series(series: Series) -> dict[str, Any]:
    return {"target": series.target, **series.parameters()}


def estimate_json(of: Estimate | None) -> dict[str, Any] | None:
    """Return a mean over trials; `half` of its interval is null for one trial."""
    return None if of is None else {**asdict(of), "confidence": CONFIDENCE}
