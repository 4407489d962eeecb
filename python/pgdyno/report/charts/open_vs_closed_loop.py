"""p99 by throughput: open loop vs closed loop."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.report import numbers
from pgdyno.report.charts.labels import LineEnd, marker, name_ends, room_for
from pgdyno.report.charts.latency import LEAST_MS, TRANSACTIONS
from pgdyno.report.charts.layout import CHART_HEIGHT, Box, Layout, label_column, n_title, tick_name, x_title, y_axis
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import Drawing, Scale, line, linear_ticks, log_ticks, path, text
from pgdyno.report.translation import gettext


@dataclass(frozen=True, slots=True)
class LoopPoint:
    tps: float
    p99_ms: float
    told: str
    transactions: int


@dataclass(frozen=True, slots=True)
class LoopLine:
    """A target under one kind of load, by throughput."""

    name: str
    short_name: str
    """For narrow charts."""
    look: Look
    points: Sequence[LoopPoint]


def loops_chart(lines: Sequence[LoopLine], title: str, layout: Layout) -> Drawing:
    """Draw p99 (log) by throughput (from zero); a line per target and kind of load."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(lines))
    points = [point for each in lines for point in each.points]
    latencies = [max(point.p99_ms, LEAST_MS) for point in points]
    ticks = log_ticks(min(latencies), max(latencies))
    names = [each.name if layout is not Layout.NARROW else each.short_name for each in lines]
    room = room_for(names)
    box = Box(label_column([tick_name(tick) for tick in ticks]), 30, layout.width - room, CHART_HEIGHT - 30)
    across = linear_ticks(max(point.tps for point in points), 6 if layout is not Layout.NARROW else 3)
    x = Scale(0, across[-1], box.left, box.right)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    y_axis(drawing, box, y, ticks, tick_name, gettext("p99, ms (log)"))
    n_title(drawing, [point.transactions for point in points], TRANSACTIONS, gettext("p99, ms (log)"))
    drawing.add(line(box.left, box.bottom, box.right, box.bottom, "axis"))
    for tick in across:
        drawing.add(text(x(tick), box.bottom + 19, tick_name(tick), anchor="middle"))
    x_title(drawing, box, gettext("transactions a second"))
    ends = []
    for each, name in zip(lines, names, strict=True):
        places = [(x(point.tps), y(max(point.p99_ms, LEAST_MS))) for point in each.points]
        drawing.add(path(places, each.look.line))
        for point, place in zip(each.points, places, strict=True):
            tps, p99 = numbers.round_text(point.tps), numbers.round_text(point.p99_ms)
            hint = f"{each.name}, {point.told}: {tps} tps, p99 {p99} ms"
            drawing.add(marker(*place, each.look, hint, 4.0))
        ends.append(LineEnd(*places[-1], each.look, name))
    name_ends(drawing, ends, box, room)
    return drawing


def _description(lines: Sequence[LoopLine]) -> str:
    parts = [
        gettext(
            "{percentile} of {name} from {low} to {high} ms",
            percentile="p99",
            name=each.name,
            low=numbers.round_text(each.points[0].p99_ms),
            high=numbers.round_text(each.points[-1].p99_ms),
        )
        for each in lines
    ]
    return gettext("p99 by throughput, logarithmic. {parts}.", parts="; ".join(parts))
