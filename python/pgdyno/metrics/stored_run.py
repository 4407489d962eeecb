"""Exports a stored run as OpenMetrics text: every figure with its timestamp."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from prometheus_client import Metric

from pgdyno.errors import StoreError, UsageError
from pgdyno.metrics.catalogue import Catalogue, Family, Lasting, lasting_labels
from pgdyno.metrics.text import Buckets, Labels, Sample, family_of, text_of, with_samples
from pgdyno.records import TrialRecord
from pgdyno.store import IntervalRow, RunData
from pgdyno.store.probe_queries import has_probe_tables
from pgdyno.store.safe_files import whole_of

PHASES = ("warm-up", "measure", "drain")
QUANTILES = {"0.5": "p50_ns", "0.95": "p95_ns", "0.99": "p99_ns", "0.999": "p999_ns"}
OUTCOMES = ("succeeded", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class _Trial:
    record: TrialRecord
    labels: dict[str, str]
    epoch_s: float
    """Start of the engine."""
    origin_s: float
    """Start of measuring."""
    rows: Sequence[IntervalRow]

    def seconds(self) -> dict[int, list[IntervalRow]]:
        """Return the rows of each second, one per script."""
        seconds: dict[int, list[IntervalRow]] = defaultdict(list)
        for row in self.rows:
            seconds[row.second].append(row)
        return seconds

    def end_s(self, row: IntervalRow) -> float:
        return round(self.origin_s + row.to_us / 1e6, 6)


def openmetrics(run: RunData, trial: int | None, catalogue: Catalogue) -> Iterator[bytes]:
    """Yield the text of trial number `trial`, or of all, in pieces. Raises UsageError."""
    numbers = {record.number for record in run.trials}
    if trial is not None and trial not in numbers:
        last = max(numbers, default=0)
        raise UsageError(f"run {run.folder.name} has no trial {trial}", hint=f"its trials are 1 to {last}")
    trials = [_trial(run, record) for record in run.trials if trial in (None, record.number)]
    return text_of(_families(run, trials, catalogue))


def _trial(run: RunData, record: TrialRecord) -> _Trial:
    events = {row.kind: row.detail for row in run.events(record.number) if row.kind in _TIMES}
    started = record.started_at.timestamp() if record.started_at else None
    epoch_us = whole_of("start", events.get("start", "{}"), "epoch_us")
    epoch_s = epoch_us / 1e6 if epoch_us is not None else started
    if epoch_s is None:
        raise StoreError(
            f"trial {record.number} has no start time", hint="imported results without times cannot be exported"
        )
    origin_us = whole_of("connected", events.get("connected", "{}"), "origin_us") or 0
    labels = {"run": run.folder.name, "trial": str(record.number), "target": record.target}
    origin_us -= record.load_begins_us
    return _Trial(record, labels, epoch_s, epoch_s + origin_us / 1e6, run.intervals(record.number))


_TIMES = ("start", "connected")


def _families(run: RunData, trials: Sequence[_Trial], catalogue: Catalogue) -> Iterator[Metric]:
    names = {trial.record.number: _script_names(trial.record) for trial in trials}
    yield family_of("pgdyno_trial", [_info(run, each) for each in trials])
    yield family_of("pgdyno_phase", _all_samples(trials, _phases))
    yield family_of("pgdyno_transactions", _transactions(trials, names))
    for name in ("clients", "in_flight"):
        yield family_of(f"pgdyno_{name}", _gauges(trials, name))
    yield family_of("pgdyno_latency_seconds", _histograms(run, trials, names))
    yield family_of("pgdyno_second_latency_seconds", _quantiles(trials, names))
    yield family_of("pgdyno_generator_cpu_seconds", _all_samples(trials, _generator))
    if not has_probe_tables(run):
        return
    yield family_of("pgdyno_active_sessions", _waits(run, trials))
    yield from _probe_metrics(run, trials, catalogue)


def _all_samples(trials: Sequence[_Trial], samples: Callable[[_Trial], Iterator[Sample]]) -> Iterator[Sample]:
    for trial in trials:
        yield from samples(trial)


def _info(run: RunData, trial: _Trial) -> Sample:
    point = trial.record.point
    scale = run.manifest.scale_of(point)
    details = {
        "slug": trial.record.slug,
        "workload": run.manifest.workload,
        "clients": str(point.clients) if point.clients else "",
        "protocol": point.protocol,
        "scale": "" if scale is None else f"{scale:.10g}",
        "repeat": str(trial.record.repeat),
        "outcome": trial.record.outcome.value,
    }
    return "_info", {**trial.labels, **details}, 1.0, round(trial.epoch_s, 6)


def _script_names(record: TrialRecord) -> dict[int, str]:
    return told_apart({script.id: script.name for script in record.summary.scripts} if record.summary else {})


def told_apart(names: Mapping[int, str]) -> dict[int, str]:
    """Return `names` of scripts by id; a name that several have, as a file that a plan names twice, with the script's
    place: one time series cannot have two values at one time.
    """
    times = Counter(names.values())
    return {id_: name if times[name] == 1 else f"{name} #{id_ + 1}" for id_, name in names.items()}


def _phases(trial: _Trial) -> Iterator[Sample]:
    for rows in trial.seconds().values():
        for phase in PHASES:
            labels = {**trial.labels, "pgdyno_phase": phase}
            yield "", labels, float(rows[0].phase == phase), trial.end_s(rows[0])


def _by_script(trial: _Trial) -> dict[int, list[IntervalRow]]:
    scripts: dict[int, list[IntervalRow]] = defaultdict(list)
    for row in trial.rows:
        scripts[row.script].append(row)
    return scripts


def _transactions(trials: Sequence[_Trial], names: dict[int, dict[int, str]]) -> Iterator[Sample]:
    for trial in trials:
        for script, rows in _by_script(trial).items():
            for outcome in OUTCOMES:
                labels = {**_script(trial, script, names), "outcome": outcome}
                total = 0.0
                for row in rows:
                    total += getattr(row, outcome)
                    yield "_total", labels, total, trial.end_s(row)


def _script(trial: _Trial, script: int, names: dict[int, dict[int, str]]) -> dict[str, str]:
    return {**trial.labels, "script": names[trial.record.number].get(script, str(script))}


def _gauges(trials: Sequence[_Trial], name: str) -> Iterator[Sample]:
    for trial in trials:
        if name == "clients" and trial.record.point.clients is None:
            # the source of an import does not report them
            continue
        for rows in trial.seconds().values():
            value = getattr(rows[0], name)
            if value is not None:
                yield "", trial.labels, float(value), trial.end_s(rows[0])


def _histograms(run: RunData, trials: Sequence[_Trial], names: dict[int, dict[int, str]]) -> Iterator[Sample]:
    for trial in trials:
        blobs = {(row.script, row.second): row.histogram for row in run.histograms(trial.record.number, totals=False)}
        for script, rows in _by_script(trial).items():
            if any(row.succeeded for row in rows) and not any((script, row.second) in blobs for row in rows):
                # an import without a distribution: buckets of no transaction would contradict their number
                continue
            buckets = Buckets()
            for row in rows:
                blob = blobs.get((script, row.second))
                if blob is not None:
                    buckets.add(blob, row.latency_sum_ns or 0.0)
                yield from buckets.samples(_script(trial, script, names), trial.end_s(row))


def _quantiles(trials: Sequence[_Trial], names: dict[int, dict[int, str]]) -> Iterator[Sample]:
    for trial in trials:
        for script, rows in _by_script(trial).items():
            for quantile, column in QUANTILES.items():
                labels = {**_script(trial, script, names), "quantile": quantile}
                for row in rows:
                    value = getattr(row, column)
                    if value is not None:
                        yield "", labels, value / 1e9, trial.end_s(row)


def _generator(trial: _Trial) -> Iterator[Sample]:
    total = 0.0
    for rows in trial.seconds().values():
        if rows[0].worker_cpu_us is not None:
            total += rows[0].worker_cpu_us / 1e6
            yield "_total", trial.labels, total, trial.end_s(rows[0])


_WAITS = """
    WITH looks AS (SELECT floor(wall_us / 1e6) + 1 AS at_s, count(DISTINCT t_us) AS looks FROM waits
                   WHERE trial = {trial} GROUP BY 1),
         kinds AS (SELECT DISTINCT backend_type, wait_type, coalesce(wait, '') AS wait FROM waits
                   WHERE trial = {trial} AND backend_type IS NOT NULL),
         sums AS (SELECT floor(wall_us / 1e6) + 1 AS at_s, backend_type, wait_type, coalesce(wait, '') AS wait,
                         sum(sessions) AS sessions FROM waits WHERE trial = {trial} GROUP BY ALL)
    SELECT backend_type, wait_type, wait, at_s, coalesce(sessions, 0) / looks
    FROM kinds CROSS JOIN looks LEFT JOIN sums USING (at_s, backend_type, wait_type, wait)
    ORDER BY ALL
"""


def _waits(run: RunData, trials: Sequence[_Trial]) -> Iterator[Sample]:
    """Yield waits by second of the wall clock; one without sessions is 0, so that its series ends in time."""
    for trial in trials:
        for backend, kind, event, at_s, sessions in run.query(_WAITS.format(trial=trial.record.number)).rows:
            labels = {**trial.labels, "backend_type": backend, "wait_type": kind or "", "wait": event}
            yield "", labels, float(sessions), float(at_s)


def _probe_metrics(run: RunData, trials: Sequence[_Trial], catalogue: Catalogue) -> Iterator[Metric]:
    numbers = ", ".join(str(trial.record.number) for trial in trials) or "NULL"
    labels = {trial.record.number: trial.labels for trial in trials}
    for (source,) in run.query(f"SELECT DISTINCT source FROM series WHERE trial IN ({numbers}) ORDER BY 1").rows:  # noqa: S608
        # one source at a time: all of a long run would not fit into memory
        rows = run.query(_SERIES.format(source=source.replace("'", "''"), numbers=numbers)).rows
        for metric, of_metric in groupby(rows, key=itemgetter(0)):
            family = catalogue.family(source, metric)
            samples = list(_points(of_metric, labels, family))
            yield with_samples(family.name, family.type, family.help, samples, family.unit)


_SERIES = """
    SELECT metric, trial, labels, wall_us, value FROM series WHERE source = '{source}' AND trial IN ({numbers})
    ORDER BY metric, trial, wall_us
"""


def _points(rows: Iterable[Sequence[Any]], labels: Mapping[int, Labels], family: Family) -> Iterator[Sample]:
    lines: dict[tuple[int, Lasting], list[tuple[float, float]]] = defaultdict(list)
    for _, trial, text, wall_us, value in rows:
        lines[trial, lasting_labels(json.loads(text))].append((round(wall_us / 1e6, 6), value * family.factor))
    is_counter = family.type == "counter"
    for (trial, kept), points in lines.items():
        total = 0.0
        for at_s, value in points:
            total = total + value if is_counter else value
            yield "_total" if is_counter else "", {**labels[trial], **dict(kept)}, total, at_s
