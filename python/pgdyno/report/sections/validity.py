"""The validity strip: every rule of the audit, green, amber or red, always with the word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.audit import RULES, Finding, Severity, worst
from pgdyno.report import numbers
from pgdyno.report.texts import later, say, say_count

EVIDENCE_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Gate:
    """One rule."""

    rule: str
    name: str
    """In the language of the report."""
    word: str
    """`passed`, `note`, `caution`, `invalid`, `not checked`."""
    verdict: str
    """CSS class of its mark."""
    mark: str


@dataclass(frozen=True, slots=True)
class Reason:
    """One finding, in words."""

    rule: str
    name: str
    word: str
    verdict: str
    message: str
    advice: str
    evidence: Sequence[str]
    source: str


@dataclass(frozen=True, slots=True)
class Validity:
    """All of them."""

    summary: str
    gates: Sequence[Gate]
    reasons: Sequence[Reason]
    """Invalid and cautions, the heaviest first."""
    notes: Sequence[Reason]
    unchecked: Sequence[Reason]
    invalid: Sequence[str]
    """What makes the claim void; empty when it stands."""


_MARKS = {
    Severity.NOTE: (later("note"), "quiet", "○"),
    Severity.CAUTION: (later("caution"), "amber", "◐"),
    Severity.INVALID: (later("invalid"), "bad", "✕"),
}
NOT_CHECKED, PASSED = later("not checked"), later("passed")
COUNTED = (
    ("invalid", "{count} invalid", later("{count} invalid")),
    ("caution", "{count} caution", later("{count} cautions")),
    ("note", "{count} note", later("{count} notes")),
    (PASSED, "{count} passed", later("{count} passed")),
    (NOT_CHECKED, "{count} not checked", later("{count} not checked")),
)
"""Words of gates, and how many there are."""


def validity(findings: Sequence[Finding]) -> Validity:
    """What an audit found, rule by rule."""
    gates = [_gate(rule.id, [finding for finding in findings if finding.rule == rule.id]) for rule in RULES]
    checked = [finding for finding in findings if finding.checked]
    words = [gate.word for gate in gates]
    counts = [(words.count(say(word)), one, many) for word, one, many in COUNTED]
    parts = [say_count(count, one, many) for count, one, many in counts if count]
    order = list(Severity)
    heaviest_first = sorted(checked, key=lambda finding: -order.index(finding.severity))
    return Validity(
        say("{count} rules: {parts}", count=len(gates), parts=say(", ").join(parts)),
        gates,
        [_reason(each) for each in heaviest_first if each.severity is not Severity.NOTE],
        [_reason(each) for each in heaviest_first if each.severity is Severity.NOTE],
        [_reason(each) for each in findings if not each.checked],
        [finding.message for finding in checked if finding.severity is Severity.INVALID],
    )


def _gate(rule: str, findings: Sequence[Finding]) -> Gate:
    heaviest = worst(finding for finding in findings if finding.checked)
    if heaviest is not None:
        word, verdict, mark = _MARKS[heaviest]
        return Gate(rule, rule_name(rule), say(word), verdict, mark)
    if findings:
        return Gate(rule, rule_name(rule), say(NOT_CHECKED), "quiet", numbers.NOTHING)
    return Gate(rule, rule_name(rule), say(PASSED), "good", "●")


def rule_name(rule: str) -> str:
    """The name of a rule: in English its id, in another language words of it."""
    return say(rule)


def _reason(finding: Finding) -> Reason:
    word, verdict, _ = _MARKS[finding.severity] if finding.checked else (NOT_CHECKED, "quiet", "")
    evidence = [
        f"{each.at}: {', '.join(f'{name} {_figure(value)}' for name, value in each.figures.items())}"
        for each in finding.evidence[:EVIDENCE_SHOWN]
    ]
    more = len(finding.evidence) - EVIDENCE_SHOWN
    if more > 0:
        evidence.append(say("and {count} more", count=more))
    return Reason(
        finding.rule,
        rule_name(finding.rule),
        say(word),
        verdict,
        finding.message,
        finding.advice,
        evidence,
        finding.source,
    )


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"
