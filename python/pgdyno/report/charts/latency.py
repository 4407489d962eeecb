"""Latency percentiles by clients, and the percentile spectrum."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.histogram import LatencyHistogram, SpectrumPoint, axis_of, spectrum
from pgdyno.analyse.series import Series
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import Latency
from pgdyno.report import numbers
from pgdyno.report.charts.labels import MOST_ENDS, LineEnd, marker, name_ends, room_for
from pgdyno.report.charts.layout import CHART_HEIGHT, Box, Layout, label_column, n_title, tick_name, x_title, y_axis
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.scaling import Named, clients_axis, clients_scale
from pgdyno.report.charts.svg import Drawing, Scale, line, log_ticks, path, text, text_width
from pgdyno.report.translation import gettext, gettext_noop

PERCENTILES: Sequence[tuple[str, Callable[[Latency], int | None]]] = (
    ("p50", lambda latency: latency.p50),
    ("p95", lambda latency: latency.p95),
    ("p99", lambda latency: latency.p99),
)
TRANSACTIONS = gettext_noop("n = {count} transactions a point")
LEAST_MS = 1e-4
"""Latencies of zero are drawn as this: a log axis has no zero."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One percentile of one series: (clients, ms)."""

    name: str
    look: Look
    points: Sequence[tuple[int, float]]


def latency_drawn(point: PointSummary) -> bool:
    """Return whether `point` has every percentile of the chart: imported ones seldom do."""
    return point.latency is not None and all(of(point.latency) is not None for _, of in PERCENTILES)


def latency_chart(
    points: Sequence[PointSummary], named: Mapping[Series, Named], title: str, layout: Layout, least: float = 0.0
) -> Drawing:
    """Draw p50, p95 and p99 (log) by clients (log2) of a single series; for several, the p99 of each.

    `least` is the least room for the axis' labels.
    """
    there = [(point, point.latency) for point in points if point.latency is not None]
    lines = {name: _lines(there, named, of) for name, of in PERCENTILES}
    every = [value for group in lines.values() for each in group for _, value in each.points]
    clients = [point.clients or 0 for point, _ in there]
    counts = [point.histogram.count for point, _ in there if point.histogram is not None]
    ticks = log_ticks(min(every), max(every))
    left = max(least, label_column([tick_name(tick) for tick in ticks]))
    if len({point.series for point, _ in there}) == 1:
        drawing = _one_panel(lines, ticks, clients, left, title, layout)
    else:
        drawing = _draw_several(lines["p99"], clients, left, title, layout)
    if counts:
        n_title(drawing, counts, TRANSACTIONS, gettext("latency, ms (log)"))
    return drawing


def _lines(
    there: Sequence[tuple[PointSummary, Latency]], named: Mapping[Series, Named], of: Callable[[Latency], int | None]
) -> list[_Line]:
    lines = []
    for series in dict.fromkeys(point.series for point, _ in there):
        values = [
            (point.clients or 0, max((of(latency) or 0) / 1e6, LEAST_MS))
            for point, latency in there
            if point.series == series
        ]
        lines.append(_Line(named[series].name, named[series].look, values))
    return lines


def _one_panel(
    lines: Mapping[str, Sequence[_Line]],
    ticks: Sequence[float],
    clients: Sequence[int],
    left: float,
    title: str,
    layout: Layout,
) -> Drawing:
    """Draw percentiles of one series, told apart by dash and marker, each named at its end."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(lines))
    room = room_for(list(lines))
    box = Box(left, 30, layout.width - room, CHART_HEIGHT - 30)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    x = clients_scale(clients, box)
    y_axis(drawing, box, y, ticks, tick_name, gettext("latency, ms (log)"))
    clients_axis(drawing, box, x, clients)
    named = [(name, group[0]) for name, group in lines.items()]
    for shape, (name, each) in enumerate(named):
        _draw(drawing, each, Look(each.look.colour, shape), x, y, name)
    ends = [LineEnd(x(each.points[-1][0]), y(each.points[-1][1]), each.look, name) for name, each in named]
    name_ends(drawing, ends, box, room)
    return drawing


def _draw_several(lines: Sequence[_Line], clients: Sequence[int], left: float, title: str, layout: Layout) -> Drawing:
    """Draw the p99 of every series, each named at its end if there is room, as in the throughput chart above."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description({"p99": lines}))
    values = [value for each in lines for _, value in each.points]
    ticks = log_ticks(min(values), max(values))
    names = [each.name for each in lines] if layout is not Layout.NARROW and len(lines) <= MOST_ENDS else []
    room = room_for(names) if names else 8.0
    box = Box(left, 30, layout.width - room, CHART_HEIGHT - 30)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    x = clients_scale(clients, box)
    y_axis(drawing, box, y, ticks, tick_name, gettext("p99, ms (log)"))
    clients_axis(drawing, box, x, clients)
    for each in lines:
        _draw(drawing, each, each.look, x, y, gettext("{percentile} of {name}", percentile="p99", name=each.name))
    if names:
        ends = [LineEnd(x(each.points[-1][0]), y(each.points[-1][1]), each.look, each.name) for each in lines]
        name_ends(drawing, ends, box, room)
    return drawing


def _draw(drawing: Drawing, each: _Line, look: Look, x: Scale, y: Scale, name: str) -> None:
    places = [(x(clients), y(value)) for clients, value in each.points]
    drawing.add(path(places, look.line))
    radius = 4.0 if len(places) <= 30 else 2.5
    for (clients, value), (at_x, at_y) in zip(each.points, places, strict=True):
        tooltip = f"{name}, {numbers.clients(clients)}: {numbers.round_text(value)} ms"
        drawing.add(marker(at_x, at_y, look, tooltip, radius))


def _description(lines: Mapping[str, Sequence[_Line]]) -> str:
    parts = [
        gettext(
            "{percentile} of {name} from {low} to {high} ms",
            percentile=name,
            name=each.name,
            low=numbers.round_text(each.points[0][1]),
            high=numbers.round_text(each.points[-1][1]),
        )
        for name, group in lines.items()
        for each in group
    ]
    return gettext("Latency by clients, logarithmic. {parts}.", parts="; ".join(parts))


TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)


@dataclass(frozen=True, slots=True)
class SpectrumLine:
    """One point's spectrum with its name and look."""

    name: str
    label: str
    """Its name without the clients if they are the same in all."""
    short_name: str
    """For narrow charts."""
    look: Look
    histogram: LatencyHistogram


def spectrum_chart(lines: Sequence[SpectrumLine], title: str, layout: Layout) -> Drawing:
    """Draw latency (log) by percentile; each of `lines` ends at its largest latency."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _spectrum_description(lines))
    curves = [[_in_ms(point) for point in spectrum(each.histogram)] for each in lines]
    every = [value for curve in curves for _, value in curve]
    furthest = max(axis for curve in curves for axis, _ in curve if math.isfinite(axis))
    # the largest latency is at 100 %, which this axis never reaches: draw it half a step after the last
    end = max(furthest, axis_of(90)) + 0.25
    names = [each.label if layout is not Layout.NARROW else each.short_name for each in lines]
    room = room_for(names)
    ticks = log_ticks(min(every), max(every))
    left = label_column([tick_name(tick) for tick in ticks])
    box = Box(left, 30, layout.width - room, CHART_HEIGHT - 30)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    x = Scale(0, end, box.left, box.right)
    y_axis(drawing, box, y, ticks, tick_name, gettext("latency, ms (log)"))
    _percentile_axis(drawing, box, x, furthest)
    n_title(drawing, [each.histogram.count for each in lines], TRANSACTIONS, gettext("latency, ms (log)"))
    ends = []
    for each, name, curve in zip(lines, names, curves, strict=True):
        places = [(x(min(axis, end)), y(value)) for axis, value in curve]
        drawing.add(path(places, each.look.line))
        largest = gettext("{name}: largest {ms} ms", name=each.name, ms=numbers.round_text(curve[-1][1]))
        ends.append(LineEnd(*places[-1], each.look, name, largest))
    name_ends(drawing, ends, box, room)
    return drawing


def _in_ms(point: SpectrumPoint) -> tuple[float, float]:
    return point.axis, max(point.latency_ns / 1e6, LEAST_MS)


def _percentile_axis(drawing: Drawing, box: Box, x: Scale, furthest: float) -> None:
    # with little room, drop 50 first, because it is nearest to 0; "max" is at the end
    taken = [(x(x.high), text_width(gettext("max")))]
    for tick in sorted((tick for tick in TICKS if axis_of(tick) <= furthest), key=lambda tick: (tick == 50, tick)):
        place, width = x(axis_of(tick)), text_width(f"{tick:g}")
        drawing.add(line(place, box.top, place, box.bottom, "hair"))
        if all(abs(place - other) >= (width + other_width) / 2 + 6 for other, other_width in taken):
            taken.append((place, width))
            drawing.add(text(place, box.bottom + 19, f"{tick:g}", anchor="middle"))
    drawing.add(line(box.left, box.bottom, box.right, box.bottom, "axis"))
    drawing.add(text(x(x.high), box.bottom + 19, gettext("max"), anchor="middle"))
    x_title(drawing, box, gettext("percentile (HDR axis)"))


def _spectrum_description(lines: Sequence[SpectrumLine]) -> str:
    parts = [
        gettext(
            "{name}: p50 {p50}, p99 {p99}, largest {largest} ms",
            name=each.name,
            p50=numbers.ms(each.histogram.percentile_ns(50)),
            p99=numbers.ms(each.histogram.percentile_ns(99)),
            largest=numbers.ms(each.histogram.max_ns),
        )
        for each in lines
    ]
    return gettext("Latency by percentile, logarithmic on both axes. {parts}.", parts="; ".join(parts))
