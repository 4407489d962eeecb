"""A run as rules see it: the same questions to trials of our own and to imported ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from pgdyno.analyse.dips import Dip, dips_of
from pgdyno.analyse.evidence import METRICS, ExplainedDip, explained, joined, spans_needed, worker_shares
from pgdyno.analyse.price import PriceList, prices_of
from pgdyno.analyse.probed import Span, SummedProbe, origin_us
from pgdyno.analyse.timeline import Timeline, timeline_of
from pgdyno.records import GeneratorHost, ImportedLine, Latency, Manifest, Outcome, Summary, TrialRecord
from pgdyno.store.tables import EventRow, IntervalRow, SeriesRow, SettingRow, StatementRow, WaitRow
from pgdyno.store.within import Metric, Stretches

_NUMBER = re.compile(r"\d{1,15}(?:\.(\d{1,15}))?")
READ_ONLY = frozenset(["select-only", "oltp-read-only", "oltp-point-select"])
"""Workloads that are known to write nothing."""


class AuditRun(Protocol):
    """What audit needs of a run: `store.read.RunData` is one."""

    @property
    def manifest(self) -> Manifest:
        """What the run is."""

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """Its trials in their order."""

    def intervals(self) -> Sequence[IntervalRow]:
        """Seconds of all trials."""

    def statements(self) -> Sequence[StatementRow]:
        """Statements of all trials."""

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Settings of the server as they were, at each trial; those called `names` where some are."""

    def events(self) -> Sequence[EventRow]:
        """What else the engine said, at each trial."""

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        """What counters of the probe gained, by trial and number of its stretch; nothing without a sample."""

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        """The probe's figures of some metrics within stretches of trials, by trial and time."""

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        """Looks, and what sessions waited for added up over them, by trial and number of its stretch."""


ASKED_SETTINGS = ("autovacuum", "checkpoint_timeout", "fsync", "full_page_writes", "synchronous_commit")
"""By all rules together: of a large sweep, hundreds at each trial would take a while to read."""
ASKED_AMOUNTS: Sequence[Metric] = (
    ("processes", "cpu"), ("probe", "cpu"),
    ("checkpoints", "timed"), ("checkpoints", "requested"), ("checkpoints", "done"),
    ("tables", "vacuums"), ("tables", "autovacuums"), ("tables", "analyzes"),
    ("tables", "autoanalyzes"), ("vacuum", "blocks"),
    ("database", "blocks_read"), ("database", "blocks_hit"),
)  # fmt: skip
"""Counters of the probe that rules ask for, over the measured part of each trial: one query for all of them."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A finished trial with its figures, in the names of docs/reference/published.md; it equals itself only."""

    trial: TrialRecord
    summary: Summary

    @property
    def number(self) -> int:
        """Place in the run."""
        return self.trial.number

    @property
    def target(self) -> str:
        """What was measured."""
        return self.trial.target

    @property
    def clients(self) -> int:
        """Sessions; 0 when nobody tells."""
        return self.trial.point.clients

    @property
    def tool(self) -> str | None:
        """What measured an imported trial: `pgbench`, `sysbench`, `table`; None for trials of our own."""
        return self.trial.imported.tool if self.trial.imported is not None else None

    @property
    def hosts(self) -> Sequence[GeneratorHost]:
        """The generators, where there are several."""
        return self.trial.generator.hosts if self.trial.generator is not None else ()

    @cached_property
    def figures(self) -> Mapping[str, float]:
        """Every figure that is known: as printed where the trial was imported and has figures, else as measured."""
        if self.trial.imported is not None and self.trial.imported.figures:
            return self.trial.imported.figures
        summary = self.summary
        known: dict[str, float | None] = {
            "clients": self.clients or None,
            "tps": summary.tps,
            "transactions": summary.succeeded,
            "duration_s": summary.measured_s,
            "failed": summary.failed,
            "skipped": summary.skipped,
            **_latency_ms(summary.latency_ns),
        }
        return {name: float(value) for name, value in known.items() if value is not None}

    def at(self, name: str | None = None) -> str:
        """Where the figure `name` stands, or the trial as a whole."""
        imported = self.trial.imported
        if imported is None:
            return f"trial {self.number}"
        printed = imported.printed.get(name) if name is not None else None
        return f"{imported.file}:{printed.line if printed is not None else imported.line}"

    def some(self, *names: str) -> dict[str, float | str]:
        """Those of the figures `names` that are known, for evidence."""
        return {name: self.figures[name] for name in names if name in self.figures}

    def rounding(self, name: str) -> float:
        """Half a unit of the last digit that is printed of the figure `name`; 0 where it was not printed."""
        printed = self.trial.imported.printed.get(name) if self.trial.imported is not None else None
        if printed is None or name not in self.figures:
            return 0.0
        text = printed.text.replace(",", "")
        decimals = [len(match[1] or "") for match in _NUMBER.finditer(text) if float(match[0]) == self.figures[name]]
        written = decimals[0] if decimals else len(f"{self.figures[name]:.10g}".partition(".")[2])
        return 0.5 * 10.0**-written

    @property
    def length_s(self) -> float | None:
        """Seconds that were measured, as told or as transactions over their rate."""
        if "duration_s" in self.figures:
            return self.figures["duration_s"]
        if "transactions" in self.figures and self.summary.tps > 0:
            return self.figures["transactions"] / self.summary.tps
        return None

    @property
    def is_open(self) -> bool:
        """Whether the load came at a rate."""
        return self.trial.point.rate is not None or "schedule_lag_ms" in self.figures


_Row = TypeVar("_Row", IntervalRow, StatementRow, EventRow, SeriesRow, WaitRow)


def _by_trial(rows: Sequence[_Row]) -> dict[int, list[_Row]]:
    found: dict[int, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.trial, []).append(row)
    return found


def _looked_at(trial: TrialRecord) -> bool:
    return trial.probe is not None and trial.probe.server


def _latency_ms(latency: Latency | None) -> dict[str, float | None]:
    if latency is None:
        return {}
    names = {"mean": "mean", "stddev": "stddev", "min": "min", "max": "max"}
    names |= {"p50": "p50", "p95": "p95", "p99": "p99"}
    values = {f"latency_{name}_ms": getattr(latency, field) for name, field in names.items()}
    return {name: None if value is None else value / 1e6 for name, value in values.items()}


@dataclass(frozen=True)
class Subject:
    """A run, with what several rules ask for."""

    run: AuditRun
    known_courses: Mapping[int, Timeline] | None = None
    """Every finished trial second by second, where somebody has them already."""
    given_prices: PriceList | None = None
    """Those of `--price`; None: the plan's count."""

    @property
    def manifest(self) -> Manifest:
        """What the run is."""
        return self.run.manifest

    @property
    def imported(self) -> bool:
        """Whether another tool measured it."""
        return self.manifest.imported is not None

    @property
    def prices(self) -> PriceList | None:
        """What its targets cost; None where neither the command nor the plan names prices."""
        return self.given_prices or prices_of(self.manifest)

    @cached_property
    def samples(self) -> list[Sample]:
        """Finished trials, in their order."""
        return [
            Sample(trial, trial.summary)
            for trial in self.run.trials
            if trial.outcome is Outcome.FINISHED and trial.summary is not None
        ]

    @cached_property
    def by_target(self) -> Mapping[str, list[Sample]]:
        """Finished trials of each target."""
        found: dict[str, list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.target, []).append(sample)
        return found

    def facts(self, name: str) -> list[ImportedLine]:
        """Lines of imported documents that tell of `name`."""
        return self.manifest.imported.facts.get(name, []) if self.manifest.imported is not None else []

    @cached_property
    def settings(self) -> Mapping[int, Mapping[str, str]]:
        """Settings of the server that rules ask for, by trial of our own and name."""
        found: dict[int, dict[str, str]] = {sample.number: {} for sample in self.samples}
        for row in self.run.settings(names=ASKED_SETTINGS):
            if row.trial in found:
                found[row.trial][row.name] = row.setting or ""
        return found

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        """Seconds of trial number `trial`."""
        return self._intervals.get(trial, ())

    def statements(self, trial: int) -> Sequence[StatementRow]:
        """Statements of trial number `trial`."""
        return self._statements.get(trial, ())

    def events(self, trial: int) -> Sequence[EventRow]:
        """What else the engine said in trial number `trial`."""
        return self._events.get(trial, ())

    @cached_property
    def courses(self) -> Mapping[int, Timeline]:
        """Every finished trial second by second; of several scripts without p99."""
        if self.known_courses is not None:
            return self.known_courses
        return {each.number: timeline_of(each.number, self.intervals(each.number)) for each in self.samples}

    @cached_property
    def dips(self) -> Mapping[int, Sequence[Dip]]:
        """Dips of every finished trial."""
        return {number: dips_of(course) for number, course in self.courses.items()}

    @cached_property
    def explained(self) -> Mapping[int, Sequence[ExplainedDip]]:
        """What coincides with the dips of each trial that has some and a probe that looked at the server."""
        records = {sample.number: sample.trial for sample in self.samples}
        dipping = [number for number, found in self.dips.items() if found and _looked_at(records[number])]
        spans = {number: spans_needed(self.courses[number], self.dips[number]) for number in dipping}
        stretches = self.on_probes_clock(spans)
        sums = self.run.sessions_within(stretches)
        wide = self.on_probes_clock({number: joined(spans[number]) for number in stretches})
        series = _by_trial(self.run.series_within(wide, METRICS))
        looked = {number for number, _ in sums}
        found = {}
        for number in stretches:
            if not (number in looked or number in series):
                continue
            known = {span: sums[number, at] for at, span in enumerate(spans[number]) if (number, at) in sums}
            probe = SummedProbe(origin_us(self.events(number)) or 0, (), series.get(number, []), known)
            generator = records[number].generator
            shares = worker_shares(self.intervals(number), generator.workers if generator is not None else 1)
            found[number] = explained(self.courses[number], probe, records[number].events, shares, self.dips[number])
        return found

    def on_probes_clock(self, spans: Mapping[int, Sequence[Span]]) -> dict[int, list[tuple[int, int]]]:
        """Seconds of trials as microseconds of the clock that the probe's rows have; trials without it are left out."""
        origins = {number: origin_us(self.events(number)) for number in spans}
        return {
            number: [(origin + round(begin * 1e6), origin + round(end * 1e6)) for begin, end in spans[number]]
            for number, origin in origins.items()
            if origin is not None
        }

    @cached_property
    def measured(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """The measured part of each trial, one stretch on the probe's clock; trials without that clock are left out."""
        spans: dict[int, list[Span]] = {}
        for sample in self.samples:
            course = self.courses[sample.number].measured()
            if sample.trial.probe is not None and course:
                spans[sample.number] = [(course[0].from_s, course[-1].to_s)]
        return self.on_probes_clock(spans)

    @cached_property
    def amounts(self) -> Mapping[int, Mapping[Metric, float]]:
        """What ASKED_AMOUNTS gained over the measured part of each trial; a source without a sample is left out."""
        found = self.run.amounts_within(self.measured, ASKED_AMOUNTS)
        return {number: amounts for (number, _), amounts in found.items()}

    # each table is read once: a file a trial and rule would take seconds for a hundred trials

    @cached_property
    def _intervals(self) -> Mapping[int, Sequence[IntervalRow]]:
        return _by_trial(self.run.intervals())

    @cached_property
    def _statements(self) -> Mapping[int, Sequence[StatementRow]]:
        return _by_trial(self.run.statements())

    @cached_property
    def _events(self) -> Mapping[int, Sequence[EventRow]]:
        return _by_trial(self.run.events())

    @property
    def only_reads(self) -> bool | None:
        """Whether the workload writes nothing; None when that is not known."""
        names = {name.strip() for name in self.manifest.workload.split(",")}
        if "workload not told" in names:
            return None
        return names <= READ_ONLY
