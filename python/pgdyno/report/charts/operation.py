"""Second by second before, during and after an operation, with it and without it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.analyse.over_time.impact import Impact
from pgdyno.analyse.over_time.timeline import trial_timeline
from pgdyno.report import numbers
from pgdyno.report.charts.latency import LEAST_MS
from pgdyno.report.charts.layout import CHART_HEIGHT, Box, Layout, label_column, n_title, tick_name, x_title, y_axis
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import Drawing, Scale, element, line, linear_ticks, log_ticks, path, text, ticks_between
from pgdyno.report.report_content import Digest
from pgdyno.report.translation import gettext, gettext_noop

PAIRS = gettext_noop("n = {count} pairs")

LONGEST_STEP_S = 1.6
"""Between the middles of adjacent seconds, of which the last of a trial may be shorter."""


@dataclass(frozen=True, slots=True)
class OperationLine:
    """One trial, with seconds from the one in which the operation began."""

    look: Look
    is_control: bool
    places: Sequence[tuple[float, float]]
    """The middle of each second, and its p99 in ms, or its throughput."""


def operation_lines(of: Digest, found: Impact) -> list[OperationLine]:
    """Return the finished trials with the operation and without it."""
    lines = []
    for trial in of.run.trials:
        during = next((each for each in of.event_parts(trial) if each.part == "during"), None)
        if during is None:
            continue
        timeline = trial_timeline(of.run, trial.number, percentiles=found.is_rated)
        seconds = [
            ((each.from_s + each.to_s) / 2 - during.from_s, _value(each.p99_ns) if found.is_rated else each.tps)
            for each in timeline.measured_seconds()
        ]
        places = [(at, value) for at, value in seconds if value is not None]
        if len(places) > 1:
            lines.append(OperationLine(of.named[of.series_of(trial)].look, during.event.is_control, places))
    # those with the operation are drawn over the others
    return sorted(lines, key=lambda each: not each.is_control)


def _value(p99_ns: int | None) -> float | None:
    return None if p99_ns is None else max(p99_ns / 1e6, LEAST_MS)


def operation_chart(lines: Sequence[OperationLine], found: Impact, title: str, layout: Layout) -> Drawing:
    """Draw p99 (log) or throughput (from zero) by second; the operation's median length is shaded."""
    axis = gettext("p99, ms (log)") if found.is_rated else gettext("transactions a second")
    drawing = Drawing(layout.width, CHART_HEIGHT + 10, title, _description(lines))
    values = [value for each in lines for _, value in each.places]
    ticks = log_ticks(min(values), max(values)) if found.is_rated else linear_ticks(max(values))
    box = Box(label_column([tick_name(tick) for tick in ticks]), 46, layout.width - 8, CHART_HEIGHT - 30)
    begin, end = (pick(at for each in lines for at, _ in each.places) for pick in (min, max))
    x = Scale(begin, max(end, found.seconds), box.left, box.right)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, *([math.log10] if found.is_rated else []))
    width = max(2.0, x(found.seconds) - x(0))
    drawing.add(element("rect", x=x(0), y=box.top, width=width, height=box.height, class_="band"))
    y_axis(drawing, box, y, ticks, tick_name, axis)
    n_title(drawing, [found.pairs], PAIRS, axis)
    drawing.add(line(box.left, box.bottom, box.right, box.bottom, "axis"))
    drawing.add(text(x(0), box.top - 8, gettext("the operation"), "quiet"))
    for tick in ticks_between(begin, end, 6 if layout is not Layout.NARROW else 3):
        drawing.add(text(x(tick), box.bottom + 19, tick_name(tick), anchor="middle"))
    for each in lines:
        for stretch in _without_gaps(each.places):
            drawing.add(path([(x(at), y(value)) for at, value in stretch], f"{each.look.line} thin"))
    x_title(drawing, box, gettext("seconds from its start"))
    return drawing


def _without_gaps(places: Sequence[tuple[float, float]]) -> Iterator[Sequence[tuple[float, float]]]:
    """Split a line where seconds have no value, because nothing succeeded."""
    begin = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at][0] - places[at - 1][0] > LONGEST_STEP_S:
            stretch = places[begin:at]
            # a second alone is drawn, too
            yield (
                stretch
                if len(stretch) > 1
                else [(stretch[0][0] - 0.5, stretch[0][1]), (stretch[0][0] + 0.5, stretch[0][1])]
            )
            begin = at


def _description(lines: Sequence[OperationLine]) -> str:
    parts = []
    for is_control, name in ((False, gettext("with it")), (True, gettext("without it"))):
        values = [value for each in lines if each.is_control is is_control for _, value in each.places]
        if values:
            span = numbers.range_text(numbers.round_text(min(values)), numbers.round_text(max(values)))
            parts.append(f"{name}: {span}")
    return gettext("Second by second before, during and after the operation. {parts}.", parts="; ".join(parts))
