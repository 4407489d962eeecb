"""Throughput and latency along any parameter of a sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.summary import PointSummary
from pgdyno.records import Point

CLIENTS = "clients"


@dataclass(frozen=True, slots=True)
class ParameterCurve:
    """Points that differ in one parameter only."""

    target: str
    point: Point
    """The first point of the curve: except for the parameter, all points share its values."""
    values: tuple[int | float | str | None, ...]
    """Values of the parameter: numbers ascending, others in order of occurrence; None if a point does not set it."""
    points: tuple[PointSummary, ...]


def along(points: Sequence[PointSummary], parameter: str) -> list[ParameterCurve]:
    """Return a curve along `parameter` for every combination of the others: clients, scale, rate, settings.work_mem, …

    Only curves with at least two values are returned. They include points without a finished trial, with no figures.
    """
    groups: dict[str, list[PointSummary]] = defaultdict(list)
    for point in points:
        groups[_without(point, parameter)].append(point)
    curves = []
    for there in groups.values():
        ordered = sorted(there, key=lambda point: _place(value_at(point.point, parameter), there.index(point)))
        values = tuple(value_at(point.point, parameter) for point in ordered)
        if len(set(values)) > 1:
            curves.append(ParameterCurve(there[0].series.target, there[0].point, values, tuple(ordered)))
    return curves


def value_at(point: Point, parameter: str) -> int | float | str | None:
    """Return the value of `parameter` at `point`; settings and variables that are integers are returned as numbers."""
    value = point.clients if parameter == CLIENTS else point.parameter(parameter)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return value


def _without(point: PointSummary, parameter: str) -> str:
    """Return the parameters that a point shares with its neighbours along `parameter`."""
    described = point.point.model_dump()
    group, dot, key = parameter.partition(".")
    if dot:
        described[group].pop(key, None)
    else:
        described.pop(parameter, None)
    return f"{point.series.target} {described}"


def _place(value: float | str | None, came: int) -> tuple[int, float]:
    return (0, float(value)) if isinstance(value, (int, float)) else (1, float(came))
