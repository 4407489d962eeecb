"""The timeline of every trial as data for the page's script: a bounded number of steps each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.resources import files

import numpy as np

from pgdyno.analyse.over_time.dips import Dip
from pgdyno.analyse.over_time.timeline import Timeline, trial_timeline
from pgdyno.records import Outcome, TrialRecord
from pgdyno.records.probe import WAIT_CLASSES, wait_class
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest, ProbeSamples
from pgdyno.report.sections.over_seconds.cloud_metrics import FIGURES_A_STEP as OF_CLOUD
from pgdyno.report.sections.over_seconds.cloud_metrics import CloudStrip, Values, cloud_strips
from pgdyno.report.translation import Language, current_language, gettext, gettext_noop
from pgdyno.store.probe_queries import SeriesStep

MOST_STEPS = 240
FEWEST_STEPS = 40
BYTES = 1_600_000
"""Approximate size of the data of all trials."""
CPU = ("user", "system", "irq", "iowait", "steal")
"""In stacking order."""
FIGURE_BYTES = 5
FIGURES_A_STEP = 18
"""Throughput, p99, waits, processors, disks and WAL together."""


BUSY = "busy, %"
MARKS = {
    "timed": gettext_noop("checkpoint (time)"),
    "requested": gettext_noop("checkpoint (WAL or command)"),
    "vacuums": gettext_noop("vacuum"),
    "autovacuums": gettext_noop("autovacuum"),
}
_SAID = re.compile(r'\bgettext\("((?:[^"\\]|\\.)*)"')


@cache
def script_texts() -> tuple[str, ...]:
    """Return the texts of the page's scripts: `gettext("...")` in them."""
    scripts = (files("pgdyno.report").joinpath("page", name) for name in ("script.js", "timeline.js", "strips.js"))
    found = [text for script in scripts for text in _SAID.findall(script.read_text(encoding="utf-8"))]
    return tuple(dict.fromkeys([*found, *WAIT_CLASSES, *CPU]))


@dataclass(frozen=True, slots=True)
class Steps:
    """The division of trials into steps."""

    most: int

    @classmethod
    def for_trials(cls, trials: int, *, probed: bool, rented: int = 0) -> Steps:
        """So many that all trials together stay within BYTES; `rented` ones have figures of their provider, too."""
        figures = trials * (FIGURES_A_STEP if probed else 3) + rented * OF_CLOUD
        share = BYTES // max(figures * FIGURE_BYTES, 1)
        return cls(min(max(share, FEWEST_STEPS), MOST_STEPS))

    def width_s(self, trial: TrialRecord) -> float:
        """Return the length of a step of `trial`, in whole seconds."""
        length = trial.warmup_s + (trial.duration_s or 600.0)
        return float(max(1, math.ceil(length / self.most)))


@dataclass(frozen=True, slots=True)
class TrialSteps:
    """One trial in steps, a None where a step has no value. The page's script knows these names."""

    n: int
    """The trial's number."""
    name: str
    colour: int
    step: float
    """Seconds."""
    begin: float
    """Start of the first step in seconds since the start of measuring, as all times here."""
    warm: float
    """End of the warm-up."""
    tps: Values
    p99: Values
    """Milliseconds."""
    marks: Sequence[tuple[float, str]]
    """When, and a word."""
    dips: Sequence[tuple[float, float]]
    """From, to."""
    low: Values | None = None
    """The lowest throughput of each step; None if steps are seconds."""
    waits: Mapping[str, Values] | None = None
    cpu: Mapping[str, Values] | None = None
    disk: Mapping[str, Values] | None = None
    wal: Values | None = None
    queries: Mapping[str, Values] | None = None
    """The plan's own queries."""
    hz: int | None = None
    """Samples of waits a second."""
    cloud: Sequence[CloudStrip] | None = None

    @property
    def skip(self) -> int:
        """Return the number of steps of the warm-up."""
        return math.ceil((self.warm - self.begin) / self.step)

    @property
    def busy(self) -> Values | None:
        """Return the busy time of the processors, in percent; None without a probe."""
        parts = [values for name, values in (self.cpu or {}).items() if name != "iowait"]
        return step_sums(parts) if parts else None

    def as_json(self) -> dict[str, object]:
        found = {each.name: getattr(self, each.name) for each in fields(self)} | {
            "cloud": None if self.cloud is None else [asdict(each) for each in self.cloud]
        }
        return {name: value for name, value in found.items() if value is not None}


def step_sums(parts: Sequence[Values]) -> Values:
    """Return the sum of the parts in each step, to three digits; None without any."""
    return [
        float(f"{sum(each or 0.0 for each in step):.3g}") if any(each is not None for each in step) else None
        for step in zip(*parts, strict=True)
    ]


def timeline_data(
    of: Digest, probe_samples: Mapping[int, ProbeSamples], dips: Mapping[int, Sequence[Dip]], chosen: int, steps: Steps
) -> dict[str, object]:
    """Return every trial that has seconds, with the one to show first."""
    trials = []
    for trial in of.run.trials:
        percentiles = trial.number == chosen or _is_cheap(trial)
        found = dips.get(trial.number, ())
        made = trial_data(of, trial, probe_samples.get(trial.number), found, steps, percentiles=percentiles)
        # a trial of tpch without samples of the probe has nothing to show
        if made is not None and (not of.manifest.is_untimed or trial.number in probe_samples):
            trials.append(made.as_json())
    host = of.manifest.host
    return {
        "chosen": chosen,
        "cores": host.cores if host is not None else None,
        "trials": trials,
        "texts": {text: gettext(text) for text in script_texts()} if current_language() is not Language.ENGLISH else {},
    }


def timeline_json(data: Mapping[str, object]) -> str:
    """Return `timeline_data` as JSON that is safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    # escape what would end the element, or begin another
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028")


def _is_cheap(trial: TrialRecord) -> bool:
    """Return whether the p99 of each second is stored: with several scripts, histograms would have to be merged."""
    return trial.summary is None or len(trial.summary.scripts) <= 1


def trial_data(
    of: Digest,
    trial: TrialRecord,
    samples: ProbeSamples | None,
    dips: Sequence[Dip],
    steps: Steps,
    *,
    percentiles: bool,
) -> TrialSteps | None:
    """Return one trial in steps; None without seconds."""
    timeline = trial_timeline(of.run, trial.number, percentiles=percentiles)
    if not len(timeline):
        return None
    width = steps.width_s(trial)
    begin_s = trial.load_begins_us / 1e6
    tps, low, p99 = _step_means(timeline, begin_s, width)
    if of.manifest.is_untimed:
        # a client of tpch runs one long transaction
        tps = low = p99 = [None] * len(tps)
    clients = numbers.clients(trial.point.clients)
    name = gettext(
        "{name}, {clients}, repeat {number}", name=of.trial_name(trial), clients=clients, number=trial.repeat
    )
    if trial.outcome is not Outcome.FINISHED:
        name += f" ({gettext(trial.outcome.value)})"
    made = TrialSteps(
        trial.number,
        name,
        of.named[of.series_of(trial)].look.colour,
        width,
        begin_s,
        round(timeline.warmup_end_s, 1),
        tps,
        p99,
        _marks(trial, samples),
        [(round(dip.from_s, 1), round(dip.to_s, 1)) for dip in dips],
        low if width > 1 else None,
    )
    if samples is None:
        return made
    cloud = [
        replace(each, lines={name: _shorts(of) for name, of in each.lines.items()})
        for each in cloud_strips(samples, len(tps), made.skip)
    ]
    hz = trial.probe.waits_hz if trial.probe is not None else None
    return replace(_with_probe(made, samples), hz=hz or None, cloud=cloud or None)


def _step_means(timeline: Timeline, begin_s: float, width: float) -> tuple[Values, Values, Values]:
    """Return mean and lowest throughput, and highest p99 (ms), of each step; None if a step has no second."""
    step = ((timeline.from_s - begin_s + 1e-3) / width).astype(int)
    count = int(step.max()) + 1
    there = np.bincount(step, minlength=count)
    means = np.bincount(step, timeline.tps, count) / np.maximum(there, 1)
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(lowest, step, timeline.tps)
    known = ~np.isnan(timeline.p99_ns)
    np.maximum.at(highest, step[known], timeline.p99_ns[known] / 1e6)
    return (
        [_shorten(mean) if seconds else None for mean, seconds in zip(means.tolist(), there.tolist(), strict=True)],
        [_shorten(low) if seconds else None for low, seconds in zip(lowest.tolist(), there.tolist(), strict=True)],
        [_shorten(high) if math.isfinite(high) else None for high in highest.tolist()],
    )


def _with_probe(made: TrialSteps, samples: ProbeSamples) -> TrialSteps:
    count = len(made.tps)
    # a step without any sample is unknown, not idle
    sampled = {each.step for each in samples.series} | {each.step for each in samples.waits}
    idle = [0.0 if step in sampled or not samples.series else None for step in range(count)]
    waits: dict[str, list[float | None]] = {}
    for wait in samples.waits:
        if wait.step < count:
            sessions = waits.setdefault(wait_class(wait.wait_type, wait.wait), list(idle))
            sessions[wait.step] = (sessions[wait.step] or 0.0) + wait.sessions
    lines: dict[str, dict[str, list[float | None]]] = {"cpu": {}, "disk": {}, "wal": {}, "queries": {}}
    for each in samples.series:
        line = _line(each)
        if line is not None and each.step < count:
            group, name, factor = line
            lines[group].setdefault(name, [None] * count)[each.step] = factor * each.value
    return replace(
        made,
        cpu={name: _shorts(lines["cpu"][name]) for name in CPU if any(lines["cpu"].get(name, ()))} or None,
        disk={name: _shorts(values) for name, values in sorted(lines["disk"].items()) if any(values)} or None,
        waits={name: _shorts(waits[name]) for name in WAIT_CLASSES if name in waits} or None,
        queries={name: _shorts(values) for name, values in lines["queries"].items()} or None,
        wal=_shorts([each and round(each, 3) for each in lines["wal"]["WAL"]]) if lines["wal"] else None,
    )


def _line(each: SeriesStep) -> tuple[str, str, float] | None:
    if each.source == "cpu":
        return "cpu", each.metric, 100
    if each.source == "queries":
        return "queries", each.label, 1
    if each.metric == "utilisation":
        return "disk", f"{each.label}: {BUSY}", 100
    if each.source == "disk":
        return "disk", f"{each.label}: {each.metric}, MB/s", 1e-6
    return ("wal", "WAL", 1e-6) if each.source == "wal_position" else None


def _marks(trial: TrialRecord, samples: ProbeSamples | None) -> list[tuple[float, str]]:
    marks = [(round(event.began_s, 1), event.do) for event in trial.events if event.began_s is not None]
    begin_s = trial.load_begins_us / 1e6
    if samples is not None:
        marks += [
            (round(begin_s + each.step * samples.step_s, 1), gettext(MARKS[each.metric]))
            for each in samples.series
            if each.metric in MARKS and each.source in ("checkpoints", "tables") and each.value > 0
        ]
        # the probe's counters include them, too
        if not any(each.source == "checkpoints" for each in samples.series):
            marks += [
                (round(begin_s + each.at_s, 1), gettext(MARKS["timed" if each.reason == "time" else "requested"]))
                for each in samples.checkpoints
                if each.at_s >= 0
            ]
    return sorted(marks, key=lambda mark: mark[0])


def _shorts(values: Values) -> Values:
    return [None if value is None else _shorten(value) for value in values]


def _shorten(value: float) -> float | int:
    if value == 0 or not math.isfinite(value):
        return 0
    rounded = float(f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}")
    return int(rounded) if rounded == int(rounded) else rounded
