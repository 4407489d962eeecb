"""Throughput by clients for a terminal: a braille line per series, peak and knee marked."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.series import Series
from pgdyno.report import numbers
from pgdyno.report.charts.scaling import Named
from pgdyno.report.charts.svg import Scale, client_ticks, linear_ticks
from pgdyno.report.terminal.text_drawing import Canvas, cut, printable

HEIGHT = 10
AXIS = "  clients"
MARKS = ("●", "■", "▲", "◆", "▼", "✚")
NARROWEST = 40
"""Least width of a chart."""


def scaling_lines(curves: Sequence[ScalingCurve], named: Mapping[Series, Named], width: int) -> list[str]:
    """Return the chart, one text per line; nothing if no curve has two points, or there is no room."""
    if width < NARROWEST or all(len(curve.points) < 2 for curve in curves):
        return []
    ticks = linear_ticks(max(point.tps.high for curve in curves for point in curve.points), 4)
    labels = [numbers.axis(tick) for tick in ticks]
    left = max(len(label) for label in labels) + 1
    canvas = Canvas(min(width, 100) - left - 1 - len(AXIS), HEIGHT)
    clients = sorted({point.clients for curve in curves for point in curve.points})
    x = Scale(clients[0], clients[-1], 1.5, canvas.width - 2.5, math.log2)
    y = Scale(0, ticks[-1], canvas.height - 0.2, 0.2)
    for curve in curves:
        places = [(x(point.clients), y(point.tps.mean)) for point in curve.points]
        for (x1, y1), (x2, y2) in pairwise(places):
            canvas.line(x1, y1, x2, y2)
    for curve in curves:
        for point in curve.points:
            canvas.mark(x(point.clients), y(point.tps.mean), MARKS[named[curve.series].look.shape])
    if len(curves) == 1:
        _annotate(canvas, curves[0], x, y)
    rows = {min(int(y(tick)), canvas.height - 1): label for tick, label in zip(ticks, labels, strict=True)}
    lines = [
        f"{rows.get(at, ''):>{left - 1}} {'┤' if at in rows else '│'}{row}" for at, row in enumerate(canvas.lines())
    ]
    lines += _axis(clients, x, left, canvas.width)
    if len(curves) > 1:
        room = (canvas.width + len(AXIS)) // len(curves) - 5
        keys = (f"{MARKS[named[each.series].look.shape]} {_cut_name(named[each.series].name, room)}" for each in curves)
        lines.append(" " * (left + 1) + "   ".join(keys))
    return [line.rstrip() for line in lines]


def _cut_name(name: str, width: int) -> str:
    return cut(printable(name), max(width, 2))


def _annotate(canvas: Canvas, curve: ScalingCurve, x: Scale, y: Scale) -> None:
    same = curve.knee is curve.peak
    words = [(curve.peak, "peak, knee" if same else "peak")]
    if curve.knee is not None and not same:
        words.append((curve.knee, "knee"))
    for point, word in words:
        column, row = int(x(point.clients)), int(y(point.tps.mean))
        tried = ((1, 0), (2, 0), (-1, 0), (1, -1), (1, 1), (2, 1), (2, -1), (3, 0), (-2, 0))
        any(canvas.write(column - len(word) // 2 + side * len(word), row + down, word) for down, side in tried)


def _axis(clients: Sequence[int], x: Scale, left: int, width: int) -> list[str]:
    """Return the axis, and below it the numbers of clients, as many as fit."""
    rule, labels = ["─"] * width, [" "] * width
    for each in clients:
        rule[int(x(each))] = "┴"
    for tick in client_ticks(clients, x, lambda each: len(str(each)) + 1.5):
        text = str(tick)
        start = max(int(x(tick)) - len(text) // 2, 0)
        labels[start : start + len(text)] = text
    pad = " " * (left + 1)
    return [" " * left + "└" + "".join(rule), pad + "".join(labels).rstrip() + AXIS]
