"""The timeline of one trial on paper: a strip per measure, from the same data as the page's script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pgdyno.report.charts.labels import spread
from pgdyno.report.charts.latency import LEAST_MS
from pgdyno.report.charts.layout import Box, Layout, label_column
from pgdyno.report.charts.page_figures import Figure, drawn_figure
from pgdyno.report.charts.palette import TIMELINE_COLOURS
from pgdyno.report.charts.svg import (
    WHOLE_STEPS,
    Drawing,
    Scale,
    element,
    line,
    linear_ticks,
    log_ticks,
    path,
    squeezed,
    text,
    text_width,
)
from pgdyno.report.sections.over_seconds.cloud_metrics import Values, known_steps, range_words
from pgdyno.report.sections.over_seconds.timelines import BUSY
from pgdyno.report.translation import gettext

HEIGHT = 130.0
NAMES = 134.0
"""Room at the right for the names of lines."""
ROWS = 3
"""Rows of words of marks."""
WAL_COLOUR = 5


@dataclass(frozen=True, slots=True)
class Strip:
    """One measure over the trial's steps."""

    title: str
    unit: str
    lines: Mapping[str, Values]
    stacked: bool = False
    log: bool = False
    top: float | None = None
    """Upper end of the axis, if fixed."""
    rule: float | None = None
    """A dashed line: the number of processors in the chart of sessions."""
    colour: int | None = None
    """The target's colour; None if each line has its own."""
    gaps: Sequence[Sequence[int]] = ()
    """Ranges of steps without data."""
    n: str | None = None
    """Sample size, if it is not one per step."""
    hz: int | None = None
    """Samples per second that each step averages; None if its values are not samples."""


def strip_figures(trial: Mapping[str, Any], cores: int | None) -> list[Figure]:
    """Return the charts of a trial from `timeline_data`: throughput, p99, and the probe's samples."""
    strips = _strips(trial, cores)
    # reserve the same width for the labels of all, so that a second has the same position in each
    left = label_column([_tick(tick) for strip in strips for tick in _ticks(strip)])
    named = any(strip.stacked or len(strip.lines) > 1 for strip in strips)
    sides = (left, NAMES if named else 10.0)
    return [
        drawn_figure(f"strip-{at}", strip.title, partial(_drawn, trial, strip, sides, marked=at == 0))
        for at, strip in enumerate(strips)
    ]


def _strips(trial: Mapping[str, Any], cores: int | None) -> list[Strip]:
    colour, skip = trial["colour"], math.ceil(trial["warm"] / trial["step"])
    span = partial(range_words, skip=skip)
    strips = []
    # tpch has no throughput over time
    if any(value is not None for value in trial["tps"]):
        title = gettext("Throughput: {range} transactions a second", range=span(trial["tps"]))
        strips.append(Strip(title, "tps", {"": trial["tps"]}, colour=colour))
    if any(value is not None for value in trial["p99"]):
        p99 = Strip(
            gettext("p99: {range} ms, log axis", range=span(trial["p99"])),
            "ms",
            {"": trial["p99"]},
            log=True,
            colour=colour,
        )
        strips.append(p99)
    waits = trial.get("waits")
    if waits:
        most = max(waits, key=lambda name: sum(value or 0 for value in waits[name][skip:]))
        title = gettext("Active sessions: most in {wait}", wait=gettext(most))
        title += gettext("; dashed: {count} processors", count=cores) if cores else ""
        strips.append(Strip(title, "", waits, stacked=True, rule=cores, hz=trial.get("hz")))
    if trial.get("cpu"):
        parts = [values for name, values in trial["cpu"].items() if name != "iowait"]
        busy = [
            None if all(value is None for value in step) else min(sum(value or 0.0 for value in step), 100.0)
            for step in zip(*parts, strict=True)
        ]
        title = gettext("Processors of the host: {range} % busy", range=span(busy))
        strips.append(Strip(title, "%", trial["cpu"], stacked=True, top=100))
    disks = trial.get("disk") or {}
    shares = {name.removesuffix(f": {BUSY}"): disks[name] for name in disks if name.endswith(f": {BUSY}")}
    rates = {name: disks[name] for name in disks if not name.endswith(f": {BUSY}")}
    if len({name.rpartition(": ")[0] for name in rates}) == 1:
        rates = {name.rpartition(": ")[2]: of for name, of in rates.items()}
    if shares:
        name = next(iter(shares))
        strips.append(
            Strip(
                gettext("Disk ({disk}): {range} % of the time busy", disk=name, range=span(shares[name])),
                "%",
                shares,
                top=100,
            )
        )
    if rates:
        strips.append(Strip(gettext("Disks: MB a second"), "MB/s", rates))
    if trial.get("wal"):
        strips.append(
            Strip(
                gettext("WAL: {range} MB a second", range=span(trial["wal"])),
                "MB/s",
                {"": trial["wal"]},
                colour=WAL_COLOUR,
            )
        )
    strips += [
        Strip(
            each["title"],
            each["unit"],
            each["lines"],
            stacked=each.get("stack", False),
            top=each.get("high"),
            n=each.get("n"),
            gaps=each["gaps"],
        )
        for each in trial.get("cloud", ())
    ]
    return strips


def _sums(lines: Sequence[Values]) -> list[float]:
    return [sum(value or 0.0 for value in values) for values in zip(*lines, strict=True)]


def _drawn(
    trial: Mapping[str, Any], strip: Strip, sides: tuple[float, float], layout: Layout, *, marked: bool
) -> Drawing:
    drawing = Drawing(layout.width, HEIGHT, strip.title, strip.title)
    ticks = _ticks(strip)
    box = Box(sides[0], 24, layout.width - sides[1], HEIGHT - 18)
    x = Scale(0, len(trial["tps"]) * trial["step"], box.left, box.right)
    y = Scale(ticks[0], ticks[-1], box.bottom, box.top, math.log10 if strip.log else float)
    _ground(drawing, trial, box, x)
    for begin, end in strip.gaps:
        left, right = (x(at * trial["step"]) for at in (begin, end))
        drawing.add(element("rect", x=left, y=box.top, width=right - left, height=box.height, class_="shade"))
    drawing.add(text(0, 12, strip.unit, "quiet"), text(box.right, 12, _n(trial, strip), "quiet", "end"))
    for tick in ticks:
        drawing.add(line(box.left, y(tick), box.right, y(tick), "axis" if tick == 0 else "hair"))
        drawing.add(text(box.left - 8, y(tick) + 4.5, _tick(tick), anchor="end"))
    if strip.stacked:
        _stack(drawing, strip, trial["step"], x, y)
    else:
        _lines(drawing, strip, trial["step"], x, y)
    if strip.rule and strip.rule <= ticks[-1]:
        drawing.add(line(box.left, y(strip.rule), box.right, y(strip.rule), "rule"))
    _marks(drawing, trial, box, x, named=marked)
    for tick in linear_ticks(x.high, 8, WHOLE_STEPS):
        if tick <= x.high:
            drawing.add(text(x(tick), HEIGHT - 3, f"{tick:g} s" if tick == 0 else f"{tick:g}", anchor="middle"))
    return drawing


def _n(trial: Mapping[str, Any], strip: Strip) -> str:
    if strip.n is not None:
        return strip.n
    there = sum(any(value is not None for value in step) for step in zip(*strip.lines.values(), strict=True))
    count = f"{there:,}"
    if trial["step"] > 1:
        return gettext("n = {count} steps of {width} s", count=count, width=f"{trial['step']:g}")
    if strip.hz and there == 1:
        return gettext("n = 1 second, {hz} samples", hz=strip.hz)
    if strip.hz:
        return gettext("n = {count} seconds, {hz} samples each", count=count, hz=strip.hz)
    # not ngettext: the page's script, whose texts have no plurals, has the same
    return gettext("n = 1 second") if there == 1 else gettext("n = {count} seconds", count=count)


def _ticks(strip: Strip) -> list[float]:
    if strip.top is not None:
        return [0.0, strip.top / 2, strip.top]
    values = _sums(list(strip.lines.values())) if strip.stacked else [v for of in strip.lines.values() for v in of if v]
    if strip.log:
        positive = [max(value, LEAST_MS) for value in values] or [LEAST_MS]
        return log_ticks(min(positive), max(positive), 4)
    return linear_ticks(max([*values, strip.rule or 0.0], default=0.0), 3)


def _tick(value: float) -> str:
    return f"{value:,.6g}"


def _ground(drawing: Drawing, trial: Mapping[str, Any], box: Box, x: Scale) -> None:
    spans = [("shade", 0.0, trial["warm"])] if trial["warm"] > 0 else []
    for class_, begin, end in [*spans, *(("dip", *dip) for dip in trial["dips"])]:
        width = max(x(end) - x(begin), 1.0)
        drawing.add(element("rect", x=x(begin), y=box.top, width=width, height=box.height, class_=class_))


def _stack(drawing: Drawing, strip: Strip, step: float, x: Scale, y: Scale) -> None:
    runs = known_steps([any(value is not None for value in at) for at in zip(*strip.lines.values(), strict=True)])
    under = [0.0] * len(next(iter(strip.lines.values())))
    ends = []
    for name, values in strip.lines.items():
        over = [low + (value or 0.0) for low, value in zip(under, values, strict=True)]
        for run in runs:
            edge, back = (_places(run, of, step, x, y) for of in (over, under))
            drawing.add(path([*edge, *reversed(back)], TIMELINE_COLOURS.get(name, "f4"), close=True))
        if runs:
            ends.append((name, (edge[-1][1] + back[-1][1]) / 2, TIMELINE_COLOURS.get(name, "f4")))
        under = over
    # the topmost first, like the names at the side
    _names(drawing, list(reversed(ends)), x.end)


def _lines(drawing: Drawing, strip: Strip, step: float, x: Scale, y: Scale) -> None:
    ends = []
    for at, (name, values) in enumerate(strip.lines.items()):
        colour = strip.colour if strip.colour is not None else at % 6
        known = [value or 0.0 for value in values]
        runs = [_places(run, known, step, x, y) for run in known_steps([value is not None for value in values])]
        for places in runs:
            drawing.add(path(places, f"s thin t{colour}"))
        if runs:
            ends.append((name, runs[-1][-1][1], f"f{colour}"))
    if len(strip.lines) > 1:
        _names(drawing, ends, x.end)


def _places(run: range, values: Sequence[float], step: float, x: Scale, y: Scale) -> list[tuple[float, float]]:
    if len(run) == 1:
        return [(x(at * step), y(values[run[0]])) for at in (run[0], run[0] + 1)]
    return [(x((at + 0.5) * step), y(values[at])) for at in run]


def _names(drawing: Drawing, ends: Sequence[tuple[str, float, str]], right: float) -> None:
    heights = spread([y for _, y, _ in ends], 20, HEIGHT - 16)
    for (name, _, class_), height in zip(ends, heights, strict=True):
        drawing.add(element("rect", x=right + 8, y=height - 5, width=9, height=9, class_=class_))
        drawing.add(text(right + 22, height + 4.5, squeezed(gettext(name), NAMES - 26)))


def _marks(drawing: Drawing, trial: Mapping[str, Any], box: Box, x: Scale, *, named: bool) -> None:
    free = [0.0] * ROWS
    for second, word in trial["marks"]:
        at, wide = x(second), text_width(word)
        drawing.add(line(at, box.top, at, box.bottom, "rule"))
        begin = at - 3 - wide if at + 3 + wide > box.right else at + 3
        row = next((row for row, end in enumerate(free) if end <= begin), None)
        if not named or row is None or begin < box.left:
            continue
        free[row] = begin + wide + 8
        drawing.add(text(begin, box.bottom - 5 - row * 13, word, "quiet halo"))
