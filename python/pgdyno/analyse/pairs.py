"""Which trials are compared with which, and by which metric."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Protocol, TypeVar

from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.queries.by_query import by_query
from pgdyno.analyse.series import Series, dependent_parameters, label, listed_values, text, varying_parameters
from pgdyno.errors import UsageError
from pgdyno.messages import Message
from pgdyno.records import Manifest, Outcome, Point, StoppingRule, TrialRecord
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.registry import WORKLOADS


class Metric(StrEnum):
    """A figure of a trial by which arms are compared."""

    TPS = "tps"
    """Succeeded transactions per second: more is better."""
    P50 = "p50"
    """Median of latency: less is better."""
    P99 = "p99"
    """99th percentile of latency: less is better."""
    MEAN = "mean"
    """Mean latency: less is better."""
    COMPOSITE = "composite"
    """Of tpch, the geometric mean of power and throughput: more is better."""
    INSTRUCTIONS = "instructions"
    """Instructions of the server's process per transaction: less is better."""

    @property
    def is_latency(self) -> bool:
        """Return whether it is in nanoseconds."""
        return self in (Metric.P50, Metric.P99, Metric.MEAN)

    @property
    def sign(self) -> int:
        """Return +1 if more is better, -1 if less is."""
        return -1 if self.is_latency or self is Metric.INSTRUCTIONS else 1

    @property
    def words(self) -> str:
        names = {Metric.TPS: "throughput", Metric.COMPOSITE: "composite figure", Metric.INSTRUCTIONS: "instructions"}
        return names.get(self, f"{self.value} latency")

    @property
    def unit(self) -> str:
        units = {Metric.TPS: "tps", Metric.COMPOSITE: "queries/h x SF", Metric.INSTRUCTIONS: "per transaction"}
        return units.get(self, "ms")

    @property
    def least_delta(self) -> float:
        """Return the relative difference below which none is reported."""
        return 0.001 if self is Metric.INSTRUCTIONS else 0.01

    @property
    def fewest_pairs(self) -> int:
        """Return the pairs that a claim needs: equal counts differ by so little that two tell it."""
        return 2 if self is Metric.INSTRUCTIONS else FEWEST_PAIRS


class Placed(Protocol):
    """A trial, measured or planned: its target and its point."""

    @property
    def target(self) -> str:
        """Return the name of its target."""

    @property
    def point(self) -> Point:
        """Return its point."""


_P = TypeVar("_P", bound=Placed)


def usual_metric(run: RunSource) -> Metric:
    """Return the metric by which `run` is compared by default: throughput; p99 latency in an open loop; the composite
    figure of tpch; the median of each query that is a file; instructions, if it counted them.

    In an open loop, the plan sets the throughput; two servers that keep up differ in latency alone.
    """
    return metric_of(run.manifest, run.trials)


def metric_of(manifest: Manifest, trials: Sequence[Placed]) -> Metric:
    """Return `usual_metric` of a run with `trials`, which need not have been measured."""
    if manifest.counts_instructions:
        return Metric.INSTRUCTIONS
    if manifest.runs_once:
        return Metric(WORKLOADS[manifest.workload_kind].metric)
    trials = judged_trials(manifest, trials)
    phases = manifest.plan.get("phase") or ()
    is_open = all(trial.point.rate is not None for trial in trials)
    is_open |= bool(phases) and all(phase.get("rate") is not None for phase in phases)
    return Metric.P99 if trials and is_open else Metric.TPS


def value_of(trial: TrialRecord, metric: Metric) -> float | None:
    """Return `metric` of `trial`, in its unit; of latency, in nanoseconds.

    None for a trial that did not finish, that lacks the figure, or whose figure is 0, which has no logarithm. A client
    of tpch runs one long transaction, so a trial of it has no figure but the composite.
    """
    summary = trial.summary
    if trial.outcome is not Outcome.FINISHED or summary is None:
        return None
    if metric is Metric.INSTRUCTIONS:
        return None if summary.instructions is None else summary.instructions.instructions or None
    if metric is Metric.COMPOSITE or summary.rate_tps is None:
        return summary.composite if metric is Metric.COMPOSITE else None
    if metric is Metric.TPS:
        return summary.tps if summary.tps > 0 else None
    latency = summary.latency_ns
    if latency is None:
        return None
    figure = {Metric.P50: latency.p50, Metric.P99: latency.p99, Metric.MEAN: latency.mean}[metric]
    return float(figure) if figure else None


VERSION = "version"
"""Argument of `within` besides the parameters of a series: the version that the server reported."""

SELDOM_COMPARED = ("step", "group", "rate", "scale", "workers")
"""Parameters that make curves; `usual_split` prefers any other parameter."""

PointKey = tuple[Series, int | None]
"""A point without its arm: the other parameters, and the clients."""


@dataclass(frozen=True, slots=True)
class PointPairs:
    """One point under two arms: one figure for each repeat that finished."""

    label: Message
    """`pg18, 8 clients`: what distinguishes the points, without the arm."""
    point: Point
    base: Mapping[int, float]
    """Values of the base arm by repeat."""
    other: Mapping[int, float]
    removed: tuple[int, int] = (0, 0)
    """Trials of each arm that are left out because the audit found them invalid."""
    dead: tuple[int, int] = (0, 0)
    """Repeats of each arm without a figure, because the trial failed or completed no transaction."""
    broken: int = 0
    """Trials of the other arm that failed, were interrupted, or are left out and had errors."""
    instances: tuple[Mapping[int, int], Mapping[int, int]] = field(default_factory=lambda: ({}, {}))
    """The instance that served each repeat, for each arm; empty for an arm of one server."""
    duets: Mapping[int, float] = field(default_factory=dict)
    """Log of other / base by repeat, second by second, of trials that ran at once; empty for others."""
    key: PointKey | None = None
    """What the trials of both arms have in common; None for figures that are no trials of a run."""
    trials: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Numbers of the trials of each arm that have a figure, each in its own run."""

    @property
    def repeats(self) -> list[int]:
        return sorted(self.base.keys() & self.other.keys())

    def log_ratio(self, repeat: int) -> float:
        """Return the logarithm of other / base of a repeat that both arms have."""
        found = self.duets.get(repeat)
        return math.log(self.other[repeat] / self.base[repeat]) if found is None else found


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
    base: str
    other: str
    metric: Metric
    paired: bool
    """Whether repeats of one number were run as a pair: true within a run, false between two runs."""
    points: tuple[PointPairs, ...]
    unmatched: tuple[Message, ...] = ()
    """Points that only one arm has."""
    missing: tuple[Message, ...] = ()
    """Those of them that the base has."""
    confounders: tuple[Confounder, ...] = ()
    """What else differs between the arms, and may cause the difference."""
    brought: tuple[str, ...] = ()
    """Defaults that came with the other version or build, which is what is compared."""
    notes: tuple[Message, ...] = ()
    """Remarks on the arms, before those of the comparison itself."""
    same_servers: bool = False
    """Whether both arms were measured on the same instances of a target."""
    stopping: StoppingRule | None = None
    """The rule by which a run could stop before its last repeat; None if the number of repeats was fixed."""
    by: str | None = None
    """In what the arms of a run differ: `target`, `settings.work_mem`; None between two runs."""
    control: Arms | None = None
    """The trials of the baseline, the later ones of each block compared with the earlier ones; None if it was measured
    once.
    """

    @property
    def is_empty(self) -> bool:
        return not any(point.base and point.other for point in self.points)


def usual_split(run: RunSource) -> str | None:
    """Return what the arms of `run` differ in by default: a target, a protocol, a setting or a variable.

    None if its trials differ in none of these.
    """
    return split_of(run.manifest, run.trials)


def split_of(manifest: Manifest, trials: Sequence[Placed]) -> str | None:
    """Return `usual_split` of a run with `trials`, which need not have been measured."""
    if manifest.finds_settings:
        # its proposals are not arms; its record has the comparison that confirms them
        return None
    trials = judged_trials(manifest, trials)
    follow = dependent_parameters(manifest.plan, (trial.point for trial in trials))
    names = varying_parameters(
        list(dict.fromkeys(Series.from_point(trial.target, trial.point, follow) for trial in trials))
    )
    return next((name for name in names if name not in SELDOM_COMPARED), None)


def judged_trials(manifest: Manifest, trials: Sequence[_P]) -> list[_P]:
    """Return those of `trials` by which arms are compared.

    Left out are loads of steps that are no result, and groups of which a key is swept: what differs there is asked for,
    and the question is what it does to the others.
    """
    steps = manifest.plan.get("step") or ()
    results = {step["name"] for step in steps if step.get("result")}
    if not results:
        results = {step["name"] for step in [step for step in steps if step.get("groups")][-1:]}
    swept = {key.partition(".")[0] for trial in trials for key in trial.point.groups}
    left = [trial for trial in trials if trial.point.group not in swept and (not steps or trial.point.step in results)]
    return left or list(trials)


def by_arm(manifest: Manifest, trials: Sequence[Placed], by: str) -> dict[str, list[PointKey]]:
    """Return the points of every arm, the baseline first. Raises UsageError if `by` is no parameter of `trials`."""
    trials = judged_trials(manifest, trials)
    arm, key = arm_name(manifest, trials, by), key_without(by)
    found: dict[str, dict[PointKey, None]] = {}
    for trial in sorted(trials, key=_place_in_plan(manifest, trials, by)):
        found.setdefault(arm(trial), {})[key(trial)] = None
    return {name: list(keys) for name, keys in found.items()}


def within(
    run: RunSource, by: str, metric: Metric, base: str | None = None, removed: Collection[int] = ()
) -> list[Arms]:
    """Return every arm of `run` compared with the baseline `base`, by default the first of the plan.

    `by` is `target`, `version` or a parameter: `settings.work_mem`, `scale`, `protocol`. Repeats are paired: in an
    interleaved or randomised order, a repeat of a point is a block; in listed order, it is a round. The figure of a
    baseline that was measured twice in a block is the geometric mean. `removed` are numbers of trials that are left
    out, with their pairs. Raises UsageError if `by` has fewer than two values, if
    `base` is not one of them, or if versions are compared and two targets have the same one.
    """
    arms: dict[str, list[TrialRecord]] = defaultdict(list)
    judged = by_query(judged_trials(run.manifest, run.trials))
    name_of = arm_name(run.manifest, judged, by)
    for trial in sorted(judged, key=_place_in_plan(run.manifest, judged, by)):
        arms[name_of(trial)].append(trial)
    if is_duet(run.trials) and by not in ("target", VERSION):
        raise UsageError(
            f"run {run.manifest.run} cannot be compared by {by}: only the two targets of a duet ran at the same time",
            hint="compare by target",
        )
    if len(arms) < 2:
        only = f": all trials have {next(iter(arms))}" if arms else ""
        raise UsageError(f"run {run.manifest.run} has nothing to compare by {by}{only}", hint=_varying_hint(run.trials))
    if by == VERSION:
        _refuse_shared_version(run.manifest.run, arms)
    first = base if base is not None else next(iter(arms))
    if first not in arms:
        raise UsageError(f"{by} {first} is not in run {run.manifest.run}", hint=f"there are {', '.join(arms)}")
    stopping = run.manifest.stopping
    if stopping is not None and by != stopping.by:
        # the widening holds for any comparison of the run, but its points are others
        stopping = stopping.model_copy(update={"comparisons": 0})
    key = key_without(by)
    pair = partial(_arms, metric=metric, key=key, removed=(removed, removed), paired=True, stopping=stopping)
    has_same_servers = by not in ("target", VERSION)
    compared = [
        pair((first, other), (arms[first], trials), same_servers=has_same_servers)
        for other, trials in arms.items()
        if other != first
    ]
    later = [trial for trial in judged if trial.control]
    twice = {(name_of(trial), key(trial)) for trial in later}
    earlier = [trial for trial in judged if not trial.control and (name_of(trial), key(trial)) in twice]
    names = ", ".join(dict.fromkeys(map(name_of, later)))
    control = pair((names, names), (earlier, later), same_servers=True) if later else None
    return [replace(each, by=by, control=control) for each in compared]


def _refuse_shared_version(run: str, arms: Mapping[str, Sequence[TrialRecord]]) -> None:
    """Raise UsageError if two targets have one version: an arm has one figure for each repeat, and would lose one."""
    for version, trials in arms.items():
        targets = list(dict.fromkeys(trial.target for trial in trials))
        if len(targets) > 1:
            raise UsageError(
                f"run {run} cannot be compared by version: several targets have {version} ({', '.join(targets)})",
                hint="compare by target",
            )


def between(
    base: RunSource, other: RunSource, metric: Metric, removed: tuple[Collection[int], Collection[int]] = ((), ())
) -> Arms:
    """Return two runs at every point that both have; not paired, because they ran one after the other.

    Targets are matched by name, or with each other if each run has one target. The same applies to a parameter of which
    each run has one value (`differing_parameters`). `removed` are numbers of trials of each that are left out. Raises
    UsageError if the runs have no point in common.
    """
    single = ["target"] if all(len({trial.target for trial in run.trials}) == 1 for run in (base, other)) else []
    for run in (base, other):
        if is_duet(run.trials):
            raise UsageError(
                f"run {run.manifest.run} is a duet: its figures depend on the two targets that ran at the same time",
                hint="compare its two targets with each other: pgdyno compare with this run alone",
            )
    trials = by_query(base.trials), by_query(other.trials)
    key = key_without(*single, *(each.name for each in differing_parameters(*trials)))
    names = (base.manifest.run, other.manifest.run)
    stopping = _widest_rule(base, other)
    arms = _arms(names, trials, metric, key, removed, paired=False, same_servers=False, stopping=stopping)
    if not arms.points:
        raise UsageError(
            f"runs {names[0]} and {names[1]} have no point in common",
            hint="targets are matched by name, points by all their parameters",
        )
    return arms


def _widest_rule(base: RunSource, other: RunSource) -> StoppingRule | None:
    """Return the rule that could have the most looks; neither looked at this comparison, nor ended a run."""
    rules = [run.manifest.stopping for run in (base, other)]
    rule = max((each for each in rules if each is not None), key=lambda each: each.most - each.fewest, default=None)
    return None if rule is None else rule.model_copy(update={"comparisons": 0, "margin": 0.0, "ended": None})


@dataclass(frozen=True, slots=True)
class ParameterDifference:
    """A parameter that has one value in each of two runs, and not the same."""

    name: str
    """`protocol`, `scale`, `rate`, `workers`, `settings.work_mem`, `variables.n`."""
    base: int | float | str | None
    other: int | float | str | None


def differing_parameters(base: Sequence[TrialRecord], other: Sequence[TrialRecord]) -> list[ParameterDifference]:
    """Return parameters of the sweep but clients that are constant in each of two runs and differ between them."""
    points = [[trial.point for trial in run] for run in (base, other)]
    found = []
    for name in dict.fromkeys(name for run in points for point in run for name in point.parameters()):
        values = [{point.parameter(name) for point in run} for run in points]
        if [len(each) for each in values] == [1, 1] and values[0] != values[1]:
            found.append(ParameterDifference(name, next(iter(values[0])), next(iter(values[1]))))
    return found


def is_duet(trials: Sequence[TrialRecord]) -> bool:
    """Return whether some of `trials` ran in pairs, so that their figures mean nothing outside of these."""
    return any(trial.duet is not None for trial in trials)


@dataclass(frozen=True)
class _ArmAtPoint:
    """The trials of one arm at one point."""

    trials: Sequence[TrialRecord]
    removed: Collection[int]
    metric: Metric

    @cached_property
    def kept(self) -> list[TrialRecord]:
        return [trial for trial in self.trials if trial.number not in self.removed]

    @cached_property
    def gone(self) -> list[TrialRecord]:
        return [trial for trial in self.trials if trial.number in self.removed]

    @cached_property
    def measured(self) -> list[tuple[TrialRecord, float]]:
        return [(trial, value) for trial in self.kept if (value := value_of(trial, self.metric)) is not None]

    @cached_property
    def figures(self) -> dict[int, float]:
        """Return the figures by repeat; of a repeated trial, the last.

        Where a repeat has two trials, it needs both: its figure is their geometric mean.
        """
        is_twice = len({trial.control for trial in self.trials}) > 1
        found: dict[int, dict[bool, float]] = {}
        for trial, value in self.measured:
            found.setdefault(trial.repeat, {})[trial.control] = value
        return {
            repeat: math.sqrt(math.prod(each.values())) if len(each) > 1 else next(iter(each.values()))
            for repeat, each in found.items()
            if len(each) > 1 or not is_twice
        }

    @cached_property
    def left_out(self) -> int:
        return len({trial.repeat for trial in self.gone if value_of(trial, self.metric) is not None})

    @cached_property
    def dead(self) -> int:
        # the audit finds a trial without a transaction invalid, too
        return self._without_figure([trial for trial in self.trials if _is_dead(trial)])

    @property
    def broken(self) -> int:
        wrong = [trial for trial in self.trials if _is_dead(trial) or trial.outcome is Outcome.INTERRUPTED]
        return self._without_figure([*wrong, *filter(_has_errors, self.gone)])

    @property
    def numbers(self) -> list[int]:
        return [trial.number for trial, _ in self.measured]

    @property
    def exists(self) -> bool:
        return bool(self.measured or self.left_out or self.dead)

    @property
    def instances(self) -> dict[int, int]:
        return {trial.repeat: trial.instance for trial, _ in self.measured if trial.instance is not None}

    def _without_figure(self, trials: Sequence[TrialRecord]) -> int:
        return len({trial.repeat for trial in trials} - self.figures.keys())


def _arms(
    names: tuple[str, str],
    trials: tuple[Sequence[TrialRecord], Sequence[TrialRecord]],
    metric: Metric,
    key: Callable[[TrialRecord], PointKey],
    removed: tuple[Collection[int], Collection[int]],
    *,
    paired: bool,
    same_servers: bool,
    stopping: StoppingRule | None,
) -> Arms:
    by_key: dict[PointKey, tuple[list[TrialRecord], list[TrialRecord]]] = defaultdict(lambda: ([], []))
    for at, of in enumerate(trials):
        for trial in of:
            by_key[key(trial)][at].append(trial)
    arms = {
        each: (_ArmAtPoint(base, removed[0], metric), _ArmAtPoint(other, removed[1], metric))
        for each, (base, other) in by_key.items()
    }
    labels = _labels(list(arms))
    both = {each: (base, other) for each, (base, other) in arms.items() if base.exists and other.exists}
    points = [
        PointPairs(
            labels[each],
            (other.trials or base.trials)[-1].point,
            base.figures,
            other.figures,
            (base.left_out, other.left_out),
            (base.dead, other.dead),
            other.broken,
            (base.instances, other.instances),
            duets=_duets(base, other) if metric is Metric.TPS else {},
            key=each,
            trials=(base.numbers, other.numbers),
        )
        for each, (base, other) in sorted(both.items(), key=lambda item: item[0][1] or 0)
    ]
    return Arms(
        *names,
        metric,
        paired,
        tuple(points),
        tuple(labels[each] for each in arms if each not in both),
        tuple(labels[each] for each, (base, other) in arms.items() if base.exists and not other.exists),
        same_servers=same_servers,
        stopping=stopping,
    )


def _is_dead(trial: TrialRecord) -> bool:
    return trial.outcome is Outcome.FAILED or (trial.summary is not None and trial.summary.rate_tps == 0)


def _has_errors(trial: TrialRecord) -> bool:
    return trial.summary is not None and bool(trial.summary.failed)


def _duets(base: _ArmAtPoint, other: _ArmAtPoint) -> dict[int, float]:
    """Return the logarithm of other / base of the pairs that ran at the same time, by repeat."""
    partners = {trial.number for trial in base.kept}
    return {
        trial.repeat: math.log(trial.duet.tps_ratio)
        for trial in other.kept
        if trial.duet is not None and trial.duet.tps_ratio is not None and trial.duet.partner in partners
    }


def key_without(*names: str) -> Callable[[Placed], PointKey]:
    """Return a trial's point without the parameters `names`, which may include the target and its version."""

    def key(trial: Placed) -> PointKey:
        point = trial.point
        for by in names:
            group, dot, name = by.partition(".")
            if dot:
                left = {each: value for each, value in getattr(point, group).items() if each != name}
                point = point.model_copy(update={group: left})
            elif by in ("workers", "scale", "rate", "protocol", "connect"):
                point = point.model_copy(update={by: "" if by == "protocol" else None})
        target = "" if {"target", VERSION} & set(names) else trial.target
        return Series.from_point(target, point), point.clients

    return key


def arm_name(manifest: Manifest, trials: Iterable[Placed], by: str) -> Callable[[Placed], str]:
    """Return the name of the arm that a trial belongs to. Raises UsageError if `by` is no parameter of `trials`."""
    if by == "target":
        return lambda trial: trial.target
    if by == VERSION:
        versions = {each.name: each.facts.version if each.facts else each.name for each in manifest.targets}
        return lambda trial: versions.get(trial.target, trial.target)
    trials = list(trials)
    known = {name for trial in trials for name in trial.point.parameters()}
    if by not in known:
        raise UsageError(f"cannot compare by {by}: no such parameter", hint=_varying_hint(trials))

    def name(trial: Placed) -> str:
        value = trial.point.parameter(by)
        return "default" if value is None else text(value)

    return name


def _place_in_plan(manifest: Manifest, trials: Iterable[Placed], by: str) -> Callable[[Placed], int]:
    """Return the position of a trial's arm in the plan: the order of execution may be random, and so defines no
    baseline.

    Returns 0 for every trial, which keeps their order, if the plan does not name all arms.
    """
    if by in ("target", VERSION):
        values = [target.name for target in manifest.targets]
    else:
        values = listed_values(manifest.plan, by)
    places = {text(value): at for at, value in enumerate(values)}

    def arm(trial: Placed) -> str:
        value = trial.target if by in ("target", VERSION) else trial.point.parameter(by)
        return "default" if value is None else text(value)

    is_whole = all(arm(trial) in places for trial in trials)
    return lambda trial: places[arm(trial)] if is_whole else 0


def _varying_hint(trials: Iterable[Placed]) -> str:
    names = varying_parameters(list(dict.fromkeys(Series.from_point(trial.target, trial.point) for trial in trials)))
    return f"its trials differ in {', '.join(names)}" if names else "its trials differ in clients alone"


def _labels(keys: Sequence[PointKey]) -> dict[PointKey, Message]:
    names = varying_parameters([series for series, _ in keys])
    labels = {}
    for series, clients in keys:
        labels[series, clients] = _label(label(series, names) if names else None, clients)
    return labels


def _label(series: str | None, clients: int | None) -> Message:
    if clients is None:
        # an import may not know them
        if series is None:
            return Message("point", "clients unknown", count=0)
        return Message("point", "{series}, clients unknown", series=series, count=0)
    if series is None:
        return Message("point", "{count:,} client", "{count:,} clients", count=clients)
    return Message("point", "{series}, {count:,} client", "{series}, {count:,} clients", series=series, count=clients)
