"""The answers of searches: the cheapest target that keeps the promise, and settings with a confirmed difference."""

from pgdyno.records import ConfirmedDifference, Manifest, SearchRecord, SettingLine, TargetVerdict
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.table import Table
from pgdyno.report.translation import capital, gettext, gettext_each, gettext_noop, translate


def cheapest_text(found: SearchRecord) -> tuple[str, tuple[str, ...]]:
    """Return the answer in one sentence, and what else the search found."""
    text, *others = (translate(each.message) for each in found.messages)
    return f"{capital(text)} ({numbers.trials(found.trials)})", tuple(others)


def cheapest_table(found: SearchRecord) -> Table:
    """Return a row for each target, from the cheapest to the most expensive."""
    figure = found.latency.partition("<")[0].strip() if isinstance(found.latency, str) else gettext("latency")
    headings = (
        *gettext_each("target", "verdict"),
        gettext("{currency} an hour", currency=found.currency or ""),
        f"{figure}, ms",
        *gettext_each("95 % interval", "margin, %"),
    )
    caption = gettext("Targets by price; the margin is that of the interval to the limit, negative above it")
    return Table(caption, headings, tuple(map(_row, found.targets)), 2)


def _row(of: TargetVerdict) -> tuple[str, ...]:
    verdicts = {
        "kept": gettext("kept"),
        "failed": gettext("failed"),
        "undecided": gettext("undecided"),
        "unmeasured": gettext("not measured"),
        "untried": gettext("not tried"),
    }
    cells = of.target, verdicts.get(of.verdict, of.verdict), numbers.round_text(of.price)
    if of.latency_ns is None or of.latency_low_ns is None or of.latency_high_ns is None or of.limit_ns is None:
        return (*cells, *(numbers.NOTHING,) * 3)
    # the end of the interval that is nearer to the limit; none if the limit is within it
    ends_ns = of.latency_high_ns, of.latency_low_ns
    margins = [1 - end / of.limit_ns for end in ends_ns]
    outside = margins[0] if margins[0] > 0 else margins[1] if margins[1] < 0 else None
    interval = numbers.range_text(numbers.ms(of.latency_low_ns), numbers.ms(of.latency_high_ns))
    margin = numbers.NOTHING if outside is None else numbers.round_text(100 * outside, 2)
    return (*cells, numbers.ms(of.latency_ns), interval, margin)


_GOALS = {
    "tps": gettext_noop("throughput"),
    "p99": gettext_noop("p99 latency"),
    "mean": gettext_noop("mean latency"),
    "price": gettext_noop("price of a million transactions"),
}


def goal_words(found: SearchRecord) -> str:
    return gettext(_GOALS[found.goal or "tps"])


def confirmed_search(of: Manifest) -> tuple[SearchRecord, ConfirmedDifference] | None:
    """Return the search for settings of a run with its pairs, which decide on the result; None without any."""
    if not of.finds_settings or not of.search or of.search[0].confirmed is None:
        return None
    return of.search[0], of.search[0].confirmed


def confirmed_title(found: SearchRecord) -> str:
    if found.settings:
        return gettext("The configuration found is better: the interval is outside the band")
    return gettext("No configuration is confirmed: the interval touches the band, or a promise was broken")


def settings_text(found: SearchRecord) -> tuple[str, tuple[str, ...]]:
    """Return the answer in one sentence, and what else the search found."""
    text, *others = (translate(each.message) for each in found.messages)
    if found.settings:
        others.append(_file_text(found))
    return f"{capital(text)} ({numbers.trials(found.trials)})", tuple(others)


def settings_table(found: SearchRecord) -> Table | None:
    """Return a row for each line of the best configuration; None if no configuration was confirmed."""
    if not found.lines:
        return None
    caption = gettext(
        "Lines of the best configuration, the unimportant ones put back together; importance is its share in the "
        "difference between good and ordinary trials of the search (PED-ANOVA)"
    )
    if not _is_any_tested(found):
        caption = gettext(
            "Lines of the best configuration; importance is the share of each in the difference between good and "
            "ordinary trials of the search (PED-ANOVA)"
        )
    headings = gettext_each("setting", "value", "result", "without it, %", "interval, %", "n, pairs", "importance, %")
    rows = []
    for line in found.lines:
        importance = found.importance.get(line.name)
        share = numbers.NOTHING if importance is None else f"{100 * importance:.0f}"
        rows.append((line.name, line.value, _result(line, found), *_cells(line.without), share))
    table = Table(caption, headings, tuple(rows), 3, (0, 0, 0, 0, 2, 3, 1))
    return table if _is_any_tested(found) else table.without({3, 4, 5})


def _file_text(found: SearchRecord) -> str:
    # the confirmed difference is that of a single line
    untested = [line for line in found.lines if line.kept and line.without is None]
    if len(found.settings) > 1 and len(untested) == len(found.settings):
        return gettext("postgresql.conf in the run folder has these lines; no time was left to test each alone")
    if len(found.settings) > 1 and untested:
        return gettext(
            "postgresql.conf in the run folder has these lines with the difference that each makes, and those that "
            "were not confirmed alone as comments"
        )
    return gettext("postgresql.conf in the run folder has these lines with the difference that each makes")


def _is_any_tested(found: SearchRecord) -> bool:
    return any(line.without is not None for line in found.lines)


def _result(line: SettingLine, found: SearchRecord) -> str:
    if not line.kept:
        return gettext("back at its start, with others") if line.together else gettext("back at its start")
    return gettext("stays") if line.without is not None or len(found.settings) == 1 else gettext("not tested")


def _cells(of: ConfirmedDifference | None) -> tuple[str, str, str]:
    if of is None:
        return (numbers.NOTHING,) * 3
    ends = [percent(end).removesuffix(" %") for end in (of.low, of.high)]
    return percent(of.change).removesuffix(" %"), numbers.range_text(*ends), f"{of.pairs:,}"
