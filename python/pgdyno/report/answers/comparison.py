"""A comparison for people: a sentence first, then a line per point with a plot of its interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len

from pgdyno.analyse.comparison import Comparison, PointComparison, Verdict, few_pairs
from pgdyno.analyse.intervals import Interval
from pgdyno.analyse.noise_floor import EFFECTS, NoiseFloor, pairs_for
from pgdyno.analyse.pairs import VERSION
from pgdyno.analyse.series import heading
from pgdyno.report import numbers
from pgdyno.report.terminal.forest_plot import ASCII, UNICODE, Forest
from pgdyno.report.terminal.text_drawing import cut, printable
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, listed, ngettext, translated
from pgdyno.units import counted

LABEL = 22
COLUMNS = 80
"""Width of the table of a noise floor."""
WITH_FIGURES = 100
"""Width from which on the two figures are shown next to the interval."""
NARROWEST_PLOT, WIDEST_PLOT = 8, 40
UNSETTLED_SHOWN = 5
MOST_PERCENT = 10_000
"""Larger changes are only noise, of too few trials of a load that hardly ran."""


def comparison_lines(of: Comparison, width: int, *, unicode: bool = True) -> list[str]:
    """Return the comparison: sentences are not wrapped yet, the table fits `width`."""
    sentences = [comparison_sentence(of), *point_counts(of), *_unsettled(of)]
    table = comparison_table(of, width, unicode=unicode) if of.points else []
    after = ["", *sentences[2:]] if sentences[2:] else []
    return [sentences[0], *sentences[1:2], "", *table, *after] if table else sentences


def comparison_sentence(of: Comparison) -> str:
    """Return the verdict, the difference and its interval in one sentence."""
    chief = of.chief
    base, other = printable(of.base), printable(named_arm(of, of.other))
    values = {"other": other, "base": base, "metric": gettext(of.metric.words)}
    if chief is None or chief.interval is None:
        return gettext("{other} vs {base} by {metric}: too few finished trials for an interval", **values)
    verdict = gettext(_VERDICTS[chief.verdict], delta=percent(of.delta, plus=False), **values)
    change = percent(chief.change)
    level = gettext(
        "{level} % interval {interval}", level=f"{100 * chief.interval.level:.3g}", interval=low_to_high(chief.interval)
    )
    over = gettext("at {point}", point=printable(translated(chief.label)))
    if len(of.judged) > 1:
        over = gettext("over {count} points", count=len(of.judged))
    pairs = ngettext("{count:,} pair", "{count:,} pairs", chief.pairs)
    if not of.paired:
        pairs = ngettext("{count:,} trial per run", "{count:,} trials per run", chief.pairs)
    if chief.duet:
        pairs = gettext("{pairs} at the same time", pairs=pairs)
    if chief.instances > 1:
        pairs = gettext("{pairs} on {count} instances", pairs=pairs, count=chief.instances)
    said = gettext(
        "{verdict}: {change} ({interval}) {over}, {pairs}",
        verdict=verdict,
        change=change,
        interval=level,
        over=over,
        pairs=pairs,
    )
    stopped = stopping_line(of)
    if stopped is not None:
        said = gettext("{sentence}; {further}", sentence=said, further=stopped)
    if of.brought:
        brought = gettext("{other} also brings {defaults}", other=values["other"], defaults=listed(list(of.brought)))
        said = gettext("{sentence}; {further}", sentence=said, further=brought)
    return said


def named_arm(of: Comparison, arm: str) -> str:
    """Return `arm` with the name of what differs: without it, a reader of "off vs on" cannot know."""
    return arm if of.by in (None, "target", VERSION, "protocol") else f"{heading(of.by)} {arm}"


def stopping_line(of: Comparison) -> str | None:
    """Return after how many of at most how many repeats a run stopped, and why; None if their number was fixed."""
    rule = of.stopping
    if rule is None or not of.paired or not of.judged:
        return None
    counts = sorted(point.pairs for point in of.judged)
    span = f"{counts[0]:,}" if counts[0] == counts[-1] else numbers.between(f"{counts[0]:,}", f"{counts[-1]:,}")
    values = {"span": span, "most": f"{rule.most:,}"}
    if rule.ended == "decided":
        return gettext("stopped after {span} of at most {most} repeats: decided", **values)
    if rule.ended == "undecided":
        return gettext("{span} of at most {most} repeats, not every point was decided", **values)
    return gettext("{span} of at most {most} repeats, the run did not end", **values)


def confounded_line(of: Comparison) -> str | None:
    """Return the line before the sentence if there are confounders; otherwise None."""
    if not of.confounders:
        return None
    return gettext("Confounded by {causes}: the difference may be caused by that", causes=confounding(of))


def confounding(of: Comparison) -> str:
    """Name the confounders, each once."""
    return listed([gettext(each) for each in dict.fromkeys(each.topic for each in of.confounders)])


_TOPICS = (
    gettext_noop("cache contents"),
    gettext_noop("commit ledger"),
    gettext_noop("collation"),
    gettext_noop("data checksums"),
    gettext_noop("dataset"),
    gettext_noop("dataset size"),
    gettext_noop("errors"),
    gettext_noop("hardware"),
    gettext_noop("hypervisor"),
    gettext_noop("indexes"),
    gettext_noop("kernel"),
    gettext_noop("latency definition"),
    gettext_noop("maintenance"),
    gettext_noop("memory"),
    gettext_noop("network path"),
    gettext_noop("other load"),
    gettext_noop("placement"),
    gettext_noop("processor"),
    gettext_noop("skipped transactions"),
    gettext_noop("storage"),
    gettext_noop("swapping"),
    gettext_noop("trial length"),
    gettext_noop("version"),
    gettext_noop("warm-up"),
    gettext_noop("workers"),
)
"""Topics of confounders that are not names of settings."""

_VERDICTS = {
    Verdict.FASTER: gettext_noop("{other} is faster than {base} by {metric}"),
    Verdict.SLOWER: gettext_noop("{other} is slower than {base} by {metric}"),
    Verdict.SAME: gettext_noop("{other} is the same as {base} by {metric}, within ±{delta}"),
    Verdict.INCONCLUSIVE: gettext_noop("Inconclusive: {other} vs {base} by {metric}"),
}


def comparison_table(of: Comparison, width: int, *, unicode: bool = True) -> list[str]:
    """Return headings and a line per point: change, interval, pairs, plot, verdict; the figures too if there is
    room.
    """
    figures = width >= WITH_FIGURES
    rows = [_cells(point, of, figures=figures) for point in of.points]
    names = (_cut(of.base, 14), _cut(of.other, 14)) if figures else ()
    headings = [gettext("point"), *names, *gettext_each("change", "interval"), "n"]
    if figures and of.metric.is_latency:
        headings[1:3] = [f"{heading} ms" for heading in headings[1:3]]
    widths = [max(cell_len(row[at]) for row in [headings, *rows]) for at in range(len(headings))]
    verdicts = max(cell_len(gettext(point.verdict.value)) for point in of.points) if of.points else 0
    room = width - sum(widths) - 2 * len(widths) - 2 - verdicts
    intervals = [point.interval for point in of.points if point.interval is not None]
    forest = None
    if room >= NARROWEST_PLOT:
        glyphs = UNICODE if unicode else ASCII
        forest = Forest.of(intervals, math.log1p(of.delta), min(room, WIDEST_PLOT), glyphs)
    lines = [_line(headings, widths)]
    for point, row in zip(of.points, rows, strict=True):
        plot = [forest.line(point.interval)] if forest else []
        lines.append("  ".join([_line(row, widths), *plot, gettext(point.verdict.value)]))
    if forest:
        edges = gettext(
            "{zero} no difference, {edge} ±{delta}",
            zero=glyphs.zero,
            edge=glyphs.edge,
            delta=percent(of.delta, plus=False),
        )
        lines.append(" " * (sum(widths) + 2 * len(widths)) + edges)
    return lines


def noise_lines(of: NoiseFloor) -> list[str]:
    if not of.points:
        return [f"{of.base} and {of.other} have too few pairs to estimate the noise"]
    refused = of.refusal
    if refused is None:
        floor, delta = percent(of.floor, plus=False), percent(of.delta, plus=False)
        first = f"Noise floor: two equal arms differ by at most {floor} on this set-up"
        lines = [f"{first}; differences within ±{delta} count as none"]
    else:
        lines = [f"Not usable as a noise floor: {refused.why}", f"remedy: {refused.remedy}"]
    lines.append("")
    rows = [["point", "difference", "interval", "one pair varies by", "pairs"]]
    for point in of.points:
        spread = f"{percent(point.spread, plus=False)} ({_to(point.spread_low, point.spread_high)})"
        change = percent(math.expm1(point.interval.mean))
        rows.append([_cut(str(point.label), LABEL), change, low_to_high(point.interval), spread, str(point.pairs)])
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]))]
    widths[0] -= max(sum(widths) + 2 * len(widths) - 2 - COLUMNS, 0)
    lines += [_line([_cut(row[0], widths[0]), *row[1:]], widths) for row in rows]
    worst = max(of.points, key=lambda point: point.spread)
    needs = [(effect, pairs_for(effect, worst.planning_spread, of.delta)) for effect in EFFECTS if effect > of.delta]
    words = [f"{percent(effect, plus=False)}: {pairs or 'over 1,000'}" for effect, pairs in needs]
    if words and refused is None:
        lines += ["", f"Pairs needed to find a true difference with a chance of 80 %: {', '.join(words)}"]
    return lines


def percent(ratio: float, *, plus: bool = True) -> str:
    """Return `+4.2 %` for 0.042: two decimal places below 1 %, none from 100 % on, and `>10,000 %` beyond that."""
    size = abs(100 * ratio)
    if size > MOST_PERCENT:
        return f">{MOST_PERCENT:,} %"
    digits = 2 if size < 0.995 else 1 if size < 99.95 else 0
    return f"{100 * ratio:{'+' if plus else ''},.{digits}f} %"


def low_to_high(interval: Interval) -> str:
    return _to(math.expm1(interval.low), math.expm1(interval.high), plus=True)


def _to(low: float, high: float, *, plus: bool = False) -> str:
    return numbers.between(percent(low, plus=plus).removesuffix(" %"), percent(high, plus=plus))


def point_counts(of: Comparison) -> list[str]:
    """Return how often each verdict occurs; nothing for a comparison at one point."""
    if len(of.judged) < 2:
        return []
    counts = Counter(point.verdict for point in of.judged)
    words = [
        gettext("{verdict} at {count}", verdict=gettext(verdict.value), count=counts[verdict])
        for verdict in Verdict
        if counts[verdict]
    ]
    return [gettext("Of {count} points: {verdicts}", count=len(of.judged), verdicts=gettext(", ").join(words))]


def _unsettled(of: Comparison) -> list[str]:
    unsettled = [point for point in of.judged if point.verdict is Verdict.INCONCLUSIVE]
    lines = [
        f"{printable(str(point.label))}: no verdict: {printable(translated(point.reason))}"
        for point in of.points
        if point.reason
    ]
    for point in unsettled[:UNSETTLED_SHOWN]:
        could = ""
        if point.detectable is not None:
            could = f"smallest detectable difference: {percent(point.detectable, plus=False)}; "
        needed = new_run_words(point, point.new_run_pairs, point.new_run_instances, paired=of.paired)
        lines.append(f"{printable(str(point.label))}: {could}{needed}")
    if len(unsettled) > UNSETTLED_SHOWN:
        lines.append(f"and {counted(len(unsettled) - UNSETTLED_SHOWN, 'more inconclusive point')}")
    return lines


def new_run_words(point: PointComparison, pairs: int | None, instances: int | None, *, paired: bool) -> str:
    """Describe the new run that would reach a verdict: adding pairs to the present ones is not valid."""
    if point.interval is None:
        return translated(few_pairs((), paired=paired))
    if point.instances > 1 and instances is None:
        return gettext(
            "even a new run with 1,000 instances would not reach a verdict: the difference is about as large as the "
            "largest that counts as none"
        )
    if point.instances > 1:
        return gettext(
            "a new run with about {count} instances of each target would reach a verdict with a chance of 80 %",
            count=f"{instances:,}",
        )
    if paired and pairs is None:
        return gettext(
            "even a new run of 1,000 pairs would not reach a verdict: the difference is about as large as the "
            "largest that counts as none"
        )
    if pairs is None:
        return gettext(
            "even two new runs of 1,000 trials per point would not reach a verdict: the difference is about as "
            "large as the largest that counts as none"
        )
    if paired:
        return gettext(
            "a new run of about {count} pairs, analysed without these, would reach a verdict with a chance of 80 %",
            count=f"{pairs:,}",
        )
    return gettext(
        "two new runs of about {count} trials per point, analysed without these, would reach a verdict with a "
        "chance of 80 %",
        count=f"{pairs:,}",
    )


def _cells(point: PointComparison, of: Comparison, *, figures: bool) -> list[str]:
    interval = low_to_high(point.interval) if point.interval is not None else numbers.NOTHING
    change = percent(point.change) if math.isfinite(point.change) else numbers.NOTHING
    cells = [_cut(translated(point.label), LABEL)]
    if figures:
        show = numbers.ms if of.metric.is_latency else numbers.rounded
        cells += [show(point.base), show(point.other)]
    return [*cells, change, interval, str(point.pairs)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        " " * (each - cell_len(cell)) if at else cell + " " * (each - cell_len(cell))
        for at, (cell, each) in enumerate(zip(cells, widths, strict=True))
    ]
    padded = [space if at == 0 else space + cell for at, (space, cell) in enumerate(zip(padded, cells, strict=True))]
    return "  ".join(padded).rstrip() if len(cells[-1]) == 0 else "  ".join(padded)


def _cut(text: str, width: int) -> str:
    return cut(printable(text), width)
