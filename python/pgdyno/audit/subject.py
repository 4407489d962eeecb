"""Presents a run to the rules: one interface for pgdyno's own trials and imported ones."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pgdyno.analyse.over_time.dips import (
    METRICS,
    Dip,
    ExplainedDip,
    counter_spans,
    dips_of,
    explained,
    spans_needed,
    worker_shares,
)
from pgdyno.analyse.over_time.probe_series import Probed, Span, origin_us
from pgdyno.analyse.over_time.timeline import Timeline, timeline_of
from pgdyno.analyse.price import PriceList, prices_of
from pgdyno.effect import Effect, effect_of_scripts
from pgdyno.messages import Message
from pgdyno.records import GeneratorHost, ImportedLine, Latency, Manifest, Outcome, Summary, TrialRecord
from pgdyno.store.probe_tables import Metric, Shares, Stretches
from pgdyno.store.read_runs import KeptPlan
from pgdyno.store.safe_files import detail_of
from pgdyno.store.seconds import Seconds
from pgdyno.store.trial_tables import EventRow, SeriesRow, SettingRow, StatementRow, WaitRow

_NUMBER = re.compile(r"\d{1,15}(?:\.(\d{1,15}))?")


class AuditRun(Protocol):
    """What the audit needs of a run; `store.read_runs.RunData` implements it."""

    @property
    def manifest(self) -> Manifest: ...

    @property
    def trials(self) -> Sequence[TrialRecord]: ...

    def seconds(self, trial: int) -> Seconds: ...

    def statements(self) -> Sequence[StatementRow]: ...

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        """Return the server's settings at each trial; only those in `names` if it is given."""

    def events(self) -> Sequence[EventRow]:
        """Return the engine's other events, by trial."""

    def effect_of_script(self, name: str) -> Effect | None:
        """Return the effect of a script of the workload whose text the run kept; None if it kept none."""

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        """Return the increase of the probe's counters by trial and number of the stretch; nothing without a sample."""

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        """Return the probe's samples of some metrics within stretches of trials, by trial and time."""

    def shares_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Shares:
        """Return means over time of the probe's shares by trial and number of the stretch; nothing without a sample."""

    def query_plans(self) -> Sequence[KeptPlan]:
        """Return the query plans of statements, each once; empty if the run kept none."""

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        """Return the samples of sessions, and their waits summed over them, by trial and number of the stretch."""


LOAD_BY_PHASE = Message("load-by-phase", "phases change the clients or the rate during a trial")
MIX_BY_PHASE = Message("mix-by-phase", "the weights change from phase to phase")
ASKED_SETTINGS = ("autovacuum", "checkpoint_timeout", "fsync", "full_page_writes", "synchronous_commit")
"""The settings that any rule uses: in a large sweep, reading hundreds per trial would be slow."""
ASKED_AMOUNTS: Sequence[Metric] = (
    ("processes", "cpu"), ("probe", "cpu"), ("pooler", "cpu"),
    ("checkpoints", "timed"), ("checkpoints", "requested"), ("checkpoints", "done"),
    ("tables", "vacuums"), ("tables", "autovacuums"), ("tables", "analyzes"),
    ("tables", "autoanalyzes"), ("vacuum", "blocks"),
    ("database", "blocks_read"), ("database", "blocks_hit"), ("paging", "read"),
    ("database", "temp"), ("database", "rows_returned"), ("wal_position", "inserted"),
    ("locks", "fastpath_exceeded"),
)  # fmt: skip
"""Counters of the probe that rules use, over the measured part of each trial: one query reads all of them."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A finished trial with its figures, named as in docs/reference/published.md; it equals only itself."""

    trial: TrialRecord
    summary: Summary

    @property
    def number(self) -> int:
        return self.trial.number

    @property
    def target(self) -> str:
        return self.trial.target

    @property
    def clients(self) -> int:
        """Return the number of clients; 0 if unknown."""
        return self.trial.point.clients or 0

    @property
    def tool(self) -> str | None:
        """Return the program that measured an imported trial (`pgbench`, `sysbench`, `table`); None for our own."""
        return self.trial.imported.tool if self.trial.imported is not None else None

    @property
    def hosts(self) -> Sequence[GeneratorHost]:
        """Return the generators, if there are several."""
        return self.trial.generator.hosts if self.trial.generator is not None else ()

    @cached_property
    def figures(self) -> Mapping[str, float]:
        """Return all known figures: as printed if the trial was imported and has figures, otherwise as measured."""
        printed = self.trial.imported.figures if self.trial.imported is not None else {}
        if printed and not self.is_log:
            return printed
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
        # a log prints no figure, and adds those for which a summary has no place
        return {name: float(value) for name, value in known.items() if value is not None} | printed

    @property
    def rate(self) -> float:
        """Return transactions per second, the composite of queries that run once, or instructions per transaction."""
        if self.summary.instructions is not None:
            return self.summary.instructions.instructions
        return self.summary.composite or 0.0 if self.summary.rate_tps is None else self.summary.tps

    def figure_location(self, name: str | None = None) -> str:
        """Return the location of the figure `name`, or of the trial as a whole."""
        imported = self.trial.imported
        if imported is None:
            return f"trial {self.number}"
        printed = imported.printed.get(name) if name is not None else None
        return f"{imported.file}:{printed.line if printed is not None else imported.line}"

    def some(self, *names: str) -> dict[str, float | str]:
        """Return the known figures among `names`, for evidence."""
        return {name: self.figures[name] for name in names if name in self.figures}

    def rounding_error(self, name: str) -> float:
        """Return half a unit of the last printed digit of the figure `name`; 0 if it was not printed."""
        printed = self.trial.imported.printed.get(name) if self.trial.imported is not None else None
        if printed is None or name not in self.figures:
            return 0.0
        text = printed.text.replace(",", "")
        decimals = [len(match[1] or "") for match in _NUMBER.finditer(text) if float(match[0]) == self.figures[name]]
        written = decimals[0] if decimals else len(f"{self.figures[name]:.10g}".partition(".")[2])
        return 0.5 * 10.0**-written

    @property
    def length_s(self) -> float | None:
        """Return the measured seconds, as reported or computed as transactions over their rate."""
        if "duration_s" in self.figures:
            return self.figures["duration_s"]
        if "transactions" in self.figures and self.summary.tps > 0:
            return self.figures["transactions"] / self.summary.tps
        return None

    @property
    def is_open(self) -> bool:
        return self.trial.point.rate is not None or "schedule_lag_ms" in self.figures or self._loop == "open"

    @property
    def is_undecided(self) -> bool:
        """Return whether the trial is a log that does not show if a rate limited the load."""
        return self.is_log and not self.is_open and self._loop is None

    @property
    def is_log(self) -> bool:
        """Return whether the trial was computed from logs of pgbench."""
        return self.tool == "pgbench-log"

    @property
    def _loop(self) -> str | None:
        return self.trial.imported.load.get("loop") if self.trial.imported is not None else None


_Row = TypeVar("_Row", StatementRow, EventRow, SeriesRow, WaitRow)


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
    """A run, with cached results that several rules use."""

    run: AuditRun
    known_timelines: Mapping[int, Timeline] | None = None
    """The timelines of all finished trials, if the caller has them already."""
    given_prices: PriceList | None = None
    """The prices of `--price`; None means the plan's."""

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @property
    def imported(self) -> bool:
        return self.manifest.imported is not None

    @property
    def prices(self) -> PriceList | None:
        """Return the prices of the targets; None if neither the command line nor the plan has any."""
        return self.given_prices or prices_of(self.manifest)

    def data_of(self, sample: Sample) -> tuple[int | None, tuple[str | None, ...]]:
        """Return what tells the dataset of `sample` from others of the run: scale, or variables of its SQL files."""
        dataset = (self.manifest.plan.get("workload") or {}).get("dataset")
        point = sample.trial.point
        if not isinstance(dataset, dict):
            return point.scale, ()
        return None, tuple(point.variables.get(name) for name in dataset.get("variables") or ())

    @cached_property
    def samples(self) -> list[Sample]:
        return [
            Sample(trial, trial.summary)
            for trial in self.run.trials
            if trial.outcome is Outcome.FINISHED and trial.summary is not None
        ]

    @cached_property
    def by_target(self) -> Mapping[str, list[Sample]]:
        found: dict[str, list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.target, []).append(sample)
        return found

    def facts(self, name: str) -> list[ImportedLine]:
        return self.manifest.imported.facts.get(name, []) if self.manifest.imported is not None else []

    @cached_property
    def settings(self) -> Mapping[int, Mapping[str, str]]:
        """Return the server settings that rules use, by trial and name; only for pgdyno's own trials."""
        found: dict[int, dict[str, str]] = {sample.number: {} for sample in self.samples}
        for row in self.run.settings(names=ASKED_SETTINGS):
            if row.trial in found:
                found[row.trial][row.name] = row.setting or ""
        return found

    def seconds(self, trial: int) -> Seconds:
        return self.run.seconds(trial)

    def statements(self, trial: int) -> Sequence[StatementRow]:
        return self._statements.get(trial, ())

    def events(self, trial: int) -> Sequence[EventRow]:
        return self._events.get(trial, ())

    def end_event(self, trial: int) -> dict[str, Any]:
        """Return the engine's last event in trial number `trial`; nothing if it wrote none."""
        end = next((row for row in self.events(trial) if row.kind == "end"), None)
        return detail_of(end.kind, end.detail) if end is not None else {}

    def cpu_shares(self, trial: int) -> list[float]:
        """Return the share of a core that each worker used in the measured part of trial number `trial`."""
        shares = [worker.get("cpu_share") for worker in self.end_event(trial).get("workers") or ()]
        return [float(share) for share in shares if share is not None]

    @cached_property
    def timelines(self) -> Mapping[int, Timeline]:
        """Return the timeline of every finished trial; without p99 if it has several scripts."""
        if self.known_timelines is not None:
            return self.known_timelines
        return {each.number: timeline_of(each.number, self.seconds(each.number)) for each in self.samples}

    @cached_property
    def dips(self) -> Mapping[int, Sequence[Dip]]:
        return {number: dips_of(timeline) for number, timeline in self.timelines.items()}

    @cached_property
    def explained(self) -> Mapping[int, Sequence[ExplainedDip]]:
        """Return what coincides with the dips of each trial that has dips and a probe of the server."""
        records = {sample.number: sample.trial for sample in self.samples}
        dipping = [number for number, found in self.dips.items() if found and _looked_at(records[number])]
        spans = {number: spans_needed(self.timelines[number], self.dips[number]) for number in dipping}
        stretches = self.on_probes_clock(spans)
        sums = self.run.sessions_within(stretches)
        wide = self.on_probes_clock({number: counter_spans(spans[number]) for number in stretches})
        series = _by_trial(self.run.series_within(wide, METRICS))
        looked = {number for number, _ in sums}
        found = {}
        for number in stretches:
            if not (number in looked or number in series):
                continue
            known = {span: sums[number, at] for at, span in enumerate(spans[number]) if (number, at) in sums}
            probe = Probed(origin_us(records[number], self.events(number)) or 0, series.get(number, []), known)
            generator = records[number].generator
            shares = worker_shares(self.seconds(number), generator.workers if generator is not None else 1)
            found[number] = explained(self.timelines[number], probe, records[number].events, shares, self.dips[number])
        return found

    def on_probes_clock(self, spans: Mapping[int, Sequence[Span]]) -> dict[int, list[tuple[int, int]]]:
        """Convert seconds of trials to microseconds of the probe's clock; trials without a probe are left out."""
        origins = {
            sample.number: origin_us(sample.trial, self.events(sample.number))
            for sample in self.samples
            if sample.number in spans
        }
        return {
            number: [(origin + round(begin * 1e6), origin + round(end * 1e6)) for begin, end in spans[number]]
            for number, origin in origins.items()
            if origin is not None
        }

    @cached_property
    def measured(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Return each trial's measured part on the probe's clock, as one stretch; none without a probe."""
        return {number: stretches[:1] for number, stretches in self._parts.items()}

    @cached_property
    def _parts(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        spans: dict[int, list[Span]] = {}
        for sample in self.samples:
            timeline = self.timelines[sample.number].measured_part
            if sample.trial.probe is not None and len(timeline):
                begin, end = float(timeline.from_s[0]), float(timeline.to_s[-1])
                fifth = (end - begin) / 5
                spans[sample.number] = [(begin, end), (begin, begin + fifth), (end - fifth, end)]
        return self.on_probes_clock(spans)

    @cached_property
    def _amounts(self) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        return self.run.amounts_within(self._parts, ASKED_AMOUNTS)

    @cached_property
    def amounts(self) -> Mapping[int, Mapping[Metric, float]]:
        """Return the increase of ASKED_AMOUNTS over each trial's measured part; a source needs a sample."""
        return {number: amounts for (number, part), amounts in self._amounts.items() if part == 0}

    def amounts_of_fifths(self, trial: int) -> Sequence[Mapping[Metric, float]] | None:
        """Return the increase of ASKED_AMOUNTS over first and last fifth of a trial; None without a probe."""
        return [self._amounts.get((trial, part), {}) for part in (1, 2)] if trial in self._parts else None

    # read each table once: a file per trial and rule would take seconds for a hundred trials

    @cached_property
    def _statements(self) -> Mapping[int, Sequence[StatementRow]]:
        return _by_trial(self.run.statements())

    @cached_property
    def _events(self) -> Mapping[int, Sequence[EventRow]]:
        return _by_trial(self.run.events())

    @property
    def changing_load(self) -> Message | None:
        """Return what changes the load during a trial: a capture, or phases that differ; None if it is constant."""
        if (self.manifest.plan.get("workload") or {}).get("replay") is not None:
            return Message("load-by-capture", "the capture determines the load during a trial")
        phases = [each for each in self.manifest.plan.get("phase") or () if each.get("result", True)]
        loads = [(each.get("rate"), each.get("clients")) for each in phases]
        if any(load != loads[0] or any(isinstance(each, Mapping) for each in load) for load in loads):
            return LOAD_BY_PHASE
        if any(each.get("mix") != phases[0].get("mix") for each in phases):
            return MIX_BY_PHASE
        return None

    @property
    def only_reads(self) -> bool:
        """Return whether the load is known to only read: rules judge one that is unknown as one that writes."""
        return self.effect is Effect.READS

    @cached_property
    def effect(self) -> Effect:
        names = self.manifest.script_names
        if names is None:
            return Effect.UNKNOWN
        if self.imported:
            names = frozenset(each.rpartition("/")[2].removesuffix(".lua") for each in names)
        return effect_of_scripts(names, self.run.effect_of_script)
