"""The noise grade: the smallest difference that a run can detect, as a number and a letter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.alpha_spending import look_level
from pgdyno.analyse.comparison import LEAST_DELTA, Comparison, detectable
from pgdyno.analyse.intervals import Interval, Method
from pgdyno.analyse.mean_interval import CONFIDENCE
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import usual_metric, usual_split, value_of, within
from pgdyno.analyse.series import Series
from pgdyno.errors import UsageError

GRADES = (("A", 0.02), ("B", 0.05), ("C", 0.10), ("D", 0.20))
"""Letters with the largest difference that still has it: 2 % is near the least that pgdyno calls a difference (1 %),
20 % is what most changes of settings do not reach.
"""
WORST = "E"


@dataclass(frozen=True, slots=True)
class NoiseGrade:
    """The smallest difference that a run can detect, with its grade."""

    detectable: float
    """Relative: the smallest difference, for better or worse, that is found with a chance of 80 %."""
    repeats: int
    """Pairs of a comparison; otherwise the fewest trials of a point."""
    is_compared: bool
    """Whether arms of the run were compared; otherwise it is the difference from another run like this one."""

    @property
    def letter(self) -> str:
        return next((letter for letter, most in GRADES if self.detectable <= most), WORST)


def grade_of_comparison(of: Comparison) -> NoiseGrade | None:
    """Return the grade of a comparison, by its chief result; None without an interval."""
    chief = of.chief
    if chief is None or chief.detectable is None:
        return None
    return NoiseGrade(chief.detectable, chief.pairs, is_compared=of.paired)


def grade_against_none(of: Comparison) -> NoiseGrade | None:
    """Return the grade of the comparison of a gate, whose limit counts as none: that of a difference from zero."""
    chief = of.chief
    if chief is None or chief.interval is None:
        return None
    return NoiseGrade(detectable(chief.interval, LEAST_DELTA), chief.pairs, is_compared=of.paired)


def expected_grade(
    points: Sequence[Sequence[float]],
    pairs: Sequence[Sequence[tuple[float, float]]],
    repeats: tuple[int, int],
    *,
    compares: bool,
) -> NoiseGrade | None:
    """Return the grade of a run to come that is as noisy as a measured one; None if that had no repeats.

    `points` are the figures of each point of the measured run, `pairs` those of its pairs; `repeats` are the fewest and
    the most of the run to come, which compares arms or not. Without pairs, the noise of a pair is that of two trials.
    """
    fewest, most = repeats
    if most < 2 or not compares:
        return grade_of_repeats(points, most)
    found = _pooled([[math.log(other / base) for base, other in each] for each in pairs])
    if found is None:
        single = _pooled([[math.log(each) for each in figures if each > 0] for figures in points])
        found = None if single is None else 2 * single
    if found is None:
        return None
    look = None if fewest == most else look_level(CONFIDENCE, most, fewest, most)
    interval = Interval(0.0, 0.0, 0.0, math.sqrt(found / most), most - 1, CONFIDENCE, Method.T, look)
    return NoiseGrade(detectable(interval, LEAST_DELTA), most, is_compared=True)


def grade_like(run: RunSource, repeats: tuple[int, int], *, compares: bool) -> NoiseGrade | None:
    """Return the grade with the fewest and the most `repeats`, as noisy as `run`; None if it shows no noise."""
    return expected_grade(_figures(run), _pairs(run), repeats, compares=compares)


def _figures(run: RunSource) -> list[list[float]]:
    """Return the figures of every point, by the metric that comparisons of the run use."""
    metric = usual_metric(run)
    points: dict[tuple[Series, int], list[float]] = {}
    for trial in run.trials:
        value = value_of(trial, metric)
        if value is not None:
            points.setdefault((Series.of(trial.target, trial.point), trial.point.clients), []).append(value)
    return list(points.values())


def _pairs(run: RunSource) -> list[list[tuple[float, float]]]:
    """Return the figures of the pairs of every point; empty for a run of one arm."""
    by = usual_split(run)
    if by is None:
        return []
    try:
        every = within(run, by, usual_metric(run))
    except UsageError:
        return []
    return [
        [(point.base[each], point.other[each]) for each in point.repeats] for arms in every for point in arms.points
    ]


def _pooled(logs: Sequence[Sequence[float]]) -> float | None:
    """Return the variance within groups; None without a group of two."""
    groups = [each for each in logs if len(each) > 1]
    if not groups:
        return None
    means = [math.fsum(each) / len(each) for each in groups]
    squares = math.fsum((each - mean) ** 2 for of, mean in zip(groups, means, strict=True) for each in of)
    return squares / sum(len(each) - 1 for each in groups)


def grade_of_repeats(points: Sequence[Sequence[float]], repeats: int | None = None) -> NoiseGrade | None:
    """Return the grade of runs without a comparison: the difference at one point from another run like this one.

    `points` are the figures of each point's trials; `repeats` is the number of trials per point of the runs that are
    to be compared, by default the fewest of a point. The variance of the logarithms is pooled over the points, and
    the difference of two means of n trials has 2 (n - 1) degrees of freedom (Student's t for two samples). None
    without a point that was measured twice.
    """
    logs = [[math.log(each) for each in figures] for figures in points if len(figures) > 1 and min(figures) > 0]
    variance = _pooled(logs)
    if variance is None:
        return None
    n = repeats if repeats is not None else min(len(each) for each in logs)
    if n < 2:
        return None
    interval = Interval(0.0, 0.0, 0.0, math.sqrt(2 * variance / n), 2 * (n - 1), CONFIDENCE, Method.T)
    return NoiseGrade(detectable(interval, LEAST_DELTA), n, is_compared=False)
