"""The validity strip: every rule of the audit, green, amber or red, always with the word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from pgdyno.audit import RULES, Finding, Severity, worst
from pgdyno.report import numbers
from pgdyno.report.report_content import Note, notes
from pgdyno.report.sections.environment import failed_table
from pgdyno.report.sections.section import Block, Folded, Heading, Items, Paragraph, Reason, Reasons, Section, marked
from pgdyno.report.table import first_rows
from pgdyno.report.translation import capital, gettext, gettext_noop, ngettext, translated

if TYPE_CHECKING:
    from pgdyno.report.sections.draft import Draft

EVIDENCE_SHOWN = 4
NAMES_SHOWN = 4
"""Rules that the line under the answer names."""
FAILURES_SHOWN = 5
"""Trials that did not finish, in a terminal and in Markdown."""
POINTS_NAMED = 6
"""Points that a note names; beyond that it shows their number."""


@dataclass(frozen=True, slots=True)
class Gate:
    rule: str
    name: str
    """In the language of the report."""
    word: str
    """`passed`, `note`, `caution`, `invalid`, `not checked`."""
    verdict: str
    """CSS class of its mark."""
    mark: str


@dataclass(frozen=True, slots=True)
class Validity:
    summary: str
    line: str
    """How many rules passed, and the names of those that found something worse than a note."""
    gates: Sequence[Gate]
    reasons: Sequence[Reason]
    """Invalid findings and cautions, most severe first."""
    notes: Sequence[Reason]
    unchecked: Sequence[Reason]
    invalid: Sequence[str]
    """What makes the claim void; empty if it stands."""


_MARKS = {
    Severity.NOTE: (gettext_noop("note"), "quiet", "○"),
    Severity.CAUTION: (gettext_noop("caution"), "amber", "◐"),
    Severity.INVALID: (gettext_noop("invalid"), "bad", "✕"),
}
_HEAVIEST_FIRST = (Severity.INVALID, Severity.CAUTION, Severity.NOTE)
NOT_CHECKED, PASSED = gettext_noop("not checked"), gettext_noop("passed")


def validity(findings: Sequence[Finding]) -> Validity:
    """Return the result of an audit, rule by rule."""
    gates = [_gate(rule.id, [finding for finding in findings if finding.rule == rule.id]) for rule in RULES]
    checked = [finding for finding in findings if finding.checked]
    words = [gate.word for gate in gates]
    parts = _counts(words)
    order = list(Severity)
    heaviest_first = sorted(checked, key=lambda finding: -order.index(finding.severity))
    return Validity(
        gettext("{count} rules: {parts}", count=len(gates), parts=gettext(", ").join(parts)),
        _line(gates),
        gates,
        [_reason(each) for each in heaviest_first if each.severity is not Severity.NOTE],
        [_reason(each) for each in heaviest_first if each.severity is Severity.NOTE],
        [_reason(each) for each in findings if not each.checked],
        [translated(finding.translatable_message) for finding in checked if finding.severity is Severity.INVALID],
    )


def _line(gates: Sequence[Gate]) -> str:
    """Return `32 passed, 2 cautions: too-short, preflight`."""
    parts = [gettext("{count} passed", count=sum(gate.word == gettext(PASSED) for gate in gates))]
    for severity in (Severity.INVALID, Severity.CAUTION):
        names = [gate.name for gate in gates if gate.word == gettext(_MARKS[severity][0])]
        if not names:
            continue
        if severity is Severity.INVALID:
            count = gettext("{count} invalid", count=len(names))
        else:
            count = ngettext("{count:,} caution", "{count:,} cautions", len(names))
        more = len(names) - NAMES_SHOWN
        shown = [*names[:NAMES_SHOWN], *([gettext("{count} more", count=more)] if more > 0 else [])]
        parts.append(gettext("{count}: {names}", count=count, names=gettext(", ").join(shown)))
    return gettext(", ").join(parts)


def _counts(words: Sequence[str]) -> list[str]:
    invalid, cautions, notes, passed, unchecked = (
        words.count(gettext(word)) for word in (*(_MARKS[each][0] for each in _HEAVIEST_FIRST), PASSED, NOT_CHECKED)
    )
    parts = (
        (invalid, gettext("{count} invalid", count=invalid)),
        (cautions, ngettext("{count:,} caution", "{count:,} cautions", cautions)),
        (notes, ngettext("{count:,} note", "{count:,} notes", notes)),
        (passed, gettext("{count} passed", count=passed)),
        (unchecked, gettext("{count} not checked", count=unchecked)),
    )
    return [text for count, text in parts if count]


def _gate(rule: str, findings: Sequence[Finding]) -> Gate:
    heaviest = worst(finding for finding in findings if finding.checked)
    if heaviest is not None:
        word, verdict, mark = _MARKS[heaviest]
        return Gate(rule, rule_name(rule), gettext(word), verdict, mark)
    if findings:
        return Gate(rule, rule_name(rule), gettext(NOT_CHECKED), "quiet", numbers.NOTHING)
    return Gate(rule, rule_name(rule), gettext(PASSED), "good", "●")


def rule_name(rule: str) -> str:
    """Return the name of a rule: in English its id, in another language its translation."""
    return gettext(rule)


def _reason(finding: Finding) -> Reason:
    word, verdict, _ = _MARKS[finding.severity] if finding.checked else (NOT_CHECKED, "quiet", "")
    evidence = [
        f"{each.at}: {', '.join(f'{name} {_figure(value)}' for name, value in each.figures.items())}"
        for each in finding.evidence[:EVIDENCE_SHOWN]
    ]
    more = len(finding.evidence) - EVIDENCE_SHOWN
    if more > 0:
        evidence.append(gettext("and {count} more", count=more))
    return Reason(
        finding.rule,
        rule_name(finding.rule),
        gettext(word),
        verdict,
        translated(finding.translatable_message),
        finding.advice,
        evidence,
        finding.source,
    )


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"


def _blocks(draft: Draft) -> list[Block]:
    blocks: list[Block] = (
        [] if draft.validity is None else [*_audited(draft.validity, len(draft.of.run.trials), brief=draft.brief)]
    )
    apart = gettext("it has no point in common with the first run, and is not compared with it")
    caveats = [*(Note(apart, (run,)) for run in draft.extras.apart), *notes(draft.of)]
    if caveats:
        blocks += [Heading(gettext("Caveats")), Items([_caveat(each) for each in caveats], "notes")]
    if draft.of.unfinished:
        failed = failed_table(draft.of)
        blocks += [
            Heading(gettext("Trials that did not finish"), "failed"),
            *(first_rows(failed, FAILURES_SHOWN) if draft.brief else [failed]),
        ]
    return blocks


def _audited(of: Validity, trials: int, *, brief: bool) -> Iterator[Block]:
    if not brief:
        yield Paragraph(
            ngettext("{summary}; n = {count:,} trial.", "{summary}; n = {count:,} trials.", trials, summary=of.summary)
        )
    if of.reasons:
        yield Reasons(of.reasons)
    if brief:
        if of.reasons:
            yield Paragraph(marked("{command} shows the evidence.", command="pgdyno audit"))
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


SECTION = Section("validity", title=lambda: gettext("Validity"), link=lambda: gettext("Validity"), blocks=_blocks)
