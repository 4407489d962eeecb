"""A point's trials second by second: throughput, and below it the p99, on one time axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.over_time.timeline import Timeline, TimelineSecond
from pgdyno.report import numbers
from pgdyno.report.charts.latency import LEAST_MS
from pgdyno.report.charts.layout import STRIP_HEIGHT, Box, Layout, label_column, n_title, tick_name
from pgdyno.report.charts.palette import Look
from pgdyno.report.charts.svg import (
    Drawing,
    Scale,
    element,
    line,
    linear_ticks,
    log_ticks,
    path,
    shorten_end,
    text,
    text_width,
    ticks_between,
)
from pgdyno.report.translation import gettext, gettext_noop

GAP = 14.0
P99_HEIGHT = 96.0
SECONDS = gettext_noop("n = {count} seconds a trial")


@dataclass(frozen=True, slots=True)
class TrialStrip:
    number: int
    timeline: Timeline
    problem: str | None = None
    """Why the trial did not finish; its panel shows it."""

    @property
    def name(self) -> str:
        """Return `trial 3`, the title of its panel."""
        return gettext("trial {number}", number=self.number)

    def heading(self, width: float) -> str:
        """Return its name with its problem, shorter if there is little room."""
        if self.problem is None:
            return shorten_end(self.name, width)
        whole = f"{self.name}: {self.problem}"
        return whole if text_width(whole) <= width else shorten_end(f"{self.number} {self.problem}", width)


def timeline_chart(
    strips: Sequence[TrialStrip],
    look: Look,
    title: str,
    layout: Layout,
    *,
    columns: int,
    with_p99: bool,
    among: Sequence[TrialStrip] = (),
) -> Drawing:
    """Draw `strips` side by side, at most `columns`, on one throughput axis from zero; warm-up is shaded.

    `among` are all strips of the point if these are one row of them: rows have the same axes. With more seconds than
    half the units of width, the line is the mean of steps of whole seconds, and a band reaches from the slowest to the
    fastest second of each step.
    """
    every = [second for strip in among or strips for second in strip.timeline.seconds]
    p99 = [second.p99_ns for second in every if second.p99_ns is not None]
    below = P99_HEIGHT if with_p99 and p99 else 0.0
    drawing = Drawing(layout.width, STRIP_HEIGHT + 24 + below, title, _description(strips))
    ticks = linear_ticks(max((second.tps for second in every), default=0.0), 3)
    p99_ticks = log_ticks(min(p99) / 1e6 or LEAST_MS, max(p99) / 1e6 or LEAST_MS, 3) if below else []
    left = label_column([tick_name(tick) for tick in (*ticks, *p99_ticks)])
    panel = (layout.width - left - GAP * (columns - 1) - 4) / columns
    drawing.add(text(0, 12, gettext("transactions a second"), "quiet"))
    n_title(drawing, [len(strip.timeline.seconds) for strip in strips], SECONDS, gettext("transactions a second"))
    if below:
        drawing.add(text(0, STRIP_HEIGHT + 14, gettext("p99, ms (log)"), "quiet"))
    earliest = min((second.from_s for second in every), default=0.0)
    latest = max((second.to_s for second in every), default=1.0)
    for at, strip in enumerate(strips):
        start = left + at * (panel + GAP)
        upper = Box(start, 40, start + panel, STRIP_HEIGHT - 6)
        lower = Box(start, STRIP_HEIGHT + 32, start + panel, STRIP_HEIGHT + below - 2)
        bottom = lower.bottom if below else upper.bottom
        x = Scale(earliest, latest, upper.left, upper.right)
        _shade(drawing, strip, x, upper)
        _grid(drawing, upper, Scale(0, ticks[-1], upper.bottom, upper.top), ticks, labelled=at == 0)
        _panel(drawing, strip, look, x, upper, ticks[-1])
        if below:
            _shade(drawing, strip, x, lower, named=False)
            y = Scale(p99_ticks[0], p99_ticks[-1], lower.bottom, lower.top, math.log10)
            _grid(drawing, lower, y, p99_ticks, labelled=at == 0)
            _p99(drawing, strip, look, x, y, panel)
        _seconds_axis(drawing, x, bottom, unit=at == len(strips) - 1)
    return drawing


def _shade(drawing: Drawing, strip: TrialStrip, x: Scale, box: Box, *, named: bool = True) -> None:
    seconds = strip.timeline.seconds
    begin, end = seconds[0].from_s if seconds else 0.0, strip.timeline.warmup_end_s
    if end > begin:
        left, width = x(begin), x(end) - x(begin)
        length = f"{end - begin:.0f}"
        hint = element(
            "title", gettext("{name}: warm-up, {seconds} s, left out of every figure", name=strip.name, seconds=length)
        )
        drawing.add(element("rect", hint, x=left, y=box.top, width=width, height=box.height, class_="shade"))
        if named and width > text_width(gettext("warm-up")) + 6:
            drawing.add(text(left + 4, box.bottom - 5, gettext("warm-up"), "quiet"))


def _grid(drawing: Drawing, box: Box, y: Scale, ticks: Sequence[float], *, labelled: bool) -> None:
    for tick in ticks:
        drawing.add(line(box.left, y(tick), box.right, y(tick), "axis" if tick == 0 else "hair"))
        if labelled:
            drawing.add(text(box.left - 8, y(tick) + 4.5, tick_name(tick), anchor="end"))


def _panel(drawing: Drawing, strip: TrialStrip, look: Look, x: Scale, box: Box, highest: float) -> None:
    y = Scale(0, highest, box.bottom, box.top)
    class_ = "quiet" if strip.problem is None else "bad"
    drawing.add(text(box.left, box.top - 8, strip.heading(box.width), class_))
    if not strip.timeline.seconds:
        drawing.add(
            element("rect", x=box.left, y=box.top, width=box.width, height=box.height, class_="miss"),
            text(box.left + box.width / 2, box.top + box.height / 2 + 4, gettext("no seconds"), "quiet", "middle"),
        )
        return
    steps = _steps_of_width(strip.timeline.seconds, box.width)
    if len(steps) < len(strip.timeline.seconds):
        # the means hide the slowest and the fastest second of each step
        highs, lows = [(x(step.at_s), y(step.high)) for step in steps], [(x(step.at_s), y(step.low)) for step in steps]
        drawing.add(path([*highs, *reversed(lows)], f"f{look.colour} area", close=True))
    places = [(x(step.at_s), y(step.mean)) for step in steps]
    drawing.add(path(places if len(places) > 1 else [(box.left, places[0][1]), *places], f"s t{look.colour}"))


@dataclass(frozen=True, slots=True)
class _Step:
    """Throughput of adjacent seconds."""

    at_s: float
    mean: float
    low: float
    high: float


def _steps_of_width(seconds: Sequence[TimelineSecond], width: float) -> list[_Step]:
    """Return each second, or groups of seconds that leave a step two units of width."""
    each = max(1, math.ceil(len(seconds) * 2 / width))
    steps = []
    for at in range(0, len(seconds), each):
        group = seconds[at : at + each]
        rates = [second.tps for second in group]
        middle_s = (group[0].from_s + group[-1].to_s) / 2
        steps.append(_Step(middle_s, sum(rates) / len(rates), min(rates), max(rates)))
    return steps


def _p99(drawing: Drawing, strip: TrialStrip, look: Look, x: Scale, y: Scale, width: float) -> None:
    """Return the p99 of each second; for groups of seconds, the highest."""
    there = [(second, second.p99_ns) for second in strip.timeline.seconds if second.p99_ns is not None]
    each = max(1, math.ceil(len(there) * 2 / width))
    places = []
    for at in range(0, len(there), each):
        second, p99_ns = max(there[at : at + each], key=lambda pair: pair[1])
        places.append((x((second.from_s + second.to_s) / 2), y(max(p99_ns / 1e6, LEAST_MS))))
    if len(places) > 1:
        drawing.add(path(places, f"s thin t{look.colour}"))


def _seconds_axis(drawing: Drawing, x: Scale, bottom: float, *, unit: bool) -> None:
    width = abs(x.end - x.start)
    shown = ticks_between(x.low, x.high, max(2, min(5, int(width / 60))))
    for tick in shown:
        anchor = "start" if x(tick) < x.start + 10 else "end" if x(tick) > x.end - 10 else "middle"
        name = f"{tick:g} s" if unit and tick == shown[-1] else f"{tick:g}"
        drawing.add(text(x(tick), bottom + 16, name, anchor=anchor))


def _description(strips: Sequence[TrialStrip]) -> str:
    parts = []
    for strip in strips:
        measured = strip.timeline.measured_seconds()
        if measured:
            low, high = min(second.tps for second in measured), max(second.tps for second in measured)
            parts.append(f"{strip.name}: {numbers.range_text(numbers.round_text(low), numbers.round_text(high))}")
        else:
            parts.append(gettext("{name}: nothing was measured", name=strip.name))
    return gettext("Transactions a second in each second of each trial. {parts}.", parts="; ".join(parts))
