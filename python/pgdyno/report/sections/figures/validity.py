"""The validity strip: every rule of the audit, green, amber or red, always with the word."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.audit import RULES, Finding, Severity, worst
from pgdyno.report import numbers
from pgdyno.report.sections.section_blocks import Reason
from pgdyno.report.translation import gettext, gettext_noop, ngettext, translate

EVIDENCE_SHOWN = 4
NAMES_SHOWN = 4
"""Rules that the line under the answer names."""


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
        [translate(finding.translatable_message) for finding in checked if finding.severity is Severity.INVALID],
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
        translate(finding.translatable_message),
        finding.advice,
        evidence,
        finding.source,
    )


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"
