"""Latency over time: the number of transactions by step and latency."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno.analyse.over_time.timeline import Heatmap
from pgdyno.report.charts.layout import CHART_HEIGHT, GAP, Box, Layout, label_column, n_text, x_title, y_axis
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import Drawing, Scale, element, log_ticks, number, text, text_width, ticks_between
from pgdyno.report.translation import gettext, gettext_noop, ngettext

COLUMNS = 75
LEVELS = 6
"""Shades, each for half the share of the next."""


def heatmap_chart(heat: Heatmap, look: Look, title: str, layout: Layout) -> Drawing:
    """Draw time to the right, latency (log) upwards; a stronger colour is a larger share of the step's transactions."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(heat))
    ends, edges_ms = (*heat.seconds, heat.end_s), [edge / 1e6 for edge in heat.edges_ns]
    ticks = log_ticks(edges_ms[0], edges_ms[-1])
    left = label_column([f"{tick:,.10g}" for tick in ticks])
    box = Box(left, 30, layout.width - 8, CHART_HEIGHT - 30)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    x = Scale(ends[0], ends[-1], box.left, box.right)
    y_axis(drawing, box, y, ticks, lambda tick: f"{tick:,.10g}", _axis_title(drawing.width))
    shares = heat.counts / np.maximum(heat.counts.sum(axis=1, keepdims=True), 1)
    for level in range(LEVELS):
        cells = _cells(shares, level, [x(end) for end in ends], [y(edge) for edge in edges_ms])
        if cells:
            drawing.add(element("path", d=cells, class_=f"f{look.colour} h{level}"))
    for tick in ticks_between(ends[0], ends[-1], 6 if layout is not Layout.NARROW else 3):
        drawing.add(text(x(tick), box.bottom + 19, f"{tick:g}", anchor="middle"))
    room = box.width - text_width(gettext("seconds since measuring began")) - GAP
    told = n_text([int(heat.counts.sum())], gettext_noop("n = {count} transactions"), room)
    drawing.add(text(box.left, box.bottom + 36, told, "quiet"))
    x_title(drawing, box, gettext("seconds since measuring began"))
    return drawing


def _axis_title(room: float) -> str:
    whole = gettext("latency, ms (log); a stronger colour is a larger share")
    return whole if text_width(whole) <= room else gettext("latency, ms (log)")


def _cells(shares: NDArray[np.float64], level: int, x: Sequence[float], y: Sequence[float]) -> str:
    """Draw cells of one shade as one path, joining neighbours in time: the strongest covers shares from 1 / 4 on."""
    low = 0.0 if level == 0 else 0.25 / 2 ** (LEVELS - 1 - level)
    high = math.inf if level == LEVELS - 1 else 0.25 / 2 ** (LEVELS - 2 - level)
    chosen = (shares > low) & (shares <= high) if level == 0 else (shares >= low) & (shares < high)
    if level == 0:
        chosen = (shares > 0) & (shares < high)
    parts = []
    for row in range(len(y) - 1):
        top, bottom = y[row + 1], y[row]
        edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen[:, row].astype(np.int8), [0]])))
        for first, end in edges.reshape(-1, 2):
            start, stop = x[first], x[end]
            parts.append(f"M{number(start)},{number(top)}H{number(stop)}V{number(bottom)}H{number(start)}z")
    return "".join(parts)


def _description(heat: Heatmap) -> str:
    return ngettext(
        "{count:,} transaction by second and latency, logarithmic, from {low} to {high} ms.",
        "{count:,} transactions by second and latency, logarithmic, from {low} to {high} ms.",
        int(heat.counts.sum()),
        low=f"{heat.edges_ns[0] / 1e6:.3g}",
        high=f"{heat.edges_ns[-1] / 1e6:.3g}",
    )
