"""Throughput of several series at the same clients: a dot and its interval each, in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.analyse.scaling import ScalingPoint
from pgdyno.analyse.series import Series
from pgdyno.report import numbers
from pgdyno.report.charts.layout import GAP, Box, Layout, n_text
from pgdyno.report.charts.marker import marker
from pgdyno.report.charts.scaling import Named
from pgdyno.report.scale import Scale, linear_ticks
from pgdyno.report.svg import Drawing, line, shortened, text, text_width
from pgdyno.report.texts import gettext, gettext_noop

ROW = 34.0


def dots_chart(points: Sequence[ScalingPoint], named: Mapping[Series, Named], title: str, layout: Layout) -> Drawing:
    """Draw one row per series, with throughput from zero."""
    parts = [f"{named[point.summary.series].name}: {numbers.estimate(point.tps)}" for point in points]
    drawing = Drawing(
        layout.width,
        ROW * len(points) + 56,
        title,
        gettext("Transactions a second of each, with 95 % intervals. {parts}.", parts="; ".join(parts)),
    )
    longest = max(text_width(named[point.summary.series].name) for point in points) + 16
    left = min(longest, layout.width * 0.3)
    ticks = linear_ticks(max(point.tps.high for point in points), 5 if layout is not Layout.NARROW else 3)
    box = Box(left, 8, layout.width - 84, 8 + ROW * len(points))
    x = Scale(0, ticks[-1], box.left, box.right)
    for tick in ticks:
        drawing.add(line(x(tick), box.top, x(tick), box.bottom, "axis" if tick == 0 else "hair"))
        drawing.add(text(x(tick), box.bottom + 18, f"{tick:,.0f}", anchor="middle"))
    drawing.add(text(box.right, box.bottom + 38, gettext("transactions a second"), "quiet", "end"))
    room = box.right - text_width(gettext("transactions a second")) - GAP
    n = n_text([point.tps.n for point in points], gettext_noop("n = {count} trials"), room)
    drawing.add(text(0, box.bottom + 38, n, "quiet"))
    for at, point in enumerate(points):
        y = box.top + ROW * (at + 0.5)
        who = named[point.summary.series]
        low, high = x(point.tps.low), x(point.tps.high)
        drawing.add(text(left - 10, y + 4.5, shortened(who.name, left - 12), "name", "end"))
        if point.tps.half is not None:
            drawing.add(
                line(low, y, high, y, f"w t{who.look.colour}"),
                line(low, y - 4, low, y + 4, f"w t{who.look.colour}"),
                line(high, y - 4, high, y + 4, f"w t{who.look.colour}"),
            )
        interval = f", 95 %: {numbers.low_to_high(point.tps)}" if point.tps.half is not None else ""
        tooltip = f"{who.name}: {numbers.estimate(point.tps)} tps{interval}, n = {point.tps.n}"
        drawing.add(marker(x(point.tps.mean), y, who.look, tooltip, 5.0))
        drawing.add(text(box.right + 10, y + 4.5, numbers.estimate(point.tps), "name"))
    return drawing
