"""One figure over many runs: each run, its levels, and where they changed."""

from collections.abc import Sequence
from itertools import pairwise

from pgdyno.analyse.history import Change, History
from pgdyno.analyse.pairs import Metric
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.charts.labels import Placer, Rect
from pgdyno.report.charts.layout import CHART_HEIGHT, Box, Layout, label_column, n_title, y_axis
from pgdyno.report.charts.svg import Drawing, Scale, element, line, linear_ticks, text, text_width
from pgdyno.report.translation import gettext_noop


def history_chart(of: History, metric: Metric, title: str, layout: Layout) -> Drawing:
    """Draw runs from left to right in order, the figure from zero; levels as lines, changes with their size."""
    unit = 1e6 if metric.is_latency else 1.0
    figures = [point.figure / unit for point in of.points]
    drawing = Drawing(layout.width, CHART_HEIGHT, title, _description(of))
    ticks = linear_ticks(max(figures), 4)
    box = Box(label_column([f"{tick:,.6g}" for tick in ticks]), 30, layout.width - 10, CHART_HEIGHT - 24)
    x = Scale(0, max(len(figures) - 1, 1), box.left + 8, box.right - 8)
    y = Scale(0, ticks[-1], box.bottom, box.top)
    heading = "transactions a second" if metric is Metric.TPS else f"{metric.words}, {metric.unit}"
    y_axis(drawing, box, y, ticks, lambda tick: f"{tick:,.6g}", heading)
    n_title(drawing, [len(figures)], gettext_noop("n = {count} runs"), heading)
    for at, (point, figure) in enumerate(zip(of.points, figures, strict=True)):
        shown = numbers.round_text(figure)
        hint = f"{point.run}: {shown}, {point.started_at:%Y-%m-%d %H:%M} UTC, {numbers.trials(point.trials)}"
        drawing.add(element("circle", element("title", hint), cx=x(at), cy=y(figure), r=3.0, class_="f0"))
    _levels(drawing, of, figures, x, y, box)
    _days(drawing, of, x, box)
    return drawing


def _levels(drawing: Drawing, of: History, figures: Sequence[float], x: Scale, y: Scale, box: Box) -> None:
    changes: Sequence[Change] = of.changes or ()
    unit = figures[0] / of.points[0].figure
    placer = Placer(Rect(box.left, box.top - 16, box.right + 8, box.bottom))
    placer.take_line([(x(at), y(figure)) for at, figure in enumerate(figures)])
    for at, (begin, end) in enumerate(pairwise([0, *(each.at for each in changes), len(figures)])):
        if changes:
            level = (changes[at].before if at < len(changes) else changes[-1].after) * unit
            drawing.add(line(x(begin) - 4, y(level), x(end - 1) + 4, y(level), "s t0"))
    for each in changes:
        where = (x(each.at) + x(each.at - 1)) / 2
        drawing.add(line(where, box.top, where, box.bottom, "rule"))
        words = percent(each.ratio)
        spot = placer.place(words, where, y(max(each.before, each.after) * unit) - 4)
        if spot is not None:
            drawing.add(text(spot.x, spot.y, words, "name halo", spot.anchor))


def _days(drawing: Drawing, of: History, x: Scale, box: Box) -> None:
    free = box.left
    last = len(of.points) - 1
    wanted = sorted({0, last, *(each.at for each in of.changes or ())})
    end = x(last) - text_width(f"{of.points[last].started_at:%Y-%m-%d}") - 8
    for at in wanted:
        day = f"{of.points[at].started_at:%Y-%m-%d}"
        width = text_width(day)
        if at == last and last > 0:
            drawing.add(text(box.right, box.bottom + 18, day, anchor="end"))
        elif x(at) - (0 if at == 0 else width / 2) >= free and x(at) + width / 2 <= end:
            drawing.add(text(x(at), box.bottom + 18, day, anchor="start" if at == 0 else "middle"))
            free = x(at) + width + 8


def _description(of: History) -> str:
    changes = [f"{percent(each.ratio)} at run {each.at + 1}" for each in of.changes or ()]
    said = "; ".join(changes) if changes else "too few runs for changes" if of.changes is None else "no change"
    return f"{len(of.points):,} runs from left to right in their order. {said}."
