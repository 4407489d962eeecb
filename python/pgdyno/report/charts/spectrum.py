"""The percentile spectrum: latency by percentile on the HDR axis, a line per point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.histogram import LatencyHistogram
from pgdyno.analyse.latency import SpectrumPoint, axis_of, spectrum
from pgdyno.report import numbers
from pgdyno.report.charts.endnames import LineEnd, name_ends, room_for
from pgdyno.report.charts.latency import LEAST_MS, TRANSACTIONS, tick_ms
from pgdyno.report.charts.layout import CHART_HEIGHT, Box, Layout, label_column, n_title, x_title, y_axis
from pgdyno.report.palette import Look
from pgdyno.report.scale import Scale, log_ticks
from pgdyno.report.svg import Drawing, line, path, text, text_width
from pgdyno.report.texts import gettext

TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)


@dataclass(frozen=True, slots=True)
class SpectrumLine:
    """One point's spectrum with its name and look."""

    name: str
    short_name: str
    """For narrow charts."""
    look: Look
    histogram: LatencyHistogram


def spectrum_chart(lines: Sequence[SpectrumLine], title: str, layout: Layout) -> Drawing:
    """Draw latency (log) by percentile; each of `lines` ends at its largest latency."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(lines))
    curves = [[_in_ms(point) for point in spectrum(each.histogram)] for each in lines]
    every = [value for curve in curves for _, value in curve]
    furthest = max(axis for curve in curves for axis, _ in curve if math.isfinite(axis))
    # the largest latency is at 100 %, which this axis never reaches: draw it half a step after the last
    end = max(furthest, axis_of(90)) + 0.25
    names = [each.name if layout is not Layout.NARROW else each.short_name for each in lines]
    room = room_for(names)
    ticks = log_ticks(min(every), max(every))
    left = label_column([tick_ms(tick) for tick in ticks])
    box = Box(left, 30, layout.width - room, CHART_HEIGHT - 30)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    x = Scale(0, end, box.left, box.right)
    y_axis(drawing, box, y, ticks, tick_ms, gettext("latency, ms (log)"))
    _percentile_axis(drawing, box, x, furthest)
    n_title(drawing, [each.histogram.count for each in lines], TRANSACTIONS, gettext("latency, ms (log)"))
    ends = []
    for each, name, curve in zip(lines, names, curves, strict=True):
        places = [(x(min(axis, end)), y(value)) for axis, value in curve]
        drawing.add(path(places, each.look.line))
        largest = gettext("{name}: largest {ms} ms", name=each.name, ms=numbers.rounded(curve[-1][1]))
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


def _description(lines: Sequence[SpectrumLine]) -> str:
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
