"""A comparison for people, in sentences."""

import math
from collections import Counter

from pgdyno.analyse.comparison import Comparison, PointComparison, Verdict, few_pairs
from pgdyno.analyse.intervals import Interval
from pgdyno.analyse.noise_floor import EFFECTS, NoiseFloor, pairs_for
from pgdyno.analyse.pairs import VERSION
from pgdyno.analyse.series import heading
from pgdyno.audit.causes import NO_CAUSE
from pgdyno.report import numbers
from pgdyno.report.table import Table
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.report.translation import enumeration, gettext, gettext_each, gettext_noop, ngettext, translate
from pgdyno.units import quantity

UNSETTLED_SHOWN = 5
MOST_PERCENT = 10_000
"""Larger changes are only noise, of too few trials of a load that hardly ran."""


def comparison_lines(of: Comparison) -> list[str]:
    """Return the comparison in sentences, the verdict first."""
    return [comparison_sentence(of), *cause_lines(of), *point_counts(of), *_unsettled_words(of)]


def comparison_sentence(of: Comparison) -> str:
    """Return the verdict, the difference and its interval in one sentence."""
    chief = of.chief
    if of.is_of_groups and chief is not None and chief.interval is not None:
        return group_sentence(of, chief)
    base, other = printable(of.base), printable(named_arm(of, of.other))
    values = {"other": other, "base": base, "metric": gettext(of.metric.words)}
    if chief is None or chief.interval is None:
        return gettext("{other} vs {base} by {metric}: too few finished trials for an interval", **values)
    verdict = gettext(_VERDICTS[chief.verdict], delta=percent(of.delta, plus=False), **values)
    change = percent(chief.change)
    level = _level(chief.interval)
    over = gettext("at {point}", point=printable(translate(chief.label)))
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
        brought = gettext(
            "{other} also brings {defaults}", other=values["other"], defaults=enumeration(list(of.brought))
        )
        said = gettext("{sentence}; {further}", sentence=said, further=brought)
    control = None if of.control is None or of.unequal_control is not None else of.control.chief
    if control is not None and control.interval is not None:
        further = gettext("control: {base} vs itself {interval}", base=base, interval=low_to_high(control.interval))
        said = gettext("{sentence}; {further}", sentence=said, further=further)
    return said


def _level(interval: Interval) -> str:
    level = f"{100 * interval.level:.3g}"
    return gettext("{level} % interval {interval}", level=level, interval=low_to_high(interval))


def group_sentence(of: Comparison, point: PointComparison) -> str:
    """Return what one group of clients does to another, that of `point`, which has an interval."""
    assert point.interval is not None
    assert of.by is not None
    key = of.by.partition(".")[2]
    base, other = (_append_value(key, value) for value in (of.base, of.other))
    values = {"group": printable(point.group or ""), "other": other, "base": base, "metric": gettext(of.metric.words)}
    verdict = gettext(_BESIDE[point.verdict], delta=percent(of.delta, plus=False), **values)
    said = numbers.ms if of.metric.is_latency else numbers.round_text
    return gettext(
        "{verdict}: {low} to {high} {unit}, {change} ({interval}), {pairs}",
        verdict=verdict,
        low=said(point.base),
        high=said(point.other),
        unit=of.metric.unit,
        change=percent(point.change),
        interval=_level(point.interval),
        pairs=ngettext("{count:,} pair", "{count:,} pairs", point.pairs),
    )


def other_groups(of: Comparison) -> list[str]:
    """Return the sentences of the groups that are not the chief one; nothing for other comparisons."""
    rest = [point for point in of.judged if point is not of.chief and point.interval is not None]
    return [group_sentence(of, point) for point in rest] if of.is_of_groups else []


def _append_value(key: str, value: str) -> str:
    group, _, name = (printable(part) for part in key.partition("."))
    if name in ("clients", "idle") and value == "0":
        return gettext("no clients of {group}", group=group)
    if name == "clients":
        return ngettext("{count:,} client of {group}", "{count:,} clients of {group}", int(value), group=group)
    if name == "idle":
        return ngettext(
            "{count:,} idle client of {group}", "{count:,} idle clients of {group}", int(value), group=group
        )
    return gettext("{group} with {key} {value}", group=group, key=name, value=printable(value))


_BESIDE = {
    Verdict.FASTER: gettext_noop("{group} is faster beside {other} than {base} by {metric}"),
    Verdict.SLOWER: gettext_noop("{group} is slower beside {other} than {base} by {metric}"),
    Verdict.SAME: gettext_noop("{group} is the same beside {other} and {base} by {metric}, within ±{delta}"),
    Verdict.INCONCLUSIVE: gettext_noop("Inconclusive: {group} beside {other} or {base} by {metric}"),
}


def named_arm(of: Comparison, arm: str) -> str:
    """Return `arm` with the name of what differs: without it, a reader of "off vs on" cannot know."""
    return arm if of.by in (None, "target", VERSION, "protocol") else f"{heading(of.by)} {arm}"


def stopping_line(of: Comparison) -> str | None:
    """Return after how many of at most how many repeats a run stopped, and why; None if their number was fixed."""
    rule = of.stopping
    if rule is None or not of.paired or not of.judged:
        return None
    counts = sorted(point.pairs for point in of.judged)
    span = f"{counts[0]:,}" if counts[0] == counts[-1] else numbers.range_text(f"{counts[0]:,}", f"{counts[-1]:,}")
    values = {"span": span, "most": f"{rule.most:,}"}
    if rule.ended == "decided":
        return gettext("stopped after {span} of at most {most} repeats: decided", **values)
    if rule.ended == "undecided":
        return gettext("{span} of at most {most} repeats, not every point was decided", **values)
    return gettext("{span} of at most {most} repeats, the run did not end", **values)


def confounded_line(of: Comparison) -> str | None:
    """Return the line before the sentence if the control is unequal, or there are confounders; otherwise None."""
    lines = [] if of.unequal_control is None else [control_line(of, of.unequal_control)]
    if of.confounders:
        lines.append(
            gettext("Confounded by {causes}: the difference may be caused by that", causes=confounder_topics(of))
        )
    return ". ".join(lines) or None


def control_line(of: Comparison, unequal: PointComparison) -> str:
    """Return that this machine cannot decide: between its two trials in a block, the baseline differs from itself."""
    assert of.control is not None
    assert unequal.interval is not None
    return gettext(
        "This machine cannot decide: {base} differs from itself by {change} ({interval}) of {metric} at {point}",
        base=printable(named_arm(of, of.control.base)),
        change=percent(unequal.change),
        interval=_level(unequal.interval),
        metric=gettext(of.metric.words),
        point=printable(translate(unequal.label)),
    )


def cause_lines(of: Comparison) -> list[str]:
    """Return a line for each cause of the difference that the run shows, or one that it shows none."""
    if of.causes == (NO_CAUSE,):
        return [translate(NO_CAUSE)]
    return [gettext("May explain it: {cause}", cause=printable(translate(each))) for each in of.causes]


def confounder_topics(of: Comparison) -> str:
    """Name the confounders, each once."""
    return enumeration([gettext(each) for each in dict.fromkeys(each.topic for each in of.confounders)])


# topics of confounders that are not names of settings: only translated here, so that the catalogue has them
gettext_each(
    "cache contents", "commit ledger", "collation", "data checksums", "dataset", "dataset size", "errors", "hardware",
    "hypervisor", "indexes", "kernel", "latency definition", "maintenance", "memory", "network path", "other load",
    "placement", "pooler", "processor", "server", "skipped transactions", "standby", "storage", "swapping", "TLS",
    "trial length", "version", "warm-up", "workers",
)  # fmt: skip
_VERDICTS = {
    Verdict.FASTER: gettext_noop("{other} is faster than {base} by {metric}"),
    Verdict.SLOWER: gettext_noop("{other} is slower than {base} by {metric}"),
    Verdict.SAME: gettext_noop("{other} is the same as {base} by {metric}, within ±{delta}"),
    Verdict.INCONCLUSIVE: gettext_noop("Inconclusive: {other} vs {base} by {metric}"),
}


def noise_blocks(of: NoiseFloor) -> list[str | Table]:
    if not of.points:
        return [f"{of.base} and {of.other} have too few pairs to estimate the noise"]
    refused = of.refusal
    if refused is None:
        floor, delta = percent(of.floor, plus=False), percent(of.delta, plus=False)
        first = f"Noise floor: two equal arms differ by at most {floor} on this set-up"
        blocks: list[str | Table] = [f"{first}; differences within ±{delta} count as none"]
    else:
        blocks = [f"Not usable as a noise floor: {refused.why}", f"remedy: {refused.remedy}"]
    rows = tuple(
        (
            str(point.label),
            percent(math.expm1(point.interval.mean)),
            low_to_high(point.interval),
            f"{percent(point.spread, plus=False)} ({_percent_range(point.spread_low, point.spread_high)})",
            str(point.pairs),
        )
        for point in of.points
    )
    headings = ("point", "difference", "interval", "one pair varies by", "pairs")
    blocks.append(Table("", headings, rows, 1, (0,) * len(headings)))
    worst = max(of.points, key=lambda point: point.spread)
    needs = [(effect, pairs_for(effect, worst.planning_spread, of.delta)) for effect in EFFECTS if effect > of.delta]
    words = [f"{percent(effect, plus=False)}: {pairs or 'over 1,000'}" for effect, pairs in needs]
    if words and refused is None:
        blocks.append(f"Pairs needed to find a true difference with a chance of 80 %: {', '.join(words)}")
    return blocks


def percent(ratio: float, *, plus: bool = True) -> str:
    """Return `+4.2 %` for 0.042: two decimal places below 1 %, none from 100 % on, and `>10,000 %` beyond that."""
    size = abs(100 * ratio)
    if size > MOST_PERCENT:
        return f">{MOST_PERCENT:,} %"
    digits = 2 if size < 0.995 else 1 if size < 99.95 else 0
    return f"{100 * ratio:{'+' if plus else ''},.{digits}f} %"


def low_to_high(interval: Interval) -> str:
    return _percent_range(math.expm1(interval.low), math.expm1(interval.high), plus=True)


def _percent_range(low: float, high: float, *, plus: bool = False) -> str:
    return numbers.range_text(percent(low, plus=plus).removesuffix(" %"), percent(high, plus=plus))


def point_counts(of: Comparison) -> list[str]:
    """Return how often each verdict occurs; nothing for a comparison at one point."""
    if of.is_of_groups:
        return other_groups(of)
    if len(of.judged) < 2:
        return []
    counts = Counter(point.verdict for point in of.judged)
    words = [
        gettext("{verdict} at {count}", verdict=gettext(verdict.value), count=counts[verdict])
        for verdict in Verdict
        if counts[verdict]
    ]
    return [gettext("Of {count} points: {verdicts}", count=len(of.judged), verdicts=gettext(", ").join(words))]


def _unsettled_words(of: Comparison) -> list[str]:
    unsettled = [point for point in of.judged if point.verdict is Verdict.INCONCLUSIVE]
    lines = [
        f"{printable(str(point.label))}: no verdict: {printable(translate(point.reason))}"
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
        lines.append(f"and {quantity(len(unsettled) - UNSETTLED_SHOWN, 'more inconclusive point')}")
    return lines


def new_run_words(point: PointComparison, pairs: int | None, instances: int | None, *, paired: bool) -> str:
    """Describe the new run that would reach a verdict: adding pairs to the present ones is not valid."""
    if point.interval is None:
        return translate(few_pairs((), paired=paired))
    if point.instances > 1 and instances is None:
        return gettext(
            "even a new run with 1,000 instances might not reach a verdict: the instances vary too much to tell the "
            "difference from the largest that counts as none"
        )
    if point.instances > 1:
        return gettext(
            "a new run with about {count} instances of each target would reach a verdict with a chance of 80 %",
            count=f"{instances:,}",
        )
    if paired and pairs is None:
        return gettext(
            "even a new run of 1,000 pairs might not reach a verdict: the trials vary too much to tell the difference "
            "from the largest that counts as none"
        )
    if pairs is None:
        return gettext(
            "even two new runs of 1,000 trials per point might not reach a verdict: the trials vary too much to tell "
            "the difference from the largest that counts as none"
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


def next_step(of: Comparison) -> str:
    """Return how to reach a verdict on an inconclusive comparison; empty if there is one."""
    chief = of.chief
    if chief is None or chief.interval is None:
        return gettext("An interval needs at least two pairs, a claim six")
    if chief.verdict is not Verdict.INCONCLUSIVE:
        return ""
    needed = new_run_words(chief, chief.new_run_pairs, chief.new_run_instances, paired=of.paired)
    if chief.detectable is None:
        return needed
    could = percent(chief.detectable, plus=False)
    return gettext("Smallest detectable difference: {effect}; {needed}", effect=could, needed=needed)
