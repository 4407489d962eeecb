"""Intervals drawn: a forest plot, and small bars and sparklines inside of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from pgdyno.analyse.comparison import Comparison, PointComparison
from pgdyno.analyse.mean_interval import Estimate
from pgdyno.report.answers.comparison import low_to_high, named_arm, percent
from pgdyno.report.charts.labels import marker
from pgdyno.report.charts.layout import Layout, n_text
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import Drawing, Scale, element, line, path, shortened, text, text_width
from pgdyno.report.translation import gettext, gettext_noop, ngettext, translated

ROW = 26.0
MOST_ROWS = 60
TOP = 26.0


def forest_chart(of: Comparison, look: Look, title: str, layout: Layout, most: int = MOST_ROWS) -> Drawing:
    """Draw one row per point, at most `most`, and one for all of them: other / base - 1 on a log axis, ±delta
    shaded.
    """
    points = [*of.points[:most], *([of.overall] if of.overall is not None else [])]
    drawing = Drawing(layout.width, TOP + ROW * len(points) + 48, title, _description(of))
    narrow = layout is Layout.NARROW
    longest = max((text_width(translated(point.label)) for point in points), default=60.0) + 18
    left = min(longest, layout.width * (0.3 if narrow else 0.36))
    right = layout.width - (12 if narrow else 250)
    low, high = _ends(of, points)
    x = Scale(low, high, left + 6, right)
    bottom = TOP + ROW * len(points)
    edge = math.log1p(of.delta)
    band = element("title", gettext("±{delta}: counts as no difference", delta=percent(of.delta, plus=False)))
    drawing.add(element("rect", band, x=x(-edge), y=TOP, width=x(edge) - x(-edge), height=bottom - TOP, class_="band"))
    for tick in _ticks(low, high, 3 if narrow else 6):
        place = x(math.log1p(tick))
        drawing.add(line(place, TOP, place, bottom, "axis" if tick == 0 else "hair"))
        drawing.add(text(place, bottom + 18, f"{100 * tick:+g}" if tick else "0", anchor="middle"))
    n = n_text([point.pairs for point in points], gettext_noop("n = {count}"), left)
    drawing.add(text(0, bottom + 18, n, "quiet"))
    unit = gettext(
        "change of {metric} in %, against {base}", metric=gettext(of.metric.words), base=named_arm(of, of.base)
    )
    drawing.add(text(right, bottom + 38, shortened(unit, right), "quiet", "end"))
    if not narrow:
        drawing.add(text(right + 16, TOP - 8, gettext("change, 95 % interval"), "quiet"))
    for at, point in enumerate(points):
        _row(drawing, point, TOP + ROW * (at + 0.5), look, x, (left, right), last=point is of.overall, narrow=narrow)
    return drawing


def _row(
    drawing: Drawing,
    point: PointComparison,
    y: float,
    look: Look,
    x: Scale,
    sides: tuple[float, float],
    *,
    last: bool,
    narrow: bool,
) -> None:
    left, right = sides
    if last:
        drawing.add(line(0, y - ROW / 2, right, y - ROW / 2, "hair"))
    drawing.add(text(0, y + 4.5, shortened(translated(point.label), left - 10), "name" if last else "tick"))
    if point.interval is None:
        drawing.add(text((left + right) / 2, y + 4.5, gettext("too few pairs for an interval"), "quiet", "middle"))
        return
    colour = f"w t{look.colour}"
    low, high = x(point.interval.low), x(point.interval.high)
    drawing.add(line(low, y, high, y, colour))
    drawing.add(*(line(end, y - 4, end, y + 4, colour) for end in (low, high)))
    words = f"{percent(point.change)} ({low_to_high(point.interval)})"
    tooltip = f"{translated(point.label)}: {words}, {gettext(point.verdict.value)}, n = {point.pairs}"
    drawing.add(marker(x(point.interval.mean), y, look, tooltip, 5.5 if last else 4.0))
    if not narrow:
        drawing.add(text(right + 16, y + 4.5, words, "name" if last else "tick"))


def _ends(of: Comparison, points: Sequence[PointComparison]) -> tuple[float, float]:
    edge = 2 * math.log1p(of.delta)
    intervals = [point.interval for point in points if point.interval is not None]
    low = min([-edge, *(each.low for each in intervals)])
    high = max([edge, *(each.high for each in intervals)])
    room = 0.04 * (high - low)
    # one very wide interval must not compress the others
    return max(low - room, math.log(0.05)), min(high + room, math.log(20))


def _ticks(low: float, high: float, wanted: int) -> list[float]:
    """Return round changes between two logarithms of ratios, including 0."""
    from_, to = math.expm1(low), math.expm1(high)
    raw = (to - from_) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= raw * 0.999)
    first = math.ceil(from_ / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(to / step + 1e-9) + 1)]


def _description(of: Comparison) -> str:
    parts = [
        f"{translated(point.label)}: {percent(point.change)}, {gettext(point.verdict.value)}"
        for point in of.points[:12]
        if point.interval is not None
    ]
    if len(of.points) > 12:
        parts.append(ngettext("{count:,} further point", "{count:,} further points", len(of.points) - 12))
    return gettext(
        "Change of {other} against {base} by point, with intervals. {parts}.",
        other=named_arm(of, of.other),
        base=of.base,
        parts="; ".join(parts),
    )


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
