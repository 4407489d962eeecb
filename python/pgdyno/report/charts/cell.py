"""Small charts inside a table: a bar with its interval, and a sparkline."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pgdyno.analyse.estimate import Estimate
from pgdyno.report.palette import Look
from pgdyno.report.svg import element, line, path

BAR_WIDTH = 110.0
SPARK_WIDTH = 96.0
HEIGHT = 18.0


def bar(value: Estimate, highest: float, look: Look) -> Markup:
    """Draw `value` as a bar from zero to `highest`, with its interval across the end. The next cell has the figure."""
    scale = BAR_WIDTH / highest if highest > 0 else 0.0
    parts = [element("rect", x=0, y=4, width=value.mean * scale, height=10, class_=f"{look.mark} faint")]
    if value.half is not None:
        low, high = max(value.low, 0.0) * scale, min(value.high * scale, BAR_WIDTH)
        parts += [line(low, 9, high, 9, "ring"), line(low, 5, low, 13, "ring"), line(high, 5, high, 13, "ring")]
    return _cell(BAR_WIDTH, *parts)


def sparkline(seconds: Sequence[float], look: Look) -> Markup:
    """Draw throughput by second, from zero; at most one step per unit of width."""
    if len(seconds) < 2 or max(seconds) <= 0:
        return Markup("")
    each = max(1, -(-len(seconds) // int(SPARK_WIDTH / 2)))
    steps = [seconds[at : at + each] for at in range(0, len(seconds), each)]
    means = [sum(step) / len(step) for step in steps]
    top = max(means)
    width = (SPARK_WIDTH - 2) / max(len(means) - 1, 1)
    places = [(1 + at * width, HEIGHT - 2 - mean / top * (HEIGHT - 4)) for at, mean in enumerate(means)]
    ground = [(places[0][0], HEIGHT - 2), *places, (places[-1][0], HEIGHT - 2)]
    return _cell(SPARK_WIDTH, path(ground, f"{look.mark} area", close=True), path(places, f"s thin t{look.colour}"))


def _cell(width: float, *parts: Markup) -> Markup:
    """Wrap a chart that only repeats its row, hidden from screen readers."""
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {width:g} {HEIGHT:g}",
        width=width,
        height=HEIGHT,
        class_="cell",
        aria_hidden="true",
        focusable="false",
    )
