"""The latency heatmap, and open loop against closed loop."""

from collections.abc import Sequence
from dataclasses import replace

from pgdyno.analyse.over_time.timeline import latency_heatmap
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.series import Series, label
from pgdyno.analyse.summary import PointSummary
from pgdyno.report import numbers
from pgdyno.report.charts.heatmap import COLUMNS, heatmap_chart
from pgdyno.report.charts.open_vs_closed_loop import LoopLine, LoopPoint, loops_chart
from pgdyno.report.charts.page_figures import Figure, drawn_figure
from pgdyno.report.charts.palette import MARKERS, Look
from pgdyno.report.report_content import Digest, median_trial
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each

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
        "Trial {number} by time, without warm-up; n = {count}", number=trial.number, count=f"{heat.counts.sum():,}"
    )
    table = Table(caption, headings, tuple(rows))
    return drawn_figure(f"heat-{at}", title, lambda layout: heatmap_chart(heat, look, title, layout)), table


NEAR = 0.1
"""Throughputs that differ by at most this ratio are comparable."""

_Load = tuple[Series, bool]
"""A series without its rate, and whether the load is an open loop."""


def loops_figure(of: Digest) -> tuple[Figure, Table] | None:
    """Return None without a point in an open loop, or without a second point to compare; also of different groups."""
    points = [point for point in of.points if _is_drawn(point)]
    if len(points) < 2 or of.has_groups or not any(_is_open(point) for point in points):
        return None
    loads: dict[_Load, list[PointSummary]] = {}
    for point in points:
        loads.setdefault((replace(point.series, rate=None), _is_open(point)), []).append(point)
    for there in loads.values():
        there.sort(key=_tps)
    title = _title(loads)
    lines = [_line(of, load, there, at) for at, (load, there) in enumerate(loads.items())]
    figure = drawn_figure("loops", title, lambda layout: loops_chart(lines, title, layout))
    return figure, _table(of, loads)


def is_closed(of: Digest) -> bool:
    """Return whether every point is known to be a closed loop."""
    has_rate = any(_is_open(point) for point in of.points) or any(
        phase.get("rate") is not None for phase in of.manifest.plan.get("phase") or ()
    )
    return bool(of.points) and of.manifest.imported is None and not has_rate


def _is_drawn(point: PointSummary) -> bool:
    return point.tps is not None and point.latency is not None and point.latency.p99 is not None


def _is_open(point: PointSummary) -> bool:
    return point.point.rate is not None


def _tps(point: PointSummary) -> float:
    return point.tps.mean if point.tps is not None else 0.0


def _p99_ns(point: PointSummary) -> float:
    return float(point.latency.p99 or 0) if point.latency is not None else 0.0


def _loop(is_open: bool) -> str:
    return gettext("open loop") if is_open else gettext("closed loop")


def _series_name(of: Digest, series: Series) -> str:
    return label(series, [name for name in of.parameters if name != "rate" and name not in of.following])


def _line(of: Digest, load: _Load, points: Sequence[PointSummary], at: int) -> LoopLine:
    series, is_open = load
    look = Look(of.named[points[0].series].look.colour, at % len(MARKERS))
    name = gettext("{name}, {loop}", name=_series_name(of, series), loop=_loop(is_open))
    drawn = [
        LoopPoint(
            _tps(point), _p99_ns(point) / 1e6, _load_words(point), point.histogram.count if point.histogram else 0
        )
        for point in points
    ]
    return LoopLine(name, _loop(is_open), look, drawn)


def _load_words(point: PointSummary) -> str:
    clients = numbers.clients(point.clients)
    if point.point.rate is None:
        return clients
    return gettext("{clients}, rate {rate}", clients=clients, rate=f"{point.point.rate:,.10g}")


def _title(loads: dict[_Load, list[PointSummary]]) -> str:
    opened = [point for (_, is_open), points in loads.items() if is_open for point in points]
    closed = [point for (_, is_open), points in loads.items() if not is_open for point in points]
    if not closed:
        low, high = min(opened, key=_tps), max(opened, key=_tps)
        return gettext(
            "In an open loop, p99 is {low} ms at {fewest} transactions a second and {high} ms at {most}",
            low=numbers.ms(_p99_ns(low)),
            fewest=numbers.round_text(_tps(low)),
            high=numbers.ms(_p99_ns(high)),
            most=numbers.round_text(_tps(high)),
        )
    pairs = [(one, other) for one in opened for other in closed if abs(_tps(one) - _tps(other)) <= NEAR * _tps(other)]
    if not pairs:
        return gettext("p99 in an open and in a closed loop, at different throughputs")
    one, other = max(pairs, key=lambda pair: (_tps(pair[0]), -abs(_tps(pair[0]) - _tps(pair[1]))))
    return gettext(
        "At about {tps} transactions a second, p99 is {open} ms in an open loop and {closed} ms in a closed loop",
        tps=numbers.round_text(_tps(one), 2),
        open=numbers.ms(_p99_ns(one)),
        closed=numbers.ms(_p99_ns(other)),
    )


def _table(of: Digest, loads: dict[_Load, list[PointSummary]]) -> Table:
    rows = []
    for (series, is_open), points in loads.items():
        for point in points:
            latency = point.latency
            assert latency is not None
            rows.append(
                (
                    _series_name(of, series),
                    _loop(is_open),
                    numbers.format_count(point.clients or None),
                    f"{point.point.rate:,.10g}" if point.point.rate is not None else numbers.NOTHING,
                    numbers.estimate(point.tps),
                    numbers.ms(latency.p50),
                    numbers.ms(latency.p99),
                    numbers.ms(latency.p999),
                    f"{point.histogram.count:,}" if point.histogram is not None else numbers.NOTHING,
                )
            )
    headings = (*gettext_each("series", "loop", "clients", "rate"), "tps", "p50, ms", "p99, ms", "p99.9, ms")
    caption = gettext("Latency by throughput; in an open loop, it counts from the intended start of a transaction")
    return Table(caption, (*headings, gettext("transactions")), tuple(rows), 2)
