"""The answer of a search for settings: the confirmed difference, and a row for each line that was put back."""

from __future__ import annotations

from pgdyno.records import ConfirmedDifference, SearchRecord
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.report_tables import Table
from pgdyno.report.translation import capital, gettext, gettext_each, translated


def settings_text(found: SearchRecord) -> tuple[str, tuple[str, ...]]:
    """Return the answer in one sentence, and what else the search found."""
    text, *others = (translated(each.message) for each in found.messages)
    if found.settings:
        others.append(gettext("postgresql.conf in the run folder has these lines with the difference that each makes"))
    return f"{capital(text)} ({numbers.trials(found.trials)})", tuple(others)


def settings_table(found: SearchRecord) -> Table | None:
    """Return a row for each line of the best configuration; None if no configuration was confirmed."""
    if not found.lines:
        return None
    caption = gettext(
        "Lines of the best configuration, each put back alone; importance is its share in the difference between good "
        "and ordinary trials of the search (PED-ANOVA)"
    )
    headings = gettext_each("setting", "value", "result", "without it, %", "interval, %", "n, pairs", "importance, %")
    rows = []
    for line in found.lines:
        kept = gettext("stays") if line.kept else gettext("back at its start")
        importance = found.importance.get(line.name)
        share = numbers.NOTHING if importance is None else f"{100 * importance:.0f}"
        rows.append((line.name, line.value, kept, *_cells(line.without), share))
    return Table(caption, headings, tuple(rows), 3)


def _cells(of: ConfirmedDifference | None) -> tuple[str, str, str]:
    if of is None:
        return (numbers.NOTHING,) * 3
    ends = [percent(end).removesuffix(" %") for end in (of.low, of.high)]
    return percent(of.change).removesuffix(" %"), numbers.between(*ends), f"{of.pairs:,}"
