"""The figure of one point over many runs, and where it changed."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np

from pgdyno.analyse.comparison import LEAST_DELTA
from pgdyno.analyse.intervals import Array
from pgdyno.analyse.over_time.steady_state import segments_of, without_memory
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import Metric, usual_metric, value_of
from pgdyno.analyse.series import Series, label, varying_parameters
from pgdyno.records import Manifest, TargetRecord, TrialRecord
from pgdyno.records.rate_unit import TRANSACTIONS, rate_unit
from pgdyno.records.secret_values import kept_value
from pgdyno.records.tpcc_profile import UNNAMED_RELEASE, unused_item
from pgdyno.units import quantity

FEWEST_RUNS = 12
"""Required for change points."""
PENALTY = 7.0
"""Penalty of a change point, times log n. Runs depend on each other less than seconds do, so it is lower than
`steady`'s; with it, noise alone shows a change in fewer than 1 of 100 histories of 12 to 40 runs.
"""
NEIGHBOURS = 2
"""Runs on each side that tell what a run should be: of five runs, three have the level of the middle one."""
OUTLIER = 4.0
"""Spreads from the median of its neighbours beyond which a run counts as that far."""


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The figure of one run."""

    run: str
    """Name of its folder: a copy or a renamed folder still has the name of the original in its manifest."""
    started_at: datetime
    figure: float
    """Geometric mean over its trials, as `value_of`."""
    trials: int


@dataclass(frozen=True, slots=True)
class Change:
    at: int
    """Index of the first run with the new level."""
    before: float
    after: float
    """Geometric means of the levels on both sides."""

    @property
    def ratio(self) -> float:
        """Return after / before - 1."""
        return self.after / self.before - 1


@dataclass(frozen=True, slots=True)
class History:
    """One point of one target, workload and length of trials, over the runs that have it."""

    label: str
    workload: str
    metric: Metric
    points: tuple[HistoryPoint, ...]
    """In the order in which the runs began."""
    changes: tuple[Change, ...] | None
    """None below 12 runs, which are too few for change points."""


_Key = tuple[Metric, str, str, tuple[str, ...], str, Series, int | None]
"""Metric, workload, its load beyond its points, the load of an imported trial, length of trials, and point."""
_ROWS = 10_000
"""Rows of a table of sbtest by default."""


def load_words(manifest: Manifest) -> str:
    """Return the size of the dataset, and the parameters of the workload that make it another load."""
    workload = manifest.plan.get("workload") or {}
    factor, tables, rows = manifest.scale_factor, workload.get("tables") or 1, workload.get("table_size") or _ROWS
    parts = [f"scale factor {factor:g}"] if factor is not None else []
    parts += [f"{tables} tables"] if tables != 1 else []
    parts += [f"{rows} rows"] if rows != _ROWS else []
    if workload.get("name") == "tpcc":
        parts.append(_tpcc(str(workload.get("profile", UNNAMED_RELEASE)), str(workload.get("variant", "functions"))))
    dataset = workload.get("dataset")
    own = dataset if isinstance(dataset, dict) else {}
    parts += [f"data of {own['name']}"] if own else []
    groups = (own.get("variables"), workload.get("options"), workload.get("variables"))
    given = [item for group in groups for item in sorted((group or {}).items())]
    parts += [f"{name} {kept_value(name, str(value))}" for name, value in given]
    taken = manifest.fingerprint
    if taken is not None and taken.workload.get("capture"):
        # captures of one name are different loads
        parts.append(f"capture {str(taken.workload['capture'])[:8]}")
    parts += [f"pace {workload['pace']}"] if workload.get("replay") and workload.get("pace", 1) != 1 else []
    return "".join(f", {part}" for part in parts)


def _tpcc(profile: str, variant: str) -> str:
    """Return profile and variant; releases of HammerDB between which the server cannot tell are one profile."""
    if profile == "spec":
        return f"profile spec, {variant}"
    return f"profile hammerdb (an unused item {unused_item(profile, variant)}), {variant}"


def _server(target: TargetRecord) -> tuple[str, ...]:
    """Return what tells a server that was there before from others, or a database and a role on it."""
    identity = target.facts.identity if target.facts is not None else None
    return tuple(f"{name} {value}" for name, value in sorted((identity or {}).items()))


def told_of(trial: TrialRecord) -> tuple[str, ...]:
    """Return what the source of an imported trial says about its load besides its length, and what its rate counts."""
    if trial.imported is None:
        return ()
    load, item = trial.imported.load, trial.imported.unused_item
    parts = [f"{name} {value}" for name, value in sorted(load.items()) if name not in ("duration_s", "transactions")]
    parts += [f"an unused item {item}"] if item is not None else []
    unit = rate_unit(trial)
    return (*parts, *([unit] if unit != TRANSACTIONS else []))


def length_words(trial: TrialRecord) -> str:
    """Return the length of a trial; of an imported one in whole seconds, because tools print times that elapsed."""
    if trial.transactions is not None:
        return f", {quantity(trial.transactions, 'transaction')} per client"
    length_s = trial.duration_s
    if length_s is not None and trial.imported is not None:
        length_s = round(length_s) or length_s
    return f", {length_s:g} s" if length_s is not None else ""


def histories(runs: Mapping[str, RunSource], asked: Metric | None = None, *, fewest: int = 2) -> list[History]:
    """Return the history of every point that at least `fewest` of `runs` have, by folder name; in order of occurrence.

    Without a metric, each run is followed by the one by which it is compared.
    """
    found: dict[_Key, list[HistoryPoint]] = defaultdict(list)
    for folder, run in sorted(runs.items(), key=lambda each: each[1].manifest.started_at):
        figures: dict[_Key, list[float]] = defaultdict(list)
        load, metric = load_words(run.manifest), asked or usual_metric(run)
        servers = {each.name: _server(each) for each in run.manifest.targets}
        for trial in run.trials:
            # a trial of a duet ran on half of the processors, next to another load
            figure = value_of(trial, metric) if trial.duet is None else None
            if figure is not None:
                series = Series.from_point(trial.target, trial.point)
                told = (*told_of(trial), *servers.get(trial.target, ()))
                of = (metric, run.manifest.workload, load, told, length_words(trial))
                figures[*of, series, trial.point.clients].append(math.log(figure))
        for key, logs in figures.items():
            mean = math.exp(math.fsum(logs) / len(logs))
            found[key].append(HistoryPoint(folder, run.manifest.started_at, mean, len(logs)))
    kept = {key: points for key, points in found.items() if len(points) >= fewest}
    names = varying_parameters([series for *_, series, _ in kept])
    common = set.intersection(*(set(told) for _, _, _, told, *_ in kept)) if kept else set()
    made = []
    for (metric, workload, load, told, length, series, clients), points in kept.items():
        also = "".join(f", {each}" for each in told if each not in common)
        known = quantity(clients, "client") if clients else "clients unknown"
        name = f"{label(series, names)}, {known}{load}{also}{length}"
        changes = change_points([point.figure for point in points])
        made.append(History(name, workload, metric, tuple(points), changes))
    return made


def change_points(figures: Sequence[float]) -> tuple[Change, ...] | None:
    """Return where the level of `figures` changed by at least 1 %: PELT on their logarithms; None below 12 of them.

    Killick et al. 2012, squared error, penalty 7 s² log n, where s is the spread from run to run without the steps; a
    level is at least three runs long. A run, or two, far from their neighbours are not a level, and count as 4 s from
    the median of five. Levels that noise explains, if it resembles that of the run before, are one, as in
    `steady_state`. It does not test two levels; `compare` does, on the trials of two runs.
    """
    if len(figures) < FEWEST_RUNS:
        return None
    logs = _without_outliers(np.log(np.asarray(figures, dtype=np.float64)))
    # segments_of takes the least spread from the median, which is 1 here: 0.1 % of throughput
    median = float(np.median(logs))
    values = logs - median + 1
    segments = without_memory(values, segments_of(values, PENALTY))
    return tuple(
        Change(before.end, math.exp(before.level + median - 1), math.exp(after.level + median - 1))
        for before, after in pairwise(segments)
        if abs(after.level - before.level) >= math.log1p(LEAST_DELTA)
    )


def _without_outliers(logs: Array) -> Array:
    differences = np.diff(logs)
    spread = 1.4826 * float(np.median(np.abs(differences - np.median(differences)))) / math.sqrt(2)
    reach = OUTLIER * max(spread, 0.001)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(logs, NEIGHBOURS, mode="edge"), 2 * NEIGHBOURS + 1)
    middle = np.median(windows, axis=1)
    return np.asarray(np.clip(logs, middle - reach, middle + reach))
