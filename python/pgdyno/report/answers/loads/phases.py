"""Phases: the answer of a run whose load changes over time, by phase."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.intervals import Estimate, trials_interval
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import PhaseFigures
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, ngettext


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a point, over its finished trials."""

    point: PointSummary
    name: str
    result: bool
    trials: Sequence[PhaseFigures]
    instances: Sequence[int | None]
    """The instance of each of `trials`."""

    @property
    def tps(self) -> Estimate:
        return trials_interval([each.tps for each in self.trials], self.instances)

    def percentiles_ns(self, name: str) -> list[int]:
        """Return the percentile `name` of each trial that has one: percentiles of several are not averaged."""
        each = [getattr(figures.latency_ns, name) for figures in self.trials if figures.latency_ns is not None]
        return sorted(value for value in each if value is not None)

    @property
    def unserved(self) -> int:
        """Return the transactions that were due and not served."""
        return sum(each.failed + each.skipped + each.unstarted for each in self.trials)


def phases_of(of: Digest) -> list[Phase]:
    """Return the phases of every point that has a result, in order; empty without phases, and in older records."""
    found: list[Phase] = []
    for point in of.points:
        kept = [
            (trial.instance, trial.summary.phases)
            for trial in of.run.trials
            if trial.number in point.finished and trial.summary is not None and trial.summary.phases
        ]
        instances = [instance for instance, _ in kept]
        by_phase = zip(*(phases for _, phases in kept), strict=False)
        found += [Phase(point, same[0].name, same[0].result, same, instances) for same in by_phase]
    return found


def phases_text(of: Digest) -> str | None:
    """Return the ranges of throughput and p99 over the phases; None without phases."""
    counted = [phase for phase in phases_of(of) if phase.result]
    if not counted:
        return None
    servers = {of.server_name(phase.point.series) for phase in counted}
    rates = [phase.tps.mean for phase in counted]
    values = {
        "name": servers.pop() if len(servers) == 1 else of.manifest.workload,
        "phases": ngettext("{count:,} phase", "{count:,} phases", len({phase.name for phase in counted})),
        "tps": _span([numbers.round_text(rate) for rate in (min(rates), max(rates))]),
    }
    slow = [(phase.percentiles_ns("p99")[-1], phase) for phase in counted if phase.percentiles_ns("p99")]
    if not slow:
        return gettext("{name} in {phases}: {tps} transactions a second", **values)
    best, (worst_ns, worst) = min(each[0] for each in slow), max(slow, key=lambda each: each[0])
    return gettext(
        "{name} in {phases}: {tps} transactions a second; p99 {ms} ms, the highest in {worst}",
        ms=_span([numbers.ms(best), numbers.ms(worst_ns)]),
        worst=worst.name,
        **values,
    )


def phase_table(of: Digest) -> Table | None:
    """Return a row per phase of each point; None without phases."""
    phases = phases_of(of)
    if not phases:
        return None
    several = len({id(phase.point) for phase in phases}) > 1
    asked = {phase["name"]: phase for phase in of.manifest.plan.get("phase") or ()}
    rows = tuple(
        (
            *((of.point_name(phase.point),) if several else ()),
            phase.name if phase.result else gettext("{phase} (not counted)", phase=phase.name),
            _rate_words(asked.get(phase.name, {}).get("rate")),
            numbers.estimate(phase.tps),
            numbers.half(phase.tps),
            *(_span([numbers.ms(each) for each in phase.percentiles_ns(name)]) for name in ("p50", "p99")),
            f"{phase.unserved:,}",
        )
        for phase in phases
    )
    headings = (
        *((gettext("point"),) if several else ()),
        *gettext_each("phase", "rate"),
        "tps",
        "±",
        "p50, ms",
        "p99, ms",
    )
    caption = gettext(
        "Phases, by the transactions that were due in each; percentiles: the lowest and highest of the trials"
    )
    return Table(caption, (*headings, gettext("not served")), rows, 2 if several else 1)


def _span(values: Sequence[str]) -> str:
    if not values:
        return numbers.NOTHING
    return values[0] if values[0] == values[-1] else numbers.range_text(values[0], values[-1])


def _rate_words(rate: float | Mapping[str, float] | None) -> str:
    """Return `500 to 5,000`; a dash in a closed loop."""
    if rate is None:
        return numbers.NOTHING
    ends = (rate["from"], rate["to"]) if isinstance(rate, Mapping) else (rate, rate)
    return _span([f"{end:,.10g}" for end in ends])
