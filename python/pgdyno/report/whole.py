"""The whole report of stored runs: everything that a page needs is read, judged and drawn here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pgdyno.analyse.compare import Comparison, compare
from pgdyno.analyse.dips import Dip
from pgdyno.analyse.metric import Metric
from pgdyno.analyse.pairs import between, within
from pgdyno.analyse.price import PriceList
from pgdyno.analyse.series import varying
from pgdyno.analyse.source import RunSource
from pgdyno.audit import Finding, audit
from pgdyno.errors import UsageError
from pgdyno.fingerprint import Difference, comparable
from pgdyno.published import Published, published, published_names
from pgdyno.records import Outcome, TrialRecord
from pgdyno.report.digest import Digest, digest
from pgdyno.report.extras import Beside, Extras
from pgdyno.report.gathered import Gathered, without_collector
from pgdyno.report.html import render_digest
from pgdyno.report.markdown import markdown_of
from pgdyno.report.sections.dips import MOST_DIPS, costliest, dips_of
from pgdyno.report.sections.four import median_trial
from pgdyno.report.sections.times import Steps
from pgdyno.report.together import Together
from pgdyno.store import RunData
from pgdyno.store.beside import ProcessSum, SeriesStep, WaitStep, process_sums, series_steps, wait_steps

NOT_ARMS = ("rate", "scale", "workers")
"""Parameters that make curves but are seldom what is compared."""
MOST_ARMS = 9
MOST_PROBED = 300
"""Trials whose waits, processors and disks are read: ten seconds are enough to wait for a page."""


def report_html(runs: Sequence[RunData], prices: PriceList | None = None) -> str:
    """The page of one run, or of several beside the first. Raises StoreError and UsageError."""
    with without_collector():
        of, extras = everything(runs, prices)
        return render_digest(of, ", ".join(str(run.folder.path) for run in runs), extras)


def report_markdown(runs: Sequence[RunData], prices: PriceList | None = None) -> str:
    """The same in 80 columns of Markdown. Raises StoreError and UsageError."""
    return markdown_of(*everything(runs, prices))


def everything(runs: Sequence[RunData], prices: PriceList | None = None) -> tuple[Digest, Extras]:
    """What a report is made of. Raises StoreError and UsageError."""
    gathered = [Gathered(run) for run in runs]
    source: RunSource = gathered[0] if len(gathered) == 1 else Together(gathered)
    of = digest(source)
    steps = Steps.of(len(source.trials), probed=any(trial.probe is not None for trial in source.trials))
    dips = dips_of(of)
    seen = _seen(of, dips)
    return of, Extras(
        findings=_audited(gathered),
        comparisons=_compared(of, gathered),
        published=_published(gathered[0]),
        prices=prices,
        besides=_besides(gathered, steps, seen),
        processes=_processes(of, source),
        differences=_differences(gathered),
        dips=dips,
        unseen=sum(trial.probe is not None and trial.number not in seen for trial in source.trials),
    )


def _seen(of: Digest, dips: Mapping[int, Sequence[Dip]]) -> set[int]:
    """Trials whose probe's samples are read: all; of a large sweep those that stand for points, and those that dip."""
    numbers = [trial.number for trial in of.run.trials if trial.probe is not None]
    if len(numbers) <= MOST_PROBED:
        return set(numbers)
    peaks = [curve.peak.summary for curve in of.curves]
    points = [*peaks, *(point for point in of.points if point.finished)]
    first = [median_trial(of, point).number for point in points] + [number for number, _ in costliest(dips)[:MOST_DIPS]]
    return set(list(dict.fromkeys([*first[: len(peaks)], *first[len(points) :], *first]))[:MOST_PROBED])


def _audited(runs: Sequence[Gathered]) -> list[Finding]:
    if len(runs) == 1:
        return audit(runs[0])
    return [_of_run(finding, run.manifest.run) for run in runs for finding in audit(run)]


def _of_run(finding: Finding, run: str) -> Finding:
    return finding.model_copy(update={"message": f"{run}: {finding.message}"}) if finding.checked else finding


def _compared(of: Digest, runs: Sequence[Gathered]) -> list[Comparison]:
    """Every further run beside the first; of one run, its arms beside the first of them."""
    if len(runs) > 1:
        return compare([between(runs[0], other, Metric.TPS) for other in runs[1:]])
    names = [name for name in varying(list(of.named)) if name not in NOT_ARMS]
    if not names:
        return []
    try:
        return compare(within(runs[0], names[0], Metric.TPS)[: MOST_ARMS - 1])
    except UsageError:
        # every trial of all arms but one failed: there is nothing to compare
        return []


def _published(run: Gathered) -> Published | None:
    asked = run.manifest.plan.get("published") or {}
    name = asked.get("data") if isinstance(asked, Mapping) else None
    return published(name) if name in published_names() else None


def _besides(runs: Sequence[Gathered], steps: Steps, seen: Collection[int]) -> dict[int, Beside]:
    found: dict[int, Beside] = {}
    first = 1
    for run in runs:
        numbers = {trial.number: first + at for at, trial in enumerate(run.trials)}
        if len(runs) == 1:
            numbers = {number: number for number in numbers}
        own = {trial.number: trial for trial in run.trials if trial.probe is not None and numbers[trial.number] in seen}
        widths = {number: steps.width_s(trial) for number, trial in own.items()}
        widths_us = {number: round(width * 1e6) for number, width in widths.items()}
        series: dict[int, list[SeriesStep]] = {number: [] for number in own}
        waits: dict[int, list[WaitStep]] = {number: [] for number in own}
        for each in series_steps(run.run, widths_us):
            series[each.trial].append(each)
        for wait in wait_steps(run.run, widths_us):
            waits[wait.trial].append(wait)
        found |= {numbers[number]: Beside(widths[number], series[number], waits[number]) for number in own}
        first += len(run.trials)
    return found


def _processes(of: Digest, source: RunSource) -> dict[int, Sequence[ProcessSum]]:
    best = of.best
    if best is None:
        return {}
    trial: TrialRecord = median_trial(of, best.peak.summary)
    run, number = source.own_number(trial.number) if isinstance(source, Together) else (source, trial.number)
    if not isinstance(run, Gathered) or trial.outcome is not Outcome.FINISHED:
        return {}
    sums = process_sums(run.run, number)
    return {trial.number: sums} if sums else {}


def _differences(runs: Sequence[Gathered]) -> list[Difference]:
    if len(runs) < 2:
        return []
    first, other = runs[0].manifest.fingerprint, runs[1].manifest.fingerprint
    return comparable(first, other) if first is not None and other is not None else []
