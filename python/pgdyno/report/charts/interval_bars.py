"""Intervals drawn: a forest plot, and small bars and sparklines inside of tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from pgdyno.analyse.comparison import LEAST_DELTA, Comparison, PointComparison
from pgdyno.analyse.intervals import Estimate
from pgdyno.records import ConfirmedDifference
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import low_to_high, named_arm, percent
from pgdyno.report.charts.labels import LINE_HEIGHT, marker
from pgdyno.report.charts.layout import Layout, n_text
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import (
    Drawing,
    Scale,
    element,
    in_lines,
    line,
    path,
    shorten_end,
    text,
    text_width,
    told_apart,
)
from pgdyno.report.translation import gettext, gettext_noop, ngettext, translate

ROW = 26.0
MOST_ROWS = 60
TOP = 26.0


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    pairs: int
    words: str
    """The change with its interval."""
    tooltip: str
    ends: tuple[float, float, float] | None
    """Low end, mean and high end of the log ratio; None for too few pairs."""
    is_overall: bool = False


def forest_chart(of: Comparison, look: Look, title: str, layout: Layout, most: int = MOST_ROWS) -> Drawing:
    """Draw a row per point, at most `most`, and one for all: other / base - 1 on a log axis, ±delta shaded."""
    rows = [_row_of(point) for point in of.points[:most]]
    if of.overall is not None:
        rows.append(replace(_row_of(of.overall), is_overall=True))
    unit = gettext("change of {metric} in %, vs {base}", metric=gettext(of.metric.words), base=named_arm(of, of.base))
    drawing = Drawing(layout.width, TOP + ROW * len(rows) + 48, title, _description(of))
    return _forest(drawing, rows, of.delta, unit, look, layout)


def confirmed_chart(found: ConfirmedDifference, metric: str, look: Look, title: str, layout: Layout) -> Drawing:
    """Draw the pairs that confirm the result of a search for settings in one row; `metric` is its goal in words."""
    base, other = gettext("starting configuration"), gettext("found")
    change = percent(found.change)
    words = f"{change} ({numbers.range_text(percent(found.low).removesuffix(' %'), percent(found.high))})"
    said = f"{change}, {gettext(found.verdict)}"
    description = gettext(
        "Change of {other} vs {base} by point, with intervals. {parts}.", other=other, base=base, parts=said
    )
    tooltip = f"{other}: {words}, {gettext(found.verdict)}, n = {found.pairs}"
    ends = (math.log1p(found.low), math.log1p(found.change), math.log1p(found.high))
    row = _Row(other, found.pairs, words, tooltip, ends)
    unit = gettext("change of {metric} in %, vs {base}", metric=metric, base=base)
    drawing = Drawing(layout.width, TOP + ROW + 48, title, description)
    return _forest(drawing, [row], LEAST_DELTA, unit, look, layout)


def _row_of(point: PointComparison) -> _Row:
    label, interval = translate(point.label), point.interval
    if interval is None:
        return _Row(label, point.pairs, "", "", None)
    words = f"{percent(point.change)} ({low_to_high(interval)})"
    tooltip = f"{label}: {words}, {gettext(point.verdict.value)}, n = {point.pairs}"
    return _Row(label, point.pairs, words, tooltip, (interval.low, interval.mean, interval.high))


def _forest(drawing: Drawing, rows: Sequence[_Row], delta: float, unit: str, look: Look, layout: Layout) -> Drawing:
    narrow = layout is Layout.NARROW
    most = layout.width * (0.3 if narrow else 0.36)
    labels = told_apart([row.label for row in rows if not row.is_overall], most - 10)
    labels += [shorten_end(row.label, most - 10) for row in rows if row.is_overall]
    left = min(max((text_width(label) for label in labels), default=60.0) + 18, most)
    right = layout.width - (12 if narrow else 250)
    low, high = _ends(rows, delta)
    x = Scale(low, high, left + 6, right)
    bottom = TOP + ROW * len(rows)
    edge = math.log1p(delta)
    band = element("title", gettext("±{delta}: counts as no difference", delta=percent(delta, plus=False)))
    drawing.add(element("rect", band, x=x(-edge), y=TOP, width=x(edge) - x(-edge), height=bottom - TOP, class_="band"))
    for tick in _ticks(low, high, 3 if narrow else 6):
        place = x(math.log1p(tick))
        drawing.add(line(place, TOP, place, bottom, "axis" if tick == 0 else "hair"))
        drawing.add(text(place, bottom + 18, f"{100 * tick:+g}" if tick else "0", anchor="middle"))
    n = n_text([row.pairs for row in rows], gettext_noop("n = {count}"), left)
    drawing.add(text(0, bottom + 18, n, "quiet"))
    units = in_lines(unit, right)
    drawing.height += LINE_HEIGHT * (len(units) - 1)
    drawing.add(*(text(right, bottom + 38 + LINE_HEIGHT * at, each, "quiet", "end") for at, each in enumerate(units)))
    if not narrow:
        drawing.add(text(right + 16, TOP - 8, gettext("change, 95 % interval"), "quiet"))
    for at, (row, label) in enumerate(zip(rows, labels, strict=True)):
        drawing.add(text(0, TOP + ROW * (at + 0.5) + 4.5, label, "name" if row.is_overall else "tick"))
        _interval(drawing, row, TOP + ROW * (at + 0.5), look, x, (left, right), narrow=narrow)
    return drawing


def _interval(
    drawing: Drawing, row: _Row, y: float, look: Look, x: Scale, sides: tuple[float, float], *, narrow: bool
) -> None:
    left, right = sides
    if row.is_overall:
        drawing.add(line(0, y - ROW / 2, right, y - ROW / 2, "hair"))
    if row.ends is None:
        drawing.add(text((left + right) / 2, y + 4.5, gettext("too few pairs for an interval"), "quiet", "middle"))
        return
    colour = f"w t{look.colour}"
    low, mean, high = (x(each) for each in row.ends)
    drawing.add(line(low, y, high, y, colour))
    drawing.add(*(line(end, y - 4, end, y + 4, colour) for end in (low, high)))
    drawing.add(marker(mean, y, look, row.tooltip, 5.5 if row.is_overall else 4.0))
    if not narrow:
        drawing.add(text(right + 16, y + 4.5, row.words, "name" if row.is_overall else "tick"))


def _ends(rows: Sequence[_Row], delta: float) -> tuple[float, float]:
    edge = 2 * math.log1p(delta)
    intervals = [row.ends for row in rows if row.ends is not None]
    low = min([-edge, *(each[0] for each in intervals)])
    high = max([edge, *(each[2] for each in intervals)])
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
        f"{translate(point.label)}: {percent(point.change)}, {gettext(point.verdict.value)}"
        for point in of.points[:12]
        if point.interval is not None
    ]
    if len(of.points) > 12:
        parts.append(ngettext("{count:,} further point", "{count:,} further points", len(of.points) - 12))
    return gettext(
        "Change of {other} vs {base} by point, with intervals. {parts}.",
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
