"""Which trials are compared with which: the same point under two arms, paired where they were run as pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.metric import Metric, value_of
from pgdyno.analyse.series import Series, following, label, text, varying
from pgdyno.analyse.source import RunSource
from pgdyno.errors import UsageError
from pgdyno.records import Point, TrialRecord

VERSION = "version"
"""What `within` may split by beside the parameters of a series: the server's version as it said."""

SELDOM_COMPARED = ("rate", "scale", "workers")
"""Parameters that make curves; `usual_split` takes another one where there is one."""

PointKey = tuple[Series, int]
"""A point without its arm: the other parameters, and the clients."""


@dataclass(frozen=True, slots=True)
class PointPairs:
    """One point under two arms: a figure for each repeat that is a result."""

    label: str
    """`pg18, 8 clients`: what tells the points apart, the arm left out."""
    point: Point
    base: Mapping[int, float]
    """By repeat."""
    other: Mapping[int, float]

    @property
    def repeats(self) -> list[int]:
        """Repeats that both arms have."""
        return sorted(self.base.keys() & self.other.keys())


@dataclass(frozen=True, slots=True)
class Arms:
    """Two arms at every point that both have."""

    base: str
    other: str
    metric: Metric
    paired: bool
    """Whether repeats of one number were run as a pair: within a run they were, between two runs they were not."""
    points: tuple[PointPairs, ...]
    unmatched: tuple[str, ...] = ()
    """Points that only one arm has."""


def usual_split(run: RunSource) -> str | None:
    """What the arms of `run` differ in unless it is named: a target, a protocol, a setting or a variable.

    None where its trials differ in none of these.
    """
    follow = following(run.manifest.plan, (trial.point for trial in run.trials))
    names = varying(list(dict.fromkeys(Series.of(trial.target, trial.point, follow) for trial in run.trials)))
    return next((name for name in names if name not in SELDOM_COMPARED), None)


def within(run: RunSource, by: str, metric: Metric, base: str | None = None) -> list[Arms]:
    """Every arm of `run` against the baseline `base`, the first of the plan unless it is named.

    `by` is `target`, `version` or a parameter: `settings.work_mem`, `scale`, `protocol`. Repeats are paired:
    in an interleaved or randomised order a repeat of a point is a block, in one as listed it is a round.
    Raises UsageError where `by` has fewer than two values, or `base` is none of them.
    """
    arms: dict[str, list[TrialRecord]] = defaultdict(list)
    name_of = _arm_name(run, by)
    for trial in sorted(run.trials, key=_place_in_plan(run, by)):
        arms[name_of(trial)].append(trial)
    if len(arms) < 2:
        only = f": all trials have {next(iter(arms))}" if arms else ""
        raise UsageError(f"run {run.manifest.run} has nothing to compare by {by}{only}", hint=_varying_hint(run))
    first = base if base is not None else next(iter(arms))
    if first not in arms:
        raise UsageError(f"{by} {first} is not in run {run.manifest.run}", hint=f"there are {', '.join(arms)}")
    return [
        _arms((first, other), (arms[first], trials), metric, _without(by), paired=True)
        for other, trials in arms.items()
        if other != first
    ]


def between(base: RunSource, other: RunSource, metric: Metric) -> Arms:
    """Two runs at every point that both have; not paired, for they were made one after the other.

    Targets are matched by name; where each run has one target, these are. Raises UsageError where no point is
    in both.
    """
    alone = all(len({trial.target for trial in run.trials}) == 1 for run in (base, other))
    key = _without("target" if alone else "")
    names = (base.manifest.run, other.manifest.run)
    arms = _arms(names, (base.trials, other.trials), metric, key, paired=False)
    if not arms.points:
        raise UsageError(
            f"runs {names[0]} and {names[1]} have no point in common",
            hint="targets are matched by name, points by all their parameters",
        )
    return arms


def _arms(
    names: tuple[str, str],
    trials: tuple[Sequence[TrialRecord], Sequence[TrialRecord]],
    metric: Metric,
    key: Callable[[TrialRecord], PointKey],
    *,
    paired: bool,
) -> Arms:
    base, other = (_figures(each, metric, key) for each in trials)
    keys = list(dict.fromkeys(key(trial) for each in trials for trial in each))
    labels = _labels(keys)
    points = {key(trial): trial.point for each in trials for trial in each}
    both = sorted((each for each in keys if each in base and each in other), key=lambda each: each[1])
    return Arms(
        *names,
        metric,
        paired,
        tuple(PointPairs(labels[each], points[each], base[each], other[each]) for each in both),
        tuple(labels[each] for each in keys if each not in both),
    )


def _figures(
    trials: Sequence[TrialRecord], metric: Metric, key: Callable[[TrialRecord], PointKey]
) -> dict[PointKey, dict[int, float]]:
    """Figures of results by point and repeat; of a repeat that was made anew, the last."""
    found: dict[PointKey, dict[int, float]] = defaultdict(dict)
    for trial in trials:
        figure = value_of(trial, metric)
        if figure is not None:
            found[key(trial)][trial.repeat] = figure
    return found


def _without(by: str) -> Callable[[TrialRecord], PointKey]:
    """A trial's point without the parameter `by`."""

    def key(trial: TrialRecord) -> PointKey:
        point = trial.point
        group, dot, name = by.partition(".")
        if dot:
            left = {each: value for each, value in getattr(point, group).items() if each != name}
            point = point.model_copy(update={group: left})
        elif by in ("workers", "scale", "rate", "protocol"):
            point = point.model_copy(update={by: "" if by == "protocol" else None})
        target = "" if by in ("target", VERSION) else trial.target
        return Series.of(target, point), point.clients

    return key


def _arm_name(run: RunSource, by: str) -> Callable[[TrialRecord], str]:
    """The arm that a trial belongs to, as people call it."""
    if by == "target":
        return lambda trial: trial.target
    if by == VERSION:
        versions = {each.name: each.facts.version if each.facts else each.name for each in run.manifest.targets}
        return lambda trial: versions.get(trial.target, trial.target)
    known = {name for trial in run.trials for name in trial.point.parameters()}
    if by not in known:
        raise UsageError(f"there is nothing called {by} to compare by", hint=_varying_hint(run))

    def name(trial: TrialRecord) -> str:
        value = trial.point.parameter(by)
        return "default" if value is None else text(value)

    return name


def _place_in_plan(run: RunSource, by: str) -> Callable[[TrialRecord], int]:
    """Where the plan names the arm of a trial: which arm runs first may be drawn, and is no baseline.

    0 for every trial, so that they stay as they ran, where the plan does not name all arms.
    """
    group, dot, key = by.partition(".")
    sweep = run.manifest.plan.get("sweep") or {}
    values = (sweep.get(group) or {}).get(key) if dot else sweep.get(by)
    if by in ("target", VERSION):
        values = [target.name for target in run.manifest.targets]
    places = {text(value): at for at, value in enumerate(values)} if isinstance(values, list) else {}

    def arm(trial: TrialRecord) -> str:
        value = trial.target if by in ("target", VERSION) else trial.point.parameter(by)
        return "default" if value is None else text(value)

    is_whole = all(arm(trial) in places for trial in run.trials)
    return lambda trial: places[arm(trial)] if is_whole else 0


def _varying_hint(run: RunSource) -> str:
    names = varying(list(dict.fromkeys(Series.of(trial.target, trial.point) for trial in run.trials)))
    return f"its trials differ in {', '.join(names)}" if names else "its trials differ in clients alone"


def _labels(keys: Sequence[PointKey]) -> dict[PointKey, str]:
    names = varying([series for series, _ in keys])
    labels = {}
    for series, clients in keys:
        parts = [label(series, names)] if names else []
        labels[series, clients] = ", ".join([*parts, f"{clients:,} client{'' if clients == 1 else 's'}"])
    return labels
