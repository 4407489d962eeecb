"""Which trials are compared with which, and by which metric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgdyno.analyse.series import Series, following, label, text, varying
from pgdyno.analyse.timeline import RunSource
from pgdyno.errors import UsageError
from pgdyno.messages import Message
from pgdyno.records import Outcome, Point, TrialRecord


class Metric(StrEnum):
    """A figure of a trial by which arms are compared."""

    TPS = "tps"
    """Succeeded transactions per second: more is better."""
    P99 = "p99"
    """99th percentile of latency: less is better."""
    MEAN = "mean"
    """Mean latency: less is better."""

    @property
    def sign(self) -> int:
        """Return +1 if more is better, -1 if less is."""
        return 1 if self is Metric.TPS else -1

    @property
    def words(self) -> str:
        """Return its name in a sentence."""
        return {Metric.TPS: "throughput", Metric.P99: "p99 latency", Metric.MEAN: "mean latency"}[self]


def usual_metric(run: RunSource) -> Metric:
    """Return the metric by which `run` is compared by default: throughput, or p99 latency in an open loop.

    In an open loop, the plan sets the throughput; two servers that keep up differ in latency alone.
    """
    phases = run.manifest.plan.get("phase") or ()
    is_open = all(trial.point.rate is not None for trial in run.trials)
    is_open |= bool(phases) and all(phase.get("rate") is not None for phase in phases)
    return Metric.P99 if run.trials and is_open else Metric.TPS


def value_of(trial: TrialRecord, metric: Metric) -> float | None:
    """Return `metric` of `trial`, in transactions per second or nanoseconds.

    None for a trial that did not finish, that lacks the figure, or whose figure is 0, which has no logarithm.
    """
    summary = trial.summary
    if trial.outcome is not Outcome.FINISHED or summary is None:
        return None
    if metric is Metric.TPS:
        return summary.tps if summary.tps > 0 else None
    latency = summary.latency_ns
    if latency is None:
        return None
    figure = latency.p99 if metric is Metric.P99 else latency.mean
    return float(figure) if figure else None


VERSION = "version"
"""Argument of `within` besides the parameters of a series: the version that the server reported."""

SELDOM_COMPARED = ("rate", "scale", "workers")
"""Parameters that make curves; `usual_split` prefers any other parameter."""

PointKey = tuple[Series, int]
"""A point without its arm: the other parameters, and the clients."""


@dataclass(frozen=True, slots=True)
class PointPairs:
    """One point under two arms: one figure for each repeat that finished."""

    label: Message
    """`pg18, 8 clients`: what distinguishes the points, without the arm."""
    point: Point
    base: Mapping[int, float]
    """By repeat."""
    other: Mapping[int, float]
    removed: tuple[int, int] = (0, 0)
    """Trials of each arm that are left out because the audit found them invalid."""

    @property
    def repeats(self) -> list[int]:
        """Return the repeats that both arms have."""
        return sorted(self.base.keys() & self.other.keys())


@dataclass(frozen=True, slots=True)
class Confounder:
    """One difference between two arms that is not what is compared."""

    topic: str
    """Its topic in a word or two: `processor`, `storage`, the name of a setting."""
    field: str
    """Its source: a field of the fingerprint, or a rule of the audit."""
    message: Message
    """A sentence with both values."""


@dataclass(frozen=True, slots=True)
class Arms:
    """Two arms at every point that both have."""

    base: str
    other: str
    metric: Metric
    paired: bool
    """Whether repeats of one number were run as a pair: true within a run, false between two runs."""
    points: tuple[PointPairs, ...]
    unmatched: tuple[Message, ...] = ()
    """Points that only one arm has."""
    confounders: tuple[Confounder, ...] = ()
    """What else differs between the arms, and may cause the difference."""
    notes: tuple[Message, ...] = ()
    """Remarks on the arms, before those of the comparison itself."""

    @property
    def is_empty(self) -> bool:
        """Return whether no point has figures under both arms."""
        return not any(point.base and point.other for point in self.points)


def usual_split(run: RunSource) -> str | None:
    """Return what the arms of `run` differ in by default: a target, a protocol, a setting or a variable.

    None if its trials differ in none of these.
    """
    follow = following(run.manifest.plan, (trial.point for trial in run.trials))
    names = varying(list(dict.fromkeys(Series.of(trial.target, trial.point, follow) for trial in run.trials)))
    return next((name for name in names if name not in SELDOM_COMPARED), None)


def within(
    run: RunSource, by: str, metric: Metric, base: str | None = None, removed: Collection[int] = ()
) -> list[Arms]:
    """Return every arm of `run` compared with the baseline `base`, by default the first of the plan.

    `by` is `target`, `version` or a parameter: `settings.work_mem`, `scale`, `protocol`. Repeats are paired: in an
    interleaved or randomised order, a repeat of a point is a block; in listed order, it is a round. `removed` are
    numbers of trials that are left out, with their pairs. Raises UsageError if `by` has fewer than two values, or
    `base` is none of them.
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
        _arms((first, other), (arms[first], trials), metric, _without(by), (removed, removed), paired=True)
        for other, trials in arms.items()
        if other != first
    ]


def between(
    base: RunSource, other: RunSource, metric: Metric, removed: tuple[Collection[int], Collection[int]] = ((), ())
) -> Arms:
    """Return two runs at every point that both have; not paired, because they ran one after the other.

    Targets are matched by name, or with each other if each run has one target. The same applies to a parameter of which
    each run has one value (`differing_parameters`). `removed` are numbers of trials of each that are left out. Raises
    UsageError if the runs have no point in common.
    """
    single = ["target"] if all(len({trial.target for trial in run.trials}) == 1 for run in (base, other)) else []
    key = _without(*single, *(each.name for each in differing_parameters(base.trials, other.trials)))
    names = (base.manifest.run, other.manifest.run)
    arms = _arms(names, (base.trials, other.trials), metric, key, removed, paired=False)
    if not arms.points:
        raise UsageError(
            f"runs {names[0]} and {names[1]} have no point in common",
            hint="targets are matched by name, points by all their parameters",
        )
    return arms


@dataclass(frozen=True, slots=True)
class ParameterDifference:
    """A parameter that has one value in each of two runs, and not the same."""

    name: str
    """`protocol`, `scale`, `rate`, `workers`, `settings.work_mem`, `variables.n`."""
    base: int | float | str | None
    other: int | float | str | None


def differing_parameters(base: Sequence[TrialRecord], other: Sequence[TrialRecord]) -> list[ParameterDifference]:
    """Return the parameters of the sweep, except clients, that are constant in each of two runs and differ between
    them.
    """
    points = [[trial.point for trial in run] for run in (base, other)]
    found = []
    for name in dict.fromkeys(name for run in points for point in run for name in point.parameters()):
        values = [{point.parameter(name) for point in run} for run in points]
        if [len(each) for each in values] == [1, 1] and values[0] != values[1]:
            found.append(ParameterDifference(name, next(iter(values[0])), next(iter(values[1]))))
    return found


def _arms(
    names: tuple[str, str],
    trials: tuple[Sequence[TrialRecord], Sequence[TrialRecord]],
    metric: Metric,
    key: Callable[[TrialRecord], PointKey],
    removed: tuple[Collection[int], Collection[int]],
    *,
    paired: bool,
) -> Arms:
    kept = [[trial for trial in of if trial.number not in without] for of, without in zip(trials, removed, strict=True)]
    gone = [[trial for trial in of if trial.number in without] for of, without in zip(trials, removed, strict=True)]
    base, other = (_figures(each, metric, key) for each in kept)
    left_out = [_figures(each, metric, key) for each in gone]
    keys = list(dict.fromkeys(key(trial) for each in trials for trial in each))
    labels = _labels(keys)
    points = {key(trial): trial.point for each in trials for trial in each}
    had = [figures.keys() | out.keys() for figures, out in zip((base, other), left_out, strict=True)]
    both = sorted((each for each in keys if all(each in arm for arm in had)), key=lambda each: each[1])
    return Arms(
        *names,
        metric,
        paired,
        tuple(
            PointPairs(
                labels[each],
                points[each],
                base.get(each, {}),
                other.get(each, {}),
                (len(left_out[0].get(each, ())), len(left_out[1].get(each, ()))),
            )
            for each in both
        ),
        tuple(labels[each] for each in keys if each not in both),
    )


def _figures(
    trials: Sequence[TrialRecord], metric: Metric, key: Callable[[TrialRecord], PointKey]
) -> dict[PointKey, dict[int, float]]:
    """Return figures of finished trials by point and repeat; of a repeated trial, the last."""
    found: dict[PointKey, dict[int, float]] = {}
    for trial in trials:
        figure = value_of(trial, metric)
        if figure is not None:
            found.setdefault(key(trial), {})[trial.repeat] = figure
    return found


def _without(*names: str) -> Callable[[TrialRecord], PointKey]:
    """Return a trial's point without the parameters `names`, which may include the target and its version."""

    def key(trial: TrialRecord) -> PointKey:
        point = trial.point
        for by in names:
            group, dot, name = by.partition(".")
            if dot:
                left = {each: value for each, value in getattr(point, group).items() if each != name}
                point = point.model_copy(update={group: left})
            elif by in ("workers", "scale", "rate", "protocol"):
                point = point.model_copy(update={by: "" if by == "protocol" else None})
        target = "" if {"target", VERSION} & set(names) else trial.target
        return Series.of(target, point), point.clients

    return key


def _arm_name(run: RunSource, by: str) -> Callable[[TrialRecord], str]:
    """Return the name of the arm that a trial belongs to."""
    if by == "target":
        return lambda trial: trial.target
    if by == VERSION:
        versions = {each.name: each.facts.version if each.facts else each.name for each in run.manifest.targets}
        return lambda trial: versions.get(trial.target, trial.target)
    known = {name for trial in run.trials for name in trial.point.parameters()}
    if by not in known:
        raise UsageError(f"cannot compare by {by}: no such parameter", hint=_varying_hint(run))

    def name(trial: TrialRecord) -> str:
        value = trial.point.parameter(by)
        return "default" if value is None else text(value)

    return name


def _place_in_plan(run: RunSource, by: str) -> Callable[[TrialRecord], int]:
    """Return the position of a trial's arm in the plan: the order of execution may be random, and so defines no
    baseline.

    Returns 0 for every trial, which keeps their order, if the plan does not name all arms.
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


def _labels(keys: Sequence[PointKey]) -> dict[PointKey, Message]:
    names = varying([series for series, _ in keys])
    labels = {}
    for series, clients in keys:
        labels[series, clients] = (
            Message(
                "point",
                "{series}, {count:,} client",
                "{series}, {count:,} clients",
                series=label(series, names),
                count=clients,
            )
            if names
            else Message("point", "{count:,} client", "{count:,} clients", count=clients)
        )
    return labels
