"""The heatmap of the trial that represents a curve's peak."""

from __future__ import annotations

from pgdyno.analyse.heatmap import latency_heatmap
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.report import numbers
from pgdyno.report.charts.heatmap import COLUMNS, heatmap_chart
from pgdyno.report.digest import Digest
from pgdyno.report.figures import Figure, drawn_figure
from pgdyno.report.sections.four import median_trial
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext, gettext_each

MOST_CURVES = 2
FEWEST_SECONDS = 3


def heat_figures(of: Digest) -> list[tuple[Figure, Table]]:
    """Return a heatmap and its table for each of the highest curves; none without histograms of seconds."""
    ordered = sorted(of.curves, key=lambda curve: -curve.peak.tps.mean)[:MOST_CURVES]
    made = [_figure(of, curve, at) for at, curve in enumerate(ordered)]
    return [each for each in made if each is not None]


def _figure(of: Digest, curve: ScalingCurve, at: int) -> tuple[Figure, Table] | None:
    trial = median_trial(of, curve.peak.summary)
    heat = latency_heatmap(of.run, trial.number, COLUMNS)
    if heat is None or heat.end_s - heat.seconds[0] < FEWEST_SECONDS:
        return None
    look = of.named[curve.series].look
    there = [(at_s, step) for at_s, step in zip(heat.seconds, heat.steps, strict=True) if step is not None]
    p99 = [(step.percentile_ns(99), at_s) for at_s, step in there]
    worst, when = max(p99)
    width = heat.seconds[1] - heat.seconds[0] if len(heat.seconds) > 1 else heat.end_s
    told = {
        "point": of.point_name(curve.peak.summary),
        "number": trial.number,
        "low": numbers.ms(min(p99)[0]),
        "high": numbers.ms(worst),
        "when": f"{when:.0f}",
    }
    if width < 1.5:
        title = gettext(
            "{point}, trial {number}: p99 lies between {low} and {high} ms by second, worst at {when} s", **told
        )
    else:
        title = gettext(
            "{point}, trial {number}: p99 lies between {low} and {high} ms by steps of {width} s, worst at {when} s",
            width=f"{width:.0f}",
            **told,
        )
    rows = [
        (
            f"{at_s:.0f}",
            f"{step.count:,}",
            *(numbers.ms(value) for value in step.percentiles_ns((50, 90, 99))),
            numbers.ms(step.max_ns),
        )
        for at_s, step in there
    ]
    headings = (*gettext_each("from, s", "transactions"), "p50, ms", "p90, ms", "p99, ms", gettext("max, ms"))
    caption = gettext(
        "Trial {number} by time, including warm-up; n = {count}", number=trial.number, count=f"{heat.counts.sum():,}"
    )
    table = Table(caption, headings, tuple(rows))
    return drawn_figure(f"heat-{at}", title, lambda layout: heatmap_chart(heat, look, title, layout)), table
