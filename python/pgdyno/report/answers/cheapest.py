"""The answer of a search for the cheapest target: which one keeps the promise, and a row for each target."""

from __future__ import annotations

from pgdyno.records import SearchRecord, TargetVerdict
from pgdyno.report import numbers
from pgdyno.report.report_tables import Table
from pgdyno.report.translation import capital, gettext, gettext_each, translated


def cheapest_text(found: SearchRecord) -> tuple[str, tuple[str, ...]]:
    """Return the answer in one sentence, and what else the search found."""
    text, *others = (translated(each.message) for each in found.messages)
    return f"{capital(text)} ({numbers.trials(found.trials)})", tuple(others)


def cheapest_table(found: SearchRecord) -> Table:
    """Return a row for each target, from the cheapest to the dearest."""
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
    cells = of.target, verdicts.get(of.verdict, of.verdict), numbers.rounded(of.price)
    if of.latency_ns is None or of.latency_low_ns is None or of.latency_high_ns is None or of.limit_ns is None:
        return (*cells, *(numbers.NOTHING,) * 3)
    # the end of the interval that is nearer to the limit; none if the limit is within it
    ends_ns = of.latency_high_ns, of.latency_low_ns
    margins = [1 - end / of.limit_ns for end in ends_ns]
    outside = margins[0] if margins[0] > 0 else margins[1] if margins[1] < 0 else None
    interval = numbers.between(numbers.ms(of.latency_low_ns), numbers.ms(of.latency_high_ns))
    margin = numbers.NOTHING if outside is None else numbers.rounded(100 * outside, 2)
    return (*cells, numbers.ms(of.latency_ns), interval, margin)
