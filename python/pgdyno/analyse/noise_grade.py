"""The noise grade: the smallest difference that a run can detect, as a number and a letter."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.analyse.alpha_spending import look_level
from pgdyno.analyse.comparison import LEAST_DELTA, Comparison, detectable, logs_of_units
from pgdyno.analyse.intervals import CONFIDENCE, Interval, Method, upper_spread
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import Arms, usual_metric, usual_split, value_of, within
from pgdyno.analyse.series import Series
from pgdyno.errors import UsageError
from pgdyno.records import TrialRecord
from pgdyno.records.base import FEWEST_PAIRS

GRADES = (("A", 0.02), ("B", 0.05), ("C", 0.10), ("D", 0.20))
"""Letters with the largest difference that still has it: 2 % is near the least that pgdyno calls a difference (1 %),
20 % is what most changes of settings do not reach.
"""
WORST = "E"


@dataclass(frozen=True, slots=True)
class Figure:
    """The figure of one trial."""

    value: float
    instance: int | None
    """The instance of the target that served it; None for a target of one server."""


@dataclass(frozen=True, slots=True)
class NoiseGrade:
    """The smallest difference that a run can detect, with its grade."""

    detectable: float
    """Relative: the smallest difference, for better or worse, that is found with a chance of 80 %."""
    repeats: int
    """Pairs of a comparison; otherwise the fewest trials of a point."""
    is_compared: bool
    """Whether arms of the run were compared; otherwise it is the difference from another run like this one."""
    instances: int = 1
    """With two or more of each target, their means decide, not the repeats."""

    @property
    def letter(self) -> str:
        return next((letter for letter, most in GRADES if self.detectable <= most), WORST)


def grade_of_comparison(of: Comparison) -> NoiseGrade | None:
    """Return the grade of a comparison, by its chief result; None with fewer pairs than a claim needs."""
    chief = of.chief
    if chief is None or chief.detectable is None:
        return None
    return NoiseGrade(chief.detectable, chief.pairs, is_compared=of.paired, instances=chief.instances)


def grade_against_none(of: Comparison) -> NoiseGrade | None:
    """Return the grade of the comparison of a gate, whose limit counts as none: that of a difference from zero."""
    chief = of.chief
    if chief is None or chief.interval is None or chief.pairs < chief.fewest:
        return None
    found = detectable(chief.interval, LEAST_DELTA)
    return NoiseGrade(found, chief.pairs, is_compared=of.paired, instances=chief.instances)


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
    found = _planning_variance([[math.log(other / base) for base, other in each] for each in pairs])
    if found is None:
        single = _planning_variance([[math.log(each) for each in figures if each > 0] for figures in points])
        found = None if single is None else 2 * single
    if found is None:
        return None
    # with fewer pairs, no difference would be found: the grade is that of the fewest that can find one
    fewest, most = max(fewest, FEWEST_PAIRS), max(most, FEWEST_PAIRS)
    look = None if fewest == most else look_level(CONFIDENCE, most, fewest, most)
    return NoiseGrade(_detectable(found / most, most - 1, look), most, is_compared=True)


def _detectable(variance: float, freedom: float, look: float | None = None) -> float:
    """Return the smallest difference that a mean with the upper end `variance` of its variance shows."""
    error = math.sqrt(variance)
    return detectable(Interval(0.0, 0.0, 0.0, error, freedom, CONFIDENCE, Method.T, look), LEAST_DELTA, error)


def grade_like(run: RunSource, repeats: tuple[int, int], *, compares: bool, instances: int = 1) -> NoiseGrade | None:
    """Return the grade with the fewest and the most `repeats`, as noisy as `run`; None if it shows no such noise.

    With several `instances` of each target, only a run that had several, too, shows how far they differ.
    """
    points = figures_by_point(run, run.trials)
    if instances > 1:
        return _grade_of_instances(run, points, instances, repeats[1], compares=compares)
    # instances of an earlier run differ, which repeats on one server do not show
    servers = [figures for point in points for figures in _by_instance(point).values()]
    return expected_grade(servers, _pairs(run), repeats, compares=compares)


def _grade_of_instances(
    run: RunSource, points: Sequence[Sequence[Figure]], instances: int, repeats: int, *, compares: bool
) -> NoiseGrade | None:
    means = [each for each in map(instance_means, points) if each is not None]
    if not compares:
        return grade_of_repeats(means, repeats, instances)
    units = [logs_of_units(point, arms) for arms in _arms(run) for point in arms.points]
    of_pairs = [
        each.differences or [b - a for a, b in zip(each.base, each.other, strict=True)]
        for each in units
        if each.by_instance and each.paired
    ]
    variance, freedom = _planning_variance(of_pairs), instances - 1
    if variance is None:
        single, freedom = _planning_variance([[math.log(each) for each in of] for of in means]), 2 * (instances - 1)
        variance = None if single is None else 2 * single
    if variance is None:
        return None
    return NoiseGrade(_detectable(variance / instances, freedom), repeats, is_compared=True, instances=instances)


def figures_by_point(run: RunSource, trials: Iterable[TrialRecord]) -> list[list[Figure]]:
    """Return the figures of the finished trials of every point, by the metric that comparisons of the run use."""
    metric = usual_metric(run)
    points: dict[tuple[Series, int | None], list[Figure]] = {}
    for trial in trials:
        value = value_of(trial, metric)
        if value is not None:
            figure = Figure(value, trial.instance)
            points.setdefault((Series.from_point(trial.target, trial.point), trial.point.clients), []).append(figure)
    return list(points.values())


def instance_means(figures: Sequence[Figure]) -> list[float] | None:
    """Return the geometric mean of each instance; None for fewer than two."""
    found = _by_instance(figures)
    if None in found or len(found) < 2:
        return None
    return [math.exp(math.fsum(map(math.log, each)) / len(each)) for each in found.values()]


def _by_instance(figures: Sequence[Figure]) -> dict[int | None, list[float]]:
    found: dict[int | None, list[float]] = {}
    for each in figures:
        found.setdefault(each.instance, []).append(each.value)
    return found


def _arms(run: RunSource) -> list[Arms]:
    """Return the arms that the run compares; empty for a run of one arm."""
    by = usual_split(run)
    if by is None:
        return []
    try:
        return within(run, by, usual_metric(run))
    except UsageError:
        return []


def _pairs(run: RunSource) -> list[list[tuple[float, float]]]:
    """Return the figures of the pairs of every point, those of different instances apart."""
    found: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for at, arms in enumerate(_arms(run)):
        for point in arms.points:
            of_base, of_other = point.instances
            for repeat in point.repeats:
                place = at, point.key, of_base.get(repeat), of_other.get(repeat)
                found.setdefault(place, []).append((point.base[repeat], point.other[repeat]))
    return list(found.values())


def _planning_variance(logs: Sequence[Sequence[float]]) -> float | None:
    """Return the upper end of the variance within groups (`upper_spread`); None without a group of two."""
    groups = [each for each in logs if len(each) > 1]
    if not groups:
        return None
    means = [math.fsum(each) / len(each) for each in groups]
    squares = math.fsum((each - mean) ** 2 for of, mean in zip(groups, means, strict=True) for each in of)
    freedom = sum(len(each) - 1 for each in groups)
    return upper_spread(math.sqrt(squares / freedom), freedom) ** 2


def grade_of_points(points: Sequence[Sequence[Figure]]) -> NoiseGrade | None:
    """Return the grade of a run without a comparison, from the figures of its points."""
    found = [(each, len(figures)) for figures in points if (each := instance_means(figures)) is not None]
    if not found:
        return grade_of_repeats([[each.value for each in figures] for figures in points])
    means, repeats = zip(*found, strict=True)
    return grade_of_repeats(means, min(repeats), min(map(len, means)))


def grade_of_repeats(
    points: Sequence[Sequence[float]], repeats: int | None = None, instances: int = 1
) -> NoiseGrade | None:
    """Return the grade of runs without a comparison: the difference at one point from another run like this one.

    `points` are the figures of each point's trials; `repeats` is the number of trials per point of the runs that are
    to be compared, by default the fewest of a point. With several `instances`, `points` are their means, and one more
    run would have as many others. The variance of the logarithms is pooled over the points, and the difference of two
    means of n values has 2 (n - 1) degrees of freedom (Student's t for two samples). None without a point that has two
    values.
    """
    logs = [[math.log(each) for each in figures] for figures in points if len(figures) > 1 and min(figures) > 0]
    variance = _planning_variance(logs)
    if variance is None:
        return None
    trials = repeats if repeats is not None else min(len(each) for each in logs)
    if trials < 2:
        return None
    # with fewer, no difference would be found: the grade is that of the fewest that can find one
    trials = max(trials, FEWEST_PAIRS)
    n = instances if instances > 1 else trials
    return NoiseGrade(_detectable(2 * variance / n, 2 * (n - 1)), trials, is_compared=False, instances=instances)
