"""Figures of trials of tpch over the repeats of a point: power, throughput, composite, and the time of each query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.analyse.mean_interval import Estimate, trials_interval
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import TpchFigures, TrialRecord


@dataclass(frozen=True, slots=True)
class QueryTime:
    """Seconds of one query or refresh function: means over trials, with their intervals."""

    query: str
    power: Estimate
    """In the power run."""
    throughput: Estimate
    """In the throughput run: a trial counts with the mean over its streams."""


@dataclass(frozen=True, slots=True)
class PowerAndThroughput:
    """The figures of one point, over its finished trials."""

    point: PointSummary
    power: Estimate
    throughput: Estimate
    composite: Estimate
    queries: tuple[QueryTime, ...]
    """Q1 to Q22, RF1, RF2."""


def power_and_throughput(trials: Iterable[TrialRecord], points: Sequence[PointSummary]) -> list[PowerAndThroughput]:
    """Return the figures of each of `points` that has a finished trial of tpch."""
    of_trial = {trial.number: trial for trial in trials}
    found = []
    for point in points:
        measured = [of_trial[number] for number in point.finished]
        figures = [each.summary.tpch for each in measured if each.summary is not None and each.summary.tpch is not None]
        if figures and len(figures) == len(measured):
            found.append(_of_point(point, figures, [each.instance for each in measured]))
    return found


def _of_point(
    point: PointSummary, figures: Sequence[TpchFigures], instances: Sequence[int | None]
) -> PowerAndThroughput:
    def estimate(values: Iterable[float]) -> Estimate:
        return trials_interval(list(values), instances)

    # a finished trial has all figures
    return PowerAndThroughput(
        point,
        power=estimate(each.power or 0.0 for each in figures),
        throughput=estimate(each.throughput or 0.0 for each in figures),
        composite=estimate(each.composite or 0.0 for each in figures),
        queries=tuple(
            QueryTime(
                query,
                power=estimate(_mean_s(each, query, of_power=True) for each in figures),
                throughput=estimate(_mean_s(each, query, of_power=False) for each in figures),
            )
            for query in sorted({timing.query for timing in figures[0].timings}, key=_place)
        ),
    )


def _mean_s(figures: TpchFigures, query: str, *, of_power: bool) -> float:
    times = [each.seconds for each in figures.timings if each.query == query and (each.stream == 0) == of_power]
    return math.fsum(times) / len(times)


def _place(query: str) -> tuple[bool, int]:
    """Queries by number, then the refresh functions."""
    return query.startswith("RF"), int(query.lstrip("QRF"))
