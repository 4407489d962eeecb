"""The noise grade of a plan as noisy as a run that is stored."""

from __future__ import annotations

from pgdyno.analyse.noise_grade import NoiseGrade, expected_grade
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import usual_metric, usual_split, value_of, within
from pgdyno.analyse.series import Series
from pgdyno.errors import UsageError


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
