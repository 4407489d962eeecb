"""A comparison for people: a sentence first, then a line a point with its interval drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pgdyno.analyse.compare import Comparison, PointComparison, Verdict
from pgdyno.analyse.interval import Interval
from pgdyno.analyse.metric import Metric
from pgdyno.analyse.noise import EFFECTS, NoiseFloor, pairs_for
from pgdyno.report import numbers
from pgdyno.report.blocks import printable
from pgdyno.report.forest import ASCII, UNICODE, Forest

LABEL = 22
WITH_FIGURES = 100
"""Columns from which on the two figures have room beside the interval."""
NARROWEST_PLOT, WIDEST_PLOT = 8, 40
UNSETTLED_SHOWN = 5


def comparison_lines(of: Comparison, width: int, *, unicode: bool = True) -> list[str]:
    """The comparison in lines that are not wrapped yet where they are sentences, and fit `width` where a table."""
    sentences = [sentence(of), *_counts(of), *_unsettled(of)]
    table = comparison_table(of, width, unicode=unicode)
    return [sentences[0], *sentences[1:2], "", *table, "", *sentences[2:]] if table else sentences


def sentence(of: Comparison) -> str:
    """What is to be said in one sentence: the verdict, the difference and its interval."""
    chief = of.chief
    base, other = printable(of.base), printable(of.other)
    if chief is None or chief.interval is None:
        return f"{other} beside {base}, by {of.metric.words}: too few results for an interval"
    verdict = {
        Verdict.FASTER: f"{other} is faster than {base} by {of.metric.words}",
        Verdict.SLOWER: f"{other} is slower than {base} by {of.metric.words}",
        Verdict.SAME: f"{other} is the same as {base} by {of.metric.words}, within ±{percent(of.delta, plus=False)}",
        Verdict.INCONCLUSIVE: f"Inconclusive: {other} beside {base} by {of.metric.words}",
    }[chief.verdict]
    what = f"{numbers.count(chief.pairs, 'pair')}" if of.paired else f"{numbers.count(chief.pairs, 'trial')} a run"
    over = f" over {len(of.points)} points" if len(of.points) > 1 else f" at {printable(chief.label)}"
    level = f"{100 * chief.interval.level:.3g} % interval {low_to_high(chief.interval)}"
    return f"{verdict}: {percent(chief.change)} ({level}){over}, {what}"


def comparison_table(of: Comparison, width: int, *, unicode: bool = True) -> list[str]:
    """Headings and a line a point: change, interval, pairs, plot, verdict; the figures too where there is room."""
    figures = width >= WITH_FIGURES
    rows = [_cells(point, of, figures=figures) for point in of.points]
    headings = ["point", *((_cut(of.base, 14), _cut(of.other, 14)) if figures else ()), "change", "interval", "n"]
    if figures and of.metric is not Metric.TPS:
        headings[1:3] = [f"{heading} ms" for heading in headings[1:3]]
    widths = [max(len(row[at]) for row in [headings, *rows]) for at in range(len(headings))]
    verdicts = max(len(point.verdict.value) for point in of.points) if of.points else 0
    room = width - sum(widths) - 2 * len(widths) - 2 - verdicts
    intervals = [point.interval for point in of.points if point.interval is not None]
    forest = None
    if room >= NARROWEST_PLOT:
        glyphs = UNICODE if unicode else ASCII
        forest = Forest.of(intervals, math.log1p(of.delta), min(room, WIDEST_PLOT), glyphs)
    lines = [_line(headings, widths)]
    for point, row in zip(of.points, rows, strict=True):
        plot = [forest.line(point.interval)] if forest else []
        lines.append("  ".join([_line(row, widths), *plot, point.verdict.value]))
    if forest:
        edges = f"{glyphs.zero} no difference, {glyphs.edge} ±{percent(of.delta, plus=False)}"
        lines.append(" " * (sum(widths) + 2 * len(widths)) + edges)
    return lines


def noise_lines(of: NoiseFloor) -> list[str]:
    """What an A/A run says."""
    if not of.points:
        return [f"{of.base} and {of.other} have too few pairs to say anything of the noise"]
    said = (
        f"Noise floor: two equal arms differ by no more than {percent(of.floor, plus=False)} here; "
        f"differences within ±{percent(of.delta, plus=False)} count as none"
    )
    lines = [said, ""]
    rows = [["point", "difference", "interval", "one pair varies by", "pairs"]]
    for point in of.points:
        spread = f"{percent(point.spread, plus=False)} ({_to(point.spread_low, point.spread_high)})"
        change = percent(math.expm1(point.interval.mean))
        rows.append([_cut(point.label, LABEL), change, low_to_high(point.interval), spread, str(point.pairs)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines += [_line(row, widths) for row in rows]
    worst = max(of.points, key=lambda point: point.spread)
    needs = [(effect, pairs_for(effect, worst.spread, of.delta)) for effect in EFFECTS if effect > of.delta]
    words = [f"{percent(effect, plus=False)}: {pairs or 'over 1,000'}" for effect, pairs in needs]
    if words:
        lines += ["", f"Pairs needed to find a true difference with a chance of 80 %: {', '.join(words)}"]
    return lines


def percent(ratio: float, *, plus: bool = True) -> str:
    """`+4.2 %` for 0.042: two digits behind the point below 1 %, none from 100 % on."""
    size = abs(100 * ratio)
    digits = 2 if size < 0.995 else 1 if size < 99.95 else 0
    return f"{100 * ratio:{'+' if plus else ''},.{digits}f} %"


def low_to_high(interval: Interval) -> str:
    """`+3.1 to +5.3 %`."""
    return _to(math.expm1(interval.low), math.expm1(interval.high), plus=True)


def _to(low: float, high: float, *, plus: bool = False) -> str:
    return f"{percent(low, plus=plus).removesuffix(' %')} to {percent(high, plus=plus)}"


def _counts(of: Comparison) -> list[str]:
    if len(of.points) < 2:
        return []
    counts = Counter(point.verdict for point in of.points)
    words = [f"{verdict.value} at {counts[verdict]}" for verdict in Verdict if counts[verdict]]
    return [f"Of {len(of.points)} points: {', '.join(words)}"]


def _unsettled(of: Comparison) -> list[str]:
    """What the pairs could have shown, and how many more it takes, for each point that is inconclusive."""
    unsettled = [point for point in of.points if point.verdict is Verdict.INCONCLUSIVE]
    lines = []
    for point in unsettled[:UNSETTLED_SHOWN]:
        could = ""
        if point.detectable is not None:
            what = "pairs" if of.paired else "trials"
            could = f"these {what} could have shown {percent(point.detectable, plus=False)}; "
        lines.append(f"{printable(point.label)}: {could}{more_pairs(point.pairs_needed, paired=of.paired)}")
    if len(unsettled) > UNSETTLED_SHOWN:
        lines.append(f"and {len(unsettled) - UNSETTLED_SHOWN} more points that are inconclusive")
    return lines


def more_pairs(needed: int | None, *, paired: bool) -> str:
    """How many further pairs would settle it, in words."""
    one = "pair" if paired else "trial of each"
    many = "pairs" if paired else "trials of each"
    if needed is None:
        return f"even 1,000 more {many} would not settle it: the difference is about what counts as none"
    return f"about {needed:,} more {one if needed == 1 else many} would settle it"


def _cells(point: PointComparison, of: Comparison, *, figures: bool) -> list[str]:
    interval = low_to_high(point.interval) if point.interval is not None else numbers.NOTHING
    change = percent(point.change) if math.isfinite(point.change) else numbers.NOTHING
    cells = [_cut(point.label, LABEL)]
    if figures:
        show = numbers.ms if of.metric is not Metric.TPS else numbers.rounded
        cells += [show(point.base), show(point.other)]
    return [*cells, change, interval, str(point.pairs)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(each) if at == 0 else cell.rjust(each)
        for at, (cell, each) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip() if len(cells[-1]) == 0 else "  ".join(padded)


def _cut(text: str, width: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
