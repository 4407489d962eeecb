"""Latency over time: how many transactions of each step took how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno.report.charts.layout import CHART_HEIGHT, Box, Layout, label_column, x_title, y_axis
from pgdyno.report.palette import Look
from pgdyno.report.scale import WHOLE_STEPS, Scale, linear_ticks, log_ticks
from pgdyno.report.svg import Drawing, element, number, text

COLUMNS = 75
ROWS = 30
LEVELS = 6
"""Shades, each of half the share of the next."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Counts by step of time and step of latency."""

    seconds: Sequence[float]
    """Ends of the steps of time, from the first's begin; seconds since the trial began."""
    edges_ms: NDArray[np.float64]
    """Ends of the steps of latency, evenly on a log axis."""
    counts: NDArray[np.int64]
    """A row a step of time, a column a step of latency."""

    @property
    def largest_ms(self) -> float:
        """Upper end of the highest step that has a transaction."""
        used = np.flatnonzero(self.counts.sum(axis=0))
        return float(self.edges_ms[used[-1] + 1]) if len(used) else 0.0


def heatmap_chart(heat: Heat, look: Look, title: str, layout: Layout) -> Drawing:
    """Time to the right, latency (log) up; the stronger the colour, the larger the share of its step of time."""
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(heat))
    ticks = log_ticks(float(heat.edges_ms[0]), float(heat.edges_ms[-1]))
    left = label_column([f"{tick:,.10g}" for tick in ticks])
    box = Box(left, 30, layout.width - 8, CHART_HEIGHT - 30)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10)
    x = Scale(heat.seconds[0], heat.seconds[-1], box.left, box.right)
    y_axis(
        drawing,
        box,
        y,
        ticks,
        lambda tick: f"{tick:,.10g}",
        "latency, ms (log); the stronger the colour, the larger its share",
    )
    shares = heat.counts / np.maximum(heat.counts.sum(axis=1, keepdims=True), 1)
    for level in range(LEVELS):
        cells = _cells(heat, shares, level, x, y)
        if cells:
            drawing.add(element("path", d=cells, class_=f"f{look.colour} h{level}"))
    for tick in linear_ticks(heat.seconds[-1], 6 if layout is Layout.WIDE else 3, WHOLE_STEPS):
        if heat.seconds[0] <= tick <= heat.seconds[-1]:
            drawing.add(text(x(tick), box.bottom + 19, f"{tick:g}", anchor="middle"))
    x_title(drawing, box, "seconds since the trial began")
    return drawing


def _cells(heat: Heat, shares: NDArray[np.float64], level: int, x: Scale, y: Scale) -> str:
    """Cells of one shade as one path, neighbours in time joined: the strongest holds shares from 1 / 4 on."""
    low = 0.0 if level == 0 else 0.25 / 2 ** (LEVELS - 1 - level)
    high = math.inf if level == LEVELS - 1 else 0.25 / 2 ** (LEVELS - 2 - level)
    chosen = (shares > low) & (shares <= high) if level == 0 else (shares >= low) & (shares < high)
    if level == 0:
        chosen = (shares > 0) & (shares < high)
    parts = []
    for row in range(len(heat.edges_ms) - 1):
        top, bottom = y(float(heat.edges_ms[row + 1])), y(float(heat.edges_ms[row]))
        edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen[:, row].astype(np.int8), [0]])))
        for first, end in edges.reshape(-1, 2):
            start, stop = x(heat.seconds[first]), x(heat.seconds[end])
            parts.append(f"M{number(start)},{number(top)}H{number(stop)}V{number(bottom)}H{number(start)}z")
    return "".join(parts)


def _description(heat: Heat) -> str:
    return (
        f"{int(heat.counts.sum()):,} transactions by second and latency, logarithmic, from "
        f"{heat.edges_ms[0]:.3g} to {heat.largest_ms:.3g} ms."
    )
