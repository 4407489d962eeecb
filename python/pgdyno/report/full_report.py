"""The complete report of stored runs: everything that a page needs is read, judged and drawn here."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pgdyno.analyse.comparison import Comparison, compare
from pgdyno.analyse.over_time.dips import Dip, trial_dips
from pgdyno.analyse.over_time.endurance import trial_endurance
from pgdyno.analyse.over_time.timeline import Timeline, trial_timeline
from pgdyno.analyse.pairs import between, differing_parameters, usual_metric
from pgdyno.analyse.price import PriceList, prices_of
from pgdyno.analyse.series import Series
from pgdyno.audit import Finding, audit_subject
from pgdyno.audit.causes import with_causes
from pgdyno.audit.facts import without_alike
from pgdyno.audit.latency_differences import overload_findings
from pgdyno.audit.load_differences import measures_otherwise
from pgdyno.audit.pairing import sides_of
from pgdyno.audit.setting_values import alike_settings
from pgdyno.audit.subject import Subject
from pgdyno.errors import UsageError
from pgdyno.fingerprint import Difference, comparable
from pgdyno.messages import Message
from pgdyno.records import Outcome, TrialRecord
from pgdyno.records.price import comparable_prices
from pgdyno.records.rate_unit import counts_queries
from pgdyno.report.answers.plan_changes import arms_of_run, arms_of_runs, plan_changes
from pgdyno.report.export import markdown_of
from pgdyno.report.report_content import (
    ArmProfile,
    Digest,
    Extras,
    LongTrial,
    PlanChange,
    ProbeSamples,
    digest,
    median_trial,
)
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.likeness import own_loads
from pgdyno.report.sections.over_seconds.cloud_metrics import rented_count
from pgdyno.report.sections.over_seconds.dips import MOST_DIPS, costliest
from pgdyno.report.sections.over_seconds.timelines import Steps, TrialSteps, trial_data
from pgdyno.report.several_runs import (
    arms_between,
    arms_of,
    comparisons_of,
    left_out_of,
    target_names,
    unite_runs,
    with_confounders,
)
from pgdyno.report.translation import Language, use_language
from pgdyno.safe_output import visible
from pgdyno.store import RunData
from pgdyno.store.cloud_metrics import cloud_series
from pgdyno.store.probe_queries import (
    ProbeAverages,
    ProcessSum,
    SeriesStep,
    ServerStatementSum,
    TableSum,
    WaitStep,
    probe_averages,
    process_sums,
    series_steps,
    server_statement_sums,
    table_sums,
    wait_steps,
)
from pgdyno.store.profiles import read_profile
from pgdyno.store.run_union import shifts

if TYPE_CHECKING:
    from pgdyno.report.html import Publication

_Sum = TypeVar("_Sum", ProcessSum, TableSum, ServerStatementSum)
MOST_PROBED = 300
"""Trials whose waits, processors and disks are read, so that a page takes at most about ten seconds."""


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector: rows have no cycles, and it would repeatedly scan a million of them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True, slots=True)
class WholeReport:
    """A report that is computed once and written in several forms."""

    draft: Draft
    language: Language

    def html(self, publication: Publication | None = None) -> str:
        # templates are loaded where a page is wanted: a run in the terminal needs none
        from pgdyno.report.html import render_page

        with without_collector(), use_language(self.language, queries=counts_queries(self.draft.of.run.trials)):
            return visible(render_page(self.draft, publication))

    def markdown(self) -> str:
        with use_language(self.language, queries=counts_queries(self.draft.of.run.trials)):
            return visible(markdown_of(self.draft.of, self.draft.extras))


def whole_report(
    runs: Sequence[RunData],
    prices: PriceList | None = None,
    language: Language = Language.ENGLISH,
    location: str | None = None,
) -> WholeReport:
    """Return the report of one run, or of several with the first as the baseline. Raises StoreError and UsageError.

    `location` is where readers find the raw data, by default the run folders.
    """
    trials = [trial for run in runs for trial in run.trials]
    with without_collector(), use_language(language, queries=counts_queries(trials)):
        of, extras = digest_and_extras(runs, prices)
        places = ", ".join(run.folder.location for run in runs)
        return WholeReport(Draft(of, extras, location or places), language)


def judged_run(run: RunData) -> tuple[Digest, Extras]:
    """Return what the answer of one run needs: its comparisons, findings and prices, without the probe's samples, which
    are slow to read.

    Raises StoreError.
    """
    with without_collector():
        of = digest(run)
        return of, _extras(of, [run], [Subject(run, _courses(of, _own_numbers([run]), 0))])


def changed_plans(runs: Sequence[RunData], by: str | None = None, base: str | None = None) -> list[PlanChange]:
    """Return only the statements whose query plans differ between the arms of one run, or of several. Raises
    StoreError.

    `by` and `base` are those of a comparison within one run; see `analyse.pairs.within`.
    """
    if not any(run.query_plans() for run in runs):
        return []
    return _plan_changes(digest(unite_runs(runs)), runs, by, base)


def digest_and_extras(runs: Sequence[RunData], prices: PriceList | None = None) -> tuple[Digest, Extras]:
    """Return the content of a report, with texts in the active language (`use_language`). Raises StoreError and
    UsageError.

    `prices` default to the plan's.
    """
    source = unite_runs(runs)
    of = digest(source)
    probed = any(trial.probe is not None for trial in source.trials)
    steps = Steps.for_trials(len(source.trials), probed=probed, rented=rented_count(source.trials))
    own = _own_numbers(runs)
    named = target_names(runs) if len(runs) > 1 else [{}]
    subjects = [Subject(run, _courses(of, own, at), _own_prices(prices, named[at])) for at, run in enumerate(runs)]
    dips = {shown: subjects[at].dips[number] for shown, (at, number) in own.items() if number in subjects[at].dips}
    seen = _seen_trials(of, dips)
    return of, replace(
        _extras(of, runs, subjects, prices),
        probe_samples=probe_samples_of(runs, steps, seen),
        processes=_at_peak(of, runs, process_sums),
        tables=_at_peak(of, runs, table_sums),
        server_statements=_at_peak(of, runs, server_statement_sums),
        differences=_differences(runs),
        explained={
            shown: subjects[at].explained[number]
            for shown, (at, number) in own.items()
            if number in subjects[at].explained
        },
        dips=dips,
        unseen=sum(trial.probe is not None and trial.number not in seen for trial in source.trials),
    )


def _extras(
    of: Digest, runs: Sequence[RunData], subjects: Sequence[Subject], prices: PriceList | None = None
) -> Extras:
    findings = _audit_subjects(subjects)
    late = overload_findings(runs[0], usual_metric(runs[0]))
    left_out = left_out_of(of, findings, late) if len(runs) == 1 else frozenset()
    return Extras(
        findings=findings,
        comparisons=_compare_runs(of, runs, subjects, left_out),
        left_out=left_out,
        arms=_arms(of, runs),
        alike_settings=_alike_settings(runs[0]) if len(runs) == 1 else (),
        not_compared=[other.manifest.run for other in runs[1:] if _has_no_point_of(runs[0], other)],
        prices=prices or _planned_prices(runs),
        long_trials=_long_trials(of, runs),
        limits=_limits(of, runs),
        profiles=list(_profiles(of, runs)),
        plan_changes=_plan_changes(of, runs),
    )


def _limits(of: Digest, runs: Sequence[RunData]) -> dict[int, ProbeAverages]:
    own = _own_numbers(runs)
    shown = {median_trial(of, point).number for point in of.points if point.finished}
    shown |= {load.trial.number for load in own_loads(of)}
    numbers = {own[number]: number for number in shown}
    return {
        numbers[at, each.trial]: each
        for at, run in enumerate(runs)
        for each in probe_averages(run, {number for of_run, number in numbers if of_run == at})
    }


def _profiles(of: Digest, runs: Sequence[RunData]) -> Iterator[ArmProfile]:
    names = target_names(runs) if len(runs) > 1 else [{}]
    places = {series: at for at, series in enumerate(of.named)}
    for run, shown in zip(runs, names, strict=True):
        records = {
            Series.from_point(shown.get(each.target, each.target), each.point, of.following): each
            for each in run.manifest.profiles
        }
        for series in sorted(records.keys() & places.keys(), key=places.__getitem__):
            stacks = read_profile(run.folder.path, records[series])
            if stacks is not None:
                yield ArmProfile(of.named[series].name, records[series], stacks)


def _plan_changes(
    of: Digest, runs: Sequence[RunData], by: str | None = None, base: str | None = None
) -> list[PlanChange]:
    shown: list[dict[int, int]] = [{} for _ in runs]
    for number, (at, own) in _own_numbers(runs).items():
        shown[at][own] = number
    kept = [each.renumber(shown[at].__getitem__) for at, run in enumerate(runs) for each in run.query_plans()]
    if not kept:
        return []
    compared = arms_of_run(runs[0], by, base) if len(runs) == 1 else arms_of_runs(runs, shown)
    return [] if compared is None else plan_changes(of, kept, compared)


def _alike_settings(run: RunData) -> set[str]:
    told = {each.name: each.facts.settings_changed for each in run.manifest.targets if each.facts is not None}
    names = {name for settings in told.values() for name in settings}
    return alike_settings(run, told, {name for name in names if len({each.get(name) for each in told.values()}) > 1})


def _own_numbers(runs: Sequence[RunData]) -> dict[int, tuple[int, int]]:
    every = enumerate(zip(runs, shifts(runs), strict=True))
    return {trial.number + shift: (at, trial.number) for at, (run, shift) in every for trial in run.trials}


def _long_trials(of: Digest, runs: Sequence[RunData]) -> list[LongTrial]:
    own = _own_numbers(runs)
    found = []
    for trial in of.run.trials:
        endurance = trial_endurance(of.run, trial.number) if trial.outcome is Outcome.FINISHED else None
        if endurance is not None:
            at, number = own[trial.number]
            tables = table_sums(runs[at], number) if trial.probe is not None else []
            found.append(LongTrial(trial.number, endurance, tables))
    return found


def _courses(of: Digest, own: Mapping[int, tuple[int, int]], at: int) -> dict[int, Timeline]:
    """Return finished trials of the run at index `at` second by second, by original numbers, as digested."""
    return {
        own[trial.number][1]: trial_timeline(of.run, trial.number)
        for trial in of.run.trials
        if own[trial.number][0] == at and trial.outcome is Outcome.FINISHED and trial.summary is not None
    }


def _planned_prices(runs: Sequence[RunData]) -> PriceList | None:
    found: PriceList | None = None
    names = target_names(runs) if len(runs) > 1 else [{}]
    for run, shown in zip(runs, names, strict=True):
        prices = prices_of(run.manifest)
        if prices is None:
            continue
        renamed = {shown.get(name, name): costs for name, costs in prices.target.items()}
        if found is None:
            found = prices.model_copy(update={"target": renamed})
        elif comparable_prices(found, prices):
            found = found.model_copy(update={"target": {**renamed, **found.target}})
    return found


def _own_prices(prices: PriceList | None, shown: Mapping[str, str]) -> PriceList | None:
    if prices is None or not shown:
        return prices
    own = {name: prices.target[called] for name, called in shown.items() if called in prices.target}
    return prices.model_copy(update={"target": own})


def _seen_trials(of: Digest, dips: Mapping[int, Sequence[Dip]]) -> set[int]:
    numbers = [trial.number for trial in of.run.trials if trial.is_seen]
    if len(numbers) <= MOST_PROBED:
        return set(numbers)
    peaks = [curve.peak.summary for curve in of.curves]
    points = [*peaks, *(point for point in of.points if point.finished)]
    first = [median_trial(of, point).number for point in points] + [number for number, _ in costliest(dips)[:MOST_DIPS]]
    return set(list(dict.fromkeys([*first[: len(peaks)], *first[len(points) :], *first]))[:MOST_PROBED])


def _audit_subjects(subjects: Sequence[Subject]) -> list[Finding]:
    if len(subjects) == 1:
        return audit_subject(subjects[0])
    return [_of_run(finding, subject.manifest.run) for subject in subjects for finding in audit_subject(subject)]


def _of_run(finding: Finding, run: str) -> Finding:
    if not finding.checked:
        return finding
    told = Message(finding.id, "{run}: {message}", run=run, message=finding.translatable_message)
    return finding.model_copy(update={"message": str(told), "text": told})


def _compare_runs(
    of: Digest, runs: Sequence[RunData], subjects: Sequence[Subject], left_out: Collection[int]
) -> list[Comparison]:
    if len(runs) == 1:
        manifest = runs[0].manifest
        # trials with an operation and without it are compared by their parts
        if manifest.finds_cheapest or any("control" in event for event in manifest.plan.get("event", ())):
            return []
        found = with_confounders(comparisons_of(of, left_out), runs[0])
        return [with_causes(each, subjects[0], subjects[0]) for each in found]
    metric = usual_metric(runs[0])
    together = [at for at in range(1, len(runs)) if not _has_no_point_of(runs[0], runs[at])]
    found = compare([arms_between(runs[0], runs[at], metric) for at in together])
    return [with_causes(each, subjects[0], subjects[at]) for at, each in zip(together, found, strict=True)]


def _has_no_point_of(base: RunData, other: RunData) -> bool:
    if any(measures_otherwise(each.name) for each in differing_parameters(base.trials, other.trials)):
        return True
    try:
        between(base, other, usual_metric(base))
    except UsageError:
        return True
    return False


def _arms(of: Digest, runs: Sequence[RunData]) -> dict[Series, str]:
    if len(runs) == 1:
        return {} if runs[0].manifest.finds_cheapest else arms_of(of)
    shown = [(run.manifest.run, set(names.values())) for run, names in zip(runs, target_names(runs), strict=True)]
    return {series: run for series in of.named for run, targets in shown if series.target in targets}


def probe_samples_of(runs: Sequence[RunData], steps: Steps, seen: Collection[int]) -> dict[int, ProbeSamples]:
    """Return the probe's samples of the trials of `seen`, in steps. Raises StoreError."""
    found: dict[int, ProbeSamples] = {}
    shown = {place: number for number, place in _own_numbers(runs).items()}
    for at, run in enumerate(runs):
        own = {trial.number: trial for trial in run.trials if trial.is_seen and shown[at, trial.number] in seen}
        widths = {number: steps.width_s(trial) for number, trial in own.items()}
        widths_us = {number: round(width * 1e6) for number, width in widths.items()}
        series: dict[int, list[SeriesStep]] = {number: [] for number in own}
        waits: dict[int, list[WaitStep]] = {number: [] for number in own}
        for each in series_steps(run, widths_us):
            series[each.trial].append(each)
        for wait in wait_steps(run, widths_us):
            waits[wait.trial].append(wait)
        reported = cloud_series(run, widths_us)
        found |= {
            shown[at, number]: ProbeSamples(widths[number], series[number], waits[number], *reported[number])
            for number in own
        }
    return found


def _at_peak(
    of: Digest, runs: Sequence[RunData], read: Callable[[RunData, int], list[_Sum]]
) -> dict[int, Sequence[_Sum]]:
    best = of.best
    if best is None:
        return {}
    trial: TrialRecord = median_trial(of, best.peak.summary)
    at, number = _own_numbers(runs)[trial.number]
    sums = read(runs[at], number) if trial.probe is not None else []
    return {trial.number: sums} if sums else {}


def _differences(runs: Sequence[RunData]) -> list[Difference]:
    if len(runs) < 2:
        return []
    first, other = runs[0].manifest.fingerprint, runs[1].manifest.fingerprint
    if first is None or other is None:
        return []
    return without_alike(comparable(first, other), sides_of(runs[0], runs[1]))


def one_trial(run: RunData, number: int | None, most: int) -> tuple[TrialSteps, int | None]:
    """Return trial `number`, by default the median one of the highest peak, in at most `most` steps; and the host's
    processors.

    Raises UsageError if there is no such trial, StoreError.
    """
    of = digest(run)
    if number is None and of.best is None:
        raise UsageError(f"run {run.manifest.run} has no trial that finished", hint="name one with --trial NUMBER")
    if number is None and of.best is not None:
        number = median_trial(of, of.best.peak.summary).number
    trial = next((each for each in run.trials if each.number == number), None)
    if trial is None:
        last = max((each.number for each in run.trials), default=0)
        raise UsageError(f"run {run.manifest.run} has no trial {number}", hint=f"its trials are 1 to {last}")
    steps = Steps(most)
    samples = probe_samples_of([run], steps, {trial.number}).get(trial.number)
    made = trial_data(of, trial, samples, trial_dips(of.run, trial.number), steps, percentiles=True)
    if made is None:
        raise UsageError(f"trial {trial.number} of run {run.manifest.run} has no seconds: it was over before the first")
    host = run.manifest.host
    return made, host.cores if host is not None else None
