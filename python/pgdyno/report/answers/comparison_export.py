"""Comparisons and noise floors for programs: JSON."""

import math
from typing import Any

from pgdyno.analyse.comparison import Comparison, PointComparison
from pgdyno.analyse.intervals import Interval
from pgdyno.analyse.noise_floor import FloorRefusal, NoiseFloor
from pgdyno.messages import message_json, messages_json


def comparison_json(of: Comparison) -> dict[str, Any]:
    """Return one comparison; differences are relative (0.01 is 1 %), figures transactions per second or nanoseconds."""
    return {
        "base": of.base,
        "other": of.other,
        "metric": of.metric.value,
        "paired": of.paired,
        "delta": of.delta,
        "overall": None if of.overall is None else point_json(of.overall),
        "points": [point_json(point) for point in of.points],
        "control": None if of.control is None else [point_json(point) for point in of.control.points],
        "causes": [message_json(each) for each in of.causes],
        "stopping": None if of.stopping is None else of.stopping.model_dump(mode="json"),
        "unmatched": [str(label) for label in of.unmatched],
        "confounders": [
            {"topic": each.topic, "field": each.field, **message_json(each.message)} for each in of.confounders
        ],
        **messages_json("warnings", of.warnings),
    }


def point_json(point: PointComparison) -> dict[str, Any]:
    return {
        "label": str(point.label),
        "verdict": point.verdict.value,
        "pairs": point.pairs,
        "base": _number(point.base),
        "other": _number(point.other),
        "change": _number(point.change),
        "interval": None if point.interval is None else interval_json(point.interval),
        "detectable": point.detectable,
        "new_run_pairs": point.new_run_pairs,
        "instances": point.instances,
        "new_run_instances": point.new_run_instances,
        "duet": point.duet,
        "removed": point.removed,
        "fewest": point.fewest,
        "reason": None if point.reason is None else str(point.reason),
        "reason_details": None if point.reason is None else message_json(point.reason),
    }


def interval_json(interval: Interval) -> dict[str, Any]:
    """Return the ends as relative differences."""
    return {
        "low": math.expm1(interval.low),
        "high": math.expm1(interval.high),
        "level": interval.level,
        "look_level": interval.look_level,
        "method": interval.method.value,
    }


def noise_json(of: NoiseFloor) -> dict[str, Any]:
    points = [
        {
            "label": str(point.label),
            "pairs": point.pairs,
            "floor": point.floor,
            "interval": interval_json(point.interval),
            "spread": point.spread,
            "spread_interval": [point.spread_low, point.spread_high],
        }
        for point in of.points
    ]
    return {
        "base": of.base,
        "other": of.other,
        "floor": of.floor,
        "delta": of.delta,
        "refused": None if (refused := of.refusal) is None else _refused_json(refused),
        "points": points,
        **messages_json("warnings", of.warnings),
    }


def _refused_json(of: FloorRefusal) -> dict[str, Any]:
    return {"why": str(of.why), "remedy": str(of.remedy), "id": of.why.id, "parameters": of.why.parameters}


def _number(figure: float) -> float | None:
    return figure if math.isfinite(figure) else None
