"""The heatmap of the trial that stands for a curve's peak."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from pgdyno.analyse.histogram import LatencyHistogram, merge
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.source import MEASURE, WARM_UP
from pgdyno.records import TrialRecord
from pgdyno.report import numbers
from pgdyno.report.charts.heatmap import COLUMNS, ROWS, Heat, heatmap_chart
from pgdyno.report.charts.latency import LEAST_MS
from pgdyno.report.digest import Digest
from pgdyno.report.figures import Figure, drawn_figure
from pgdyno.report.sections.four import median_trial
from pgdyno.report.tables import Table

MOST_CURVES = 2
FEWEST_SECONDS = 3


def heat_figures(of: Digest) -> list[tuple[Figure, Table]]:
    """A heatmap and its table for each of the highest curves; none where no histogram of seconds was kept."""
    ordered = sorted(of.curves, key=lambda curve: -curve.peak.tps.mean)[:MOST_CURVES]
    made = [_figure(of, curve, at) for at, curve in enumerate(ordered)]
    return [each for each in made if each is not None]


def _figure(of: Digest, curve: ScalingCurve, at: int) -> tuple[Figure, Table] | None:
    trial = median_trial(of, curve.peak.summary)
    seconds = _seconds(of, trial)
    if len(seconds) < FEWEST_SECONDS:
        return None
    heat, steps = _heat(seconds)
    look = of.named[curve.series].look
    p99 = [(step.percentile_ns(99), at_s) for at_s, step in zip(heat.seconds, steps, strict=False) if step is not None]
    worst, when = max(p99)
    best = min(p99)[0]
    width = heat.seconds[1] - heat.seconds[0]
    title = (
        f"{of.point_name(curve.peak.summary)}, trial {trial.number}: p99 lies between {numbers.ms(best)} and "
        f"{numbers.ms(worst)} ms by {'second' if width < 1.5 else f'steps of {width:.0f} s'}, worst at {when:.0f} s"
    )
    rows = [
        (
            f"{at_s:.0f}",
            f"{step.count:,}",
            *(numbers.ms(value) for value in step.percentiles_ns((50, 90, 99))),
            numbers.ms(step.max_ns),
        )
        for at_s, step in zip(heat.seconds, steps, strict=False)
        if step is not None
    ]
    headings = ("from, s", "transactions", "p50, ms", "p90, ms", "p99, ms", "largest, ms")
    table = Table(f"Trial {trial.number} by time, warm-up counted; n = {heat.counts.sum():,}", headings, tuple(rows))
    return drawn_figure(f"heat-{at}", title, lambda layout: heatmap_chart(heat, look, title, layout)), table


def _seconds(of: Digest, trial: TrialRecord) -> list[tuple[float, float, list[bytes]]]:
    """Begin, end and blobs of each second of the trial."""
    blobs: dict[int, list[bytes]] = defaultdict(list)
    for row in of.run.histograms(trial.number, totals=False):
        blobs[row.second].append(row.histogram)
    bounds = {
        row.second: (row.from_us / 1e6, row.to_us / 1e6)
        for row in of.run.intervals(trial.number)
        if row.phase in (MEASURE, WARM_UP)
    }
    if not blobs:
        return []
    return [(*bounds[second], blobs.get(second, [])) for second in sorted(bounds)]


def _heat(seconds: list[tuple[float, float, list[bytes]]]) -> tuple[Heat, list[LatencyHistogram | None]]:
    each = max(1, math.ceil(len(seconds) / COLUMNS))
    groups = [seconds[at : at + each] for at in range(0, len(seconds), each)]
    steps = [merge(blob for _, _, blobs in group for blob in blobs) for group in groups]
    there = [step for step in steps if step is not None]
    low = max(min((int(step.highest_ns[0]) for step in there), default=1), 1)
    high = max(max((step.max_ns for step in there), default=10), low * 2)
    edges = np.geomspace(max(low * 0.98 / 1e6, LEAST_MS), high * 1.02 / 1e6, ROWS + 1)
    counts = np.zeros((len(groups), ROWS), dtype=np.int64)
    for at, step in enumerate(steps):
        if step is not None:
            places = np.clip(np.searchsorted(edges, step.highest_ns / 1e6, side="right") - 1, 0, ROWS - 1)
            np.add.at(counts[at], places, step.counts)
    ends = [groups[0][0][0], *(group[-1][1] for group in groups)]
    return Heat(ends, edges, counts), steps
