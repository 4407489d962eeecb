"""The content of the page of two compared runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from pgdyno.analyse.comparison import Comparison, Verdict, compare
from pgdyno.analyse.intervals import Interval
from pgdyno.analyse.pairs import Metric
from pgdyno.fingerprint import Difference, Weight, comparable
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import comparison_sentence, confounded_line, low_to_high, percent
from pgdyno.report.numbers import NOTHING
from pgdyno.report.several_runs import arms_between
from pgdyno.store import RunData

PLOT_WIDTH, PLOT_HEIGHT = 240, 20
COLOURS = {Verdict.FASTER: "good", Verdict.SLOWER: "bad", Verdict.INCONCLUSIVE: "amber", Verdict.SAME: ""}


@dataclass(frozen=True, slots=True)
class ComparedRow:
    label: str
    base: str
    other: str
    change: str
    interval: str
    pairs: int
    plot: Markup
    verdict: str
    colour: str


@dataclass(frozen=True, slots=True)
class Compared:
    headline: str
    sentences: list[str]
    rows: list[ComparedRow]
    differences: list[Difference]
    unit: str
    plot_heading: str


def compare_runs(base: RunData, other: RunData, metric: Metric) -> Compared:
    """Compare `other` with `base`. Raises UsageError if they have no point in common."""
    (found,) = compare([arms_between(base, other, metric)])
    before, after = base.manifest.fingerprint, other.manifest.fingerprint
    known = before is not None and after is not None
    differences = comparable(before, after) if before is not None and after is not None else []
    confounded = confounded_line(found)
    sentences = [] if confounded is None else [f"{confounded}."]
    sentences += (
        [] if known else ["The fingerprint of the runs is not recorded: they may have run on different machines."]
    )
    sentences += [f"{each[:1].upper()}{each[1:]}." for each in map(str, found.warnings)]
    if found.unmatched:
        sentences.append(f"Only in one of the runs: {', '.join(map(str, found.unmatched))}.")
    return Compared(
        headline=comparison_sentence(found),
        sentences=sentences,
        rows=_rows(found),
        differences=[each for each in differences if each.severity is not Weight.HARMLESS],
        unit="tps" if metric is Metric.TPS else f"{metric.value}, ms",
        plot_heading=f"no difference, and ±{percent(found.delta, plus=False)}",
    )


def _rows(of: Comparison) -> list[ComparedRow]:
    show = numbers.rounded if of.metric is Metric.TPS else numbers.ms
    intervals = [point.interval for point in of.points if point.interval is not None]
    edge = math.log1p(of.delta)
    reach = max([1.5 * edge, *(max(abs(each.low), abs(each.high)) for each in intervals)])
    return [
        ComparedRow(
            label=str(point.label),
            base=show(point.base),
            other=show(point.other),
            change=percent(point.change) if math.isfinite(point.change) else NOTHING,
            interval=low_to_high(point.interval) if point.interval is not None else NOTHING,
            pairs=point.pairs,
            plot=_plot(point.interval, edge, reach),
            verdict=point.verdict.value,
            colour=COLOURS[point.verdict],
        )
        for point in of.points
    ]


def _plot(interval: Interval | None, edge: float, reach: float) -> Markup:
    """Draw a row of a forest plot from -reach to reach: the band of no difference, zero, the interval and its mean."""

    def at(log_ratio: float) -> float:
        return round((log_ratio / reach + 1) / 2 * (PLOT_WIDTH - 12) + 6, 1)

    middle = PLOT_HEIGHT / 2
    shapes = [
        f'<rect class="band" x="{at(-edge)}" y="0" width="{round(at(edge) - at(-edge), 1)}" height="{PLOT_HEIGHT}"/>',
        f'<line class="none" x1="{at(0)}" x2="{at(0)}" y1="0" y2="{PLOT_HEIGHT}"/>',
    ]
    if interval is not None:
        low, high = at(interval.low), at(interval.high)
        shapes.append(f'<line class="reach" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>')
        shapes.append(f'<circle class="mean" cx="{at(interval.mean)}" cy="{middle}" r="4"/>')
    size = f'width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}"'
    # only figures: no text from outside is in it
    return Markup(f'<svg class="forest" {size} aria-hidden="true">{"".join(shapes)}</svg>')  # noqa: S704
