"""Validity: findings of the audit, caveats, and trials that did not finish."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

from pgdyno.report.report_content import Note, notes
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.environment import failed_table
from pgdyno.report.sections.figures.validity import Gate, Validity
from pgdyno.report.sections.section_blocks import Block, Folded, Heading, Items, Paragraph, Reasons, markup
from pgdyno.report.table import first_rows
from pgdyno.report.translation import capital, gettext, gettext_noop, ngettext

FAILURES_SHOWN = 5
"""Trials that did not finish, in a terminal and in Markdown."""
POINTS_NAMED = 6
"""Points that a note names; beyond that it shows their number."""


def _blocks(draft: Draft) -> list[Block]:
    blocks: list[Block] = (
        [] if draft.validity is None else [*_audit_blocks(draft.validity, len(draft.of.run.trials), brief=draft.brief)]
    )
    apart = gettext("it has no point in common with the first run, and is not compared with it")
    caveats = [*(Note(apart, (run,)) for run in draft.extras.not_compared), *notes(draft.of)]
    if caveats:
        blocks += [Heading(gettext("Caveats")), Items([_caveat(each) for each in caveats], "notes")]
    if draft.of.unfinished:
        failed = failed_table(draft.of)
        blocks += [
            Heading(gettext("Trials that did not finish"), "failed"),
            *(first_rows(failed, FAILURES_SHOWN) if draft.brief else [failed]),
        ]
    return blocks


def _audit_blocks(of: Validity, trials: int, *, brief: bool) -> Iterator[Block]:
    if not brief:
        yield Paragraph(
            ngettext("{summary}; n = {count:,} trial.", "{summary}; n = {count:,} trials.", trials, summary=of.summary)
        )
    if of.reasons:
        yield Reasons(of.reasons)
    if brief:
        if of.reasons:
            yield Paragraph(markup("{command} shows the evidence.", command="pgdyno audit"))
        return
    yield Folded(gettext("Every rule"), [Items([_gate_line(each) for each in of.gates], "strip")])
    if of.notes:
        yield Folded(ngettext("{count:,} note", "{count:,} notes", len(of.notes)), [Reasons(of.notes)])
    if of.unchecked:
        yield Folded(gettext("{count} not checked", count=len(of.unchecked)), [Reasons(of.unchecked)])


def _gate_line(of: Gate) -> Markup:
    name = escape(of.name) if of.name == of.rule else Markup('<span title="{}">{}</span>').format(of.rule, of.name)
    line = Markup('<span class="{0}" aria-hidden="true">{1}</span> {2} <b class="{0}">{3}</b>')
    return line.format(of.verdict, of.mark, name, of.word)


def _caveat(note: Note) -> Markup:
    text = escape(capital(note.message))
    if note.points:
        text += Markup('<span class="where">: {}</span>').format(point_names(note.points))
    return escape(gettext("{sentence}.")).format(sentence=text)


def point_names(points: Sequence[str]) -> str:
    """Return the names of a note's points, or of the first of many."""
    if len(points) <= POINTS_NAMED:
        return "; ".join(points)
    return gettext(
        "{points} and {count} more points",
        points="; ".join(points[: POINTS_NAMED - 1]),
        count=len(points) - POINTS_NAMED + 1,
    )


SECTION = Section("validity", gettext_noop("Validity"), _blocks)
