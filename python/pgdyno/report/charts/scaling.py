"""Throughput by clients: lines with intervals, peak and knee; dots where several series share the same clients."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pgdyno.analyse.scaling import ScalingCurve, ScalingPoint
from pgdyno.analyse.series import Series
from pgdyno.report import numbers
from pgdyno.report.charts.labels import MOST_ENDS, LineEnd, Placer, Rect, marker, name_ends, room_for, whisker
from pgdyno.report.charts.layout import (
    CHART_HEIGHT,
    GAP,
    Box,
    Layout,
    key_line,
    label_column,
    n_text,
    n_title,
    tick_name,
    x_title,
    y_axis,
)
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import (
    Drawing,
    Scale,
    client_ticks,
    element,
    line,
    linear_ticks,
    path,
    text,
    text_width,
    told_apart,
)
from pgdyno.report.translation import gettext, gettext_noop

TRIALS = gettext_noop("n = {count} trials a point")
Fitted = Mapping[Series, Sequence[tuple[float, float]]]
"""The fitted law of some curves: clients and throughput."""
NO_FITTED: Fitted = MappingProxyType({})
KEY = gettext_noop("dashed: fitted scalability law")


@dataclass(frozen=True, slots=True)
class Named:
    """Name and look of a series, which every chart needs."""

    name: str
    look: Look


def scaling_chart(
    curves: Sequence[ScalingCurve],
    named: Mapping[Series, Named],
    title: str,
    layout: Layout,
    fitted: Fitted = NO_FITTED,
    sides: tuple[float, float] = (0.0, 8.0),
) -> Drawing:
    """Draw throughput (from zero) by clients (log2) of every curve, each with at least one point.

    The fitted law is a line without a band: its interval is of another kind than a point's, narrower because it uses
    all points and assumes that the law holds. `sides` is the least room left and right of the axes.
    """
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(curves, named))
    ticks = linear_ticks(max(point.tps.high for curve in curves for point in curve.points))
    is_named = 1 < len(curves) <= MOST_ENDS and layout is not Layout.NARROW
    names = [named[curve.series].name for curve in curves] if is_named else []
    room = max(room_for(names) if names else 0.0, sides[1])
    left = max(sides[0], label_column([tick_name(tick) for tick in ticks]))
    box = Box(left, 30, layout.width - room, CHART_HEIGHT - 30)
    y = Scale(0, ticks[-1], box.bottom, box.top)
    x = clients_scale([point.clients for curve in curves for point in curve.points], box)
    y_axis(drawing, box, y, ticks, tick_name, gettext("transactions a second"))
    clients_axis(drawing, box, x, [point.clients for curve in curves for point in curve.points])
    n_title(
        drawing, [point.tps.n for curve in curves for point in curve.points], TRIALS, gettext("transactions a second")
    )
    placer = Placer(Rect(box.left, box.top - 14, layout.width, box.bottom))
    for curve in curves:
        if fitted.get(curve.series):
            _law(drawing, fitted[curve.series], named[curve.series], x, y, placer)
    for curve in curves:
        _curve(drawing, curve, named[curve.series], x, y, placer)
    if len(curves) == 1:
        _annotate(drawing, curves[0], x, y, box, placer)
        if any(fitted.values()):
            drawing.add(
                text(
                    box.left,
                    key_line(drawing, box, text_width(gettext(KEY)), gettext("clients (log2)")),
                    gettext(KEY),
                    "quiet",
                )
            )
    else:
        for curve in curves:
            _ring(drawing, curve, named[curve.series].look, x, y)
        _marks_key(drawing, box, knee=any(curve.knee is not None for curve in curves))
    if names:
        _names(drawing, curves, named, x, y, box, room)
    return drawing


def _law(
    drawing: Drawing, line_of: Sequence[tuple[float, float]], named: Named, x: Scale, y: Scale, placer: Placer
) -> None:
    places = [(x(clients), y(tps)) for clients, tps in line_of]
    hint = element("title", gettext("{name}: fitted scalability law", name=named.name))
    drawing.add(element("g", hint, path(places, f"s thin faint t{named.look.colour} d2")))
    placer.take_line(places)


def clients_scale(clients: Sequence[int], box: Box) -> Scale:
    """Scale clients by log2, with a margin so that marks at the ends are complete."""
    return Scale(min(clients), max(clients), box.left + 14, box.right - 14, math.log2)


def clients_axis(drawing: Drawing, box: Box, scale: Scale, clients: Sequence[int]) -> None:
    """Draw ticks at the measured clients, as many labels as fit, and the axis' name."""
    for each in set(clients):
        drawing.add(line(scale(each), box.bottom, scale(each), box.bottom + 4, "axis"))
    for tick in client_ticks(clients, scale, lambda each: text_width(f"{each:,}") + 12):
        drawing.add(text(scale(tick), box.bottom + 19, f"{tick:,}", anchor="middle"))
    x_title(drawing, box, gettext("clients (log2)"))


def _curve(drawing: Drawing, curve: ScalingCurve, named: Named, x: Scale, y: Scale, placer: Placer) -> None:
    places = [(x(point.clients), y(point.tps.mean)) for point in curve.points]
    drawing.add(path(places, named.look.line))
    placer.take_line(places)
    radius = 4.0 if len(places) <= 30 else 2.5
    for point, (at_x, at_y) in zip(curve.points, places, strict=True):
        if point.tps.half is not None:
            drawing.add(whisker(at_x, y(point.tps.low), y(point.tps.high), named.look, radius - 0.5))
            placer.take_line([(at_x, y(point.tps.low)), (at_x, y(point.tps.high))])
        drawing.add(marker(at_x, at_y, named.look, _tooltip(point, named.name), radius))
        placer.take_mark(at_x, at_y)


def _tooltip(point: ScalingPoint, name: str) -> str:
    interval = f" (95 %: {numbers.low_to_high(point.tps)})" if point.tps.half is not None else ""
    clients = numbers.clients(point.clients)
    return f"{name}, {clients}: {numbers.estimate(point.tps)} tps{interval}, n = {point.tps.n}"


def _annotate(drawing: Drawing, curve: ScalingCurve, x: Scale, y: Scale, box: Box, placer: Placer) -> None:
    same = curve.peak is curve.knee
    marks = [
        (curve.peak, f"{gettext('peak and knee') if same else gettext('peak')} {numbers.estimate(curve.peak.tps)}")
    ]
    if curve.knee is not None and not same:
        marks.append((curve.knee, gettext("knee: {clients}", clients=numbers.clients(curve.knee.clients))))
    for point, _ in marks:
        at_x, at_y = x(point.clients), y(point.tps.mean)
        drawing.add(element("circle", cx=at_x, cy=at_y, r=8.0, class_="ring"))
        if point is curve.knee:
            drawing.add(line(at_x, at_y + 8, at_x, box.bottom, "rule"))
            placer.take_line([(at_x, at_y + 8), (at_x, box.bottom)])
    for point, words in marks:
        spot = placer.place(words, x(point.clients), y(point.tps.mean), 14)
        if spot is not None:
            drawing.add(text(spot.x, spot.y, words, "name halo", spot.anchor))


def _marks_key(drawing: Drawing, box: Box, *, knee: bool) -> None:
    peak = gettext("peak")
    width = 51 + text_width(peak) + text_width(gettext("knee"))
    y = key_line(drawing, box, width, gettext("clients (log2)"))
    drawing.add(element("circle", cx=box.left + 6, cy=y - 4.5, r=5.5, class_="ring"))
    drawing.add(text(box.left + 17, y, peak, "quiet"))
    if not knee:
        return
    bar = box.left + 17 + text_width(peak) + 14
    drawing.add(line(bar, y - 3, bar + 14, y - 3, "ring"), text(bar + 20, y, gettext("knee"), "quiet"))


def _ring(drawing: Drawing, curve: ScalingCurve, look: Look, x: Scale, y: Scale) -> None:
    peak, knee = curve.peak, curve.knee
    colour = f"ring t{look.colour}"
    drawing.add(element("circle", cx=x(peak.clients), cy=y(peak.tps.mean), r=7.5, class_=colour))
    if knee is None:
        return
    below = y(knee.tps.mean) + 11
    drawing.add(line(x(knee.clients) - 7, below, x(knee.clients) + 7, below, colour))


def _names(
    drawing: Drawing,
    curves: Sequence[ScalingCurve],
    named: Mapping[Series, Named],
    x: Scale,
    y: Scale,
    box: Box,
    room: float,
) -> None:
    ends = []
    for curve in curves:
        last, who = curve.points[-1], named[curve.series]
        ends.append(LineEnd(x(last.clients), y(last.tps.mean), who.look, who.name))
    name_ends(drawing, ends, box, room)


def _description(curves: Sequence[ScalingCurve], named: Mapping[Series, Named]) -> str:
    parts = [
        gettext(
            "{name}: from {first} at {fewest} to {last} at {most}",
            name=named[curve.series].name,
            first=numbers.estimate(curve.points[0].tps),
            fewest=numbers.clients(curve.points[0].clients),
            last=numbers.estimate(curve.points[-1].tps),
            most=numbers.clients(curve.points[-1].clients),
        )
        for curve in curves
    ]
    return gettext("Transactions a second by clients, with 95 % intervals. {parts}.", parts="; ".join(parts))


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
    most = layout.width * 0.3
    names = told_apart([named[point.summary.series].name for point in points], most - 16)
    left = min(max(text_width(name) for name in names) + 16, most)
    ticks = linear_ticks(max(point.tps.high for point in points), 5 if layout is not Layout.NARROW else 3)
    box = Box(left, 8, layout.width - 84, 8 + ROW * len(points))
    x = Scale(0, ticks[-1], box.left, box.right)
    for tick in ticks:
        drawing.add(line(x(tick), box.top, x(tick), box.bottom, "axis" if tick == 0 else "hair"))
        drawing.add(text(x(tick), box.bottom + 18, tick_name(tick), anchor="middle"))
    drawing.add(text(box.right, box.bottom + 38, gettext("transactions a second"), "quiet", "end"))
    room = box.right - text_width(gettext("transactions a second")) - GAP
    n = n_text([point.tps.n for point in points], gettext_noop("n = {count} trials"), room)
    drawing.add(text(0, box.bottom + 38, n, "quiet"))
    for at, (point, name) in enumerate(zip(points, names, strict=True)):
        y = box.top + ROW * (at + 0.5)
        who = named[point.summary.series]
        low, high = x(point.tps.low), x(point.tps.high)
        drawing.add(text(left - 10, y + 4.5, name, "name", "end"))
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
