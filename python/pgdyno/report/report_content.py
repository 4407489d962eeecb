"""The content of all reports of a run, computed once: terminal, page and exports use it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.analyse.comparison import Comparison, Verdict
from pgdyno.analyse.over_time.dips import Dip, ExplainedDip
from pgdyno.analyse.over_time.endurance import Endurance
from pgdyno.analyse.over_time.event_parts import EventPart, event_parts
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.price import PriceList
from pgdyno.analyse.scaling import ScalingCurve, scaling
from pgdyno.analyse.series import Series, dependent_parameters, label, varying_parameters
from pgdyno.analyse.summary import PointSummary, summarise
from pgdyno.audit import Finding
from pgdyno.fingerprint import Difference
from pgdyno.messages import Message
from pgdyno.records import Manifest, Outcome, ProfileRecord, TargetRecord, TrialRecord
from pgdyno.records.manifest import MOST_NOTES, shorten_note
from pgdyno.report import numbers
from pgdyno.report.charts.palette import looks
from pgdyno.report.charts.scaling import Named
from pgdyno.report.translation import gettext, translate
from pgdyno.store.cloud_metrics import LoggedCheckpoint
from pgdyno.store.probe_queries import ProbeAverages, ProcessSum, SeriesStep, ServerStatementSum, TableSum, WaitStep


@dataclass(frozen=True, slots=True)
class Note:
    """A warning or a note of the run, and the points that it concerns."""

    message: str
    """In the current language."""
    points: tuple[str, ...] = ()
    """Displayed names; empty if the note concerns the whole run."""
    value: Message | None = None
    """The message with its id; None for a note of an earlier version, which has only a sentence."""


@dataclass(frozen=True, slots=True)
class Digest:
    run: RunSource
    points: tuple[PointSummary, ...]
    curves: tuple[ScalingCurve, ...]
    """One per series that has a finished trial."""
    parameters: tuple[str, ...]
    """Parameters that differ between points, except clients: `target`, `protocol`, `settings.work_mem` and the like."""
    following: frozenset[str]
    """Those of them that do not split series."""
    named: Mapping[Series, Named]
    _event_parts: dict[int, list[EventPart]] = field(default_factory=dict, repr=False, compare=False)
    """Of trials whose seconds have been read."""

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @property
    def has_groups(self) -> bool:
        """Return whether groups of clients ran beside each other: then there is no curve, and no peak."""
        return any(point.series.group is not None for point in self.points)

    @property
    def best(self) -> ScalingCurve | None:
        """Return the curve with the highest peak; None if nothing finished."""
        return max(self.curves, key=lambda curve: curve.peak.tps.mean, default=None)

    @property
    def unfinished(self) -> list[TrialRecord]:
        """Return the trials that failed or were interrupted."""
        return [trial for trial in self.run.trials if trial.outcome is not Outcome.FINISHED]

    def target(self, name: str) -> TargetRecord | None:
        return next((target for target in self.manifest.targets if target.name == name), None)

    def event_parts(self, trial: TrialRecord) -> list[EventPart]:
        """Return what was measured around the events of `trial`; its seconds are slow to read, and are read once."""
        if trial.number not in self._event_parts:
            self._event_parts[trial.number] = event_parts(self.run, trial)
        return self._event_parts[trial.number]

    def series_of(self, trial: TrialRecord) -> Series:
        return Series.from_point(trial.target, trial.point, self.following)

    def trial_name(self, trial: TrialRecord) -> str:
        """Return its series if there are several, otherwise its target."""
        return self.named[self.series_of(trial)].name if len(self.named) > 1 else trial.target

    def point_name(self, point: PointSummary) -> str:
        """Return `16 clients`, preceded by the series if there are several."""
        clients = numbers.clients(point.clients)
        return f"{self.named[point.series].name}, {clients}" if len(self.named) > 1 else clients

    def server_name(self, series: Series) -> str:
        """Return `PostgreSQL 18.6` as the server reports it; the target's name if it never started."""
        target = self.target(series.target)
        return (
            f"PostgreSQL {target.facts.version}" if target is not None and target.facts is not None else series.target
        )


def digest(run: RunSource) -> Digest:
    """Analyse `run`. Reads its tables once."""
    points = summarise(run)
    series = list(dict.fromkeys(point.series for point in points))
    names = varying_parameters(series)
    follow = dependent_parameters(run.manifest.plan, (trial.point for trial in run.trials))
    parameters = (*names, *sorted(follow))
    look = looks([target.name for target in run.manifest.targets], series)
    named = {each: Named(_name(each, names, run.manifest), look[each]) for each in series}
    return Digest(run, tuple(points), tuple(scaling(points)), parameters, follow, named)


def _name(series: Series, names: Sequence[str], manifest: Manifest) -> str:
    if not manifest.finds_settings:
        return label(series, names)
    # a proposal is known by what it changes: the names of all that it does not would hide that
    changed = [name for name in names if series.parameter(name) is not None]
    return label(series, changed) if changed else gettext("starting configuration")


def median_trial(of: Digest, point: PointSummary) -> TrialRecord:
    """Return the finished trial of median throughput: it represents a point where trials cannot be averaged."""
    by_tps = sorted(zip(point.tps_by_trial, point.finished, strict=True))
    number = by_tps[(len(by_tps) - 1) // 2][1]
    return next(trial for trial in of.run.trials if trial.number == number)


def notes(of: Digest) -> list[Note]:
    """Return every warning; the same warning about several points once; those on the whole run first."""
    about: dict[Message, list[str]] = {}
    for curve in of.curves:
        for warning in curve.warnings:
            about.setdefault(warning, []).append(of.named[curve.series].name if len(of.curves) > 1 else "")
    for point in of.points:
        for warning in point.warnings:
            about.setdefault(warning, []).append(of.point_name(point))
    return [
        (Note(shorten_note(each)) if isinstance(each, str) else Note(shorten_note(translate(each)), value=each))
        for each in _run_notes(of.manifest, len(of.run.trials))
    ] + [Note(translate(warning), _place_words(names, len(of.points)), warning) for warning, names in about.items()]


def _run_notes(manifest: Manifest, trials: int) -> Iterator[Message | str]:
    planned = manifest.trials_planned
    if manifest.outcome is None:
        yield Message(
            "run-not-ended",
            "the run has not ended: {measured} of {count} trial has ended",
            "the run has not ended: {measured} of {count} trials have ended",
            measured=trials,
            count=planned,
        )
    elif trials < planned:
        yield Message("trials-missing", "{measured} of {planned} planned trials ran", measured=trials, planned=planned)
    yield from manifest.messages[:MOST_NOTES]
    more = len(manifest.notes) - MOST_NOTES
    if more > 0:
        yield Message(
            "notes-left-out",
            "and {count:,} more note in manifest.json",
            "and {count:,} more notes in manifest.json",
            count=more,
        )


def _place_words(names: Sequence[str], points: int) -> tuple[str, ...]:
    there = tuple(name for name in names if name)
    return () if len(there) == points and points > 1 else there


@dataclass(frozen=True, slots=True)
class ProbeSamples:
    """Samples of the probe during one trial, in steps of their own."""

    step_s: float
    series: Sequence[SeriesStep] = ()
    waits: Sequence[WaitStep] = ()
    minutes: Sequence[SeriesStep] = ()
    """For a rented server: the metrics of its provider."""
    load: Sequence[WaitStep] = ()
    """Likewise: active sessions as the provider samples them."""
    checkpoints: Sequence[LoggedCheckpoint] = ()
    """Checkpoints in the log of a rented server."""


@dataclass(frozen=True, slots=True)
class LongTrial:
    """A trial of an hour or more."""

    number: int
    endurance: Endurance
    tables: Sequence[TableSum] = ()
    """Those that changed most; none without a probe of the server."""


@dataclass(frozen=True, slots=True)
class ArmProfile:
    """Where the server of an arm spent its CPU time."""

    name: str
    record: ProfileRecord
    stacks: Mapping[str, int]
    """Samples by folded stack, at least one."""


@dataclass(frozen=True, slots=True)
class PlanOfArm:
    """The query plan of a statement in one arm at one point."""

    name: str
    plan: str
    mean_ms: float | None
    """Mean time of the statement over the trials there, as its clients saw it; None if unknown."""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A statement whose query plan differs between two arms."""

    name: str
    """Its text; of a query of tpch, its number, such as Q4."""
    text: str
    clients: int
    base: PlanOfArm
    other: PlanOfArm


@dataclass(frozen=True, slots=True)
class Extras:
    findings: Sequence[Finding] | None = None
    """None without an audit."""
    comparisons: Sequence[Comparison] = ()
    arms: Mapping[Series, str] = field(default_factory=dict)
    """The arm of the comparisons that each series belongs to."""
    left_out: Collection[int] = ()
    """Trials that the comparisons leave out, because the audit found them invalid."""
    alike_settings: Collection[str] = ()
    """Settings that only some targets changed, to the default of the others."""
    not_compared: Sequence[str] = ()
    """Runs that have no point in common with the first: they are shown, and not compared."""
    prices: PriceList | None = None
    probe_samples: Mapping[int, ProbeSamples] = field(default_factory=dict)
    """By trial; those with a probe."""
    processes: Mapping[int, Sequence[ProcessSum]] = field(default_factory=dict)
    """By trial, for trials that represent a peak."""
    tables: Mapping[int, Sequence[TableSum]] = field(default_factory=dict)
    """By trial, for trials that represent a peak."""
    server_statements: Mapping[int, Sequence[ServerStatementSum]] = field(default_factory=dict)
    """By trial, for trials that represent a peak."""
    differences: Sequence[Difference] = ()
    """Differences between the fingerprints of the runs."""
    limits: Mapping[int, ProbeAverages] = field(default_factory=dict)
    """Averages of the probe, by trial, for trials that represent a peak or a load from a capture."""
    explained: Mapping[int, Sequence[ExplainedDip]] = field(default_factory=dict)
    """Dips with what coincides, by trial, for trials with a probe of the server."""
    dips: Mapping[int, Sequence[Dip]] | None = None
    """By finished trial; None if not computed."""
    long_trials: Sequence[LongTrial] = ()
    profiles: Sequence[ArmProfile] = ()
    """In the order of the runs and their arms."""
    plan_changes: Sequence[PlanChange] = ()
    """The first arm vs each other one; those that cost most first."""
    unseen: int = 0
    """Trials with a probe whose samples were not read: of a large sweep, only those that represent a point are."""

    def ranks(self, best: Series, worst: Series) -> bool:
        """Return whether a title may rank `best` first: for arms, only if their comparison is significant."""
        names = self.arms.get(best), self.arms.get(worst)
        verdicts = {(each.base, each.other): each.chief.verdict for each in self.comparisons if each.chief is not None}
        is_faster = verdicts.get((names[1] or "", names[0] or "")) is Verdict.FASTER
        is_slower = verdicts.get((names[0] or "", names[1] or "")) is Verdict.SLOWER
        return not self.comparisons or is_faster or is_slower


NO_EXTRAS = Extras()
