"""The validity strip: every rule of the audit, green, amber or red, always with the word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.audit import RULES, Finding, Severity, worst
from pgdyno.report import numbers

EVIDENCE_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Gate:
    """One rule."""

    rule: str
    word: str
    """`passed`, `note`, `caution`, `invalid`, `not checked`."""
    verdict: str
    """CSS class of its mark."""
    mark: str


@dataclass(frozen=True, slots=True)
class Reason:
    """One finding, in words."""

    rule: str
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
    Severity.NOTE: ("note", "quiet", "○"),
    Severity.CAUTION: ("caution", "amber", "◐"),
    Severity.INVALID: ("invalid", "bad", "✕"),
}


def validity(findings: Sequence[Finding]) -> Validity:
    """What an audit found, rule by rule."""
    gates = [_gate(rule.id, [finding for finding in findings if finding.rule == rule.id]) for rule in RULES]
    checked = [finding for finding in findings if finding.checked]
    counts = [(word, sum(gate.word == word for gate in gates)) for word in ("invalid", "caution", "note", "passed")]
    left = sum(gate.word == "not checked" for gate in gates)
    parts = [_count(word, count) for word, count in [*counts, ("not checked", left)] if count]
    order = list(Severity)
    heaviest_first = sorted(checked, key=lambda finding: -order.index(finding.severity))
    return Validity(
        f"{len(gates)} rules: {', '.join(parts)}",
        gates,
        [_reason(each) for each in heaviest_first if each.severity is not Severity.NOTE],
        [_reason(each) for each in heaviest_first if each.severity is Severity.NOTE],
        [_reason(each) for each in findings if not each.checked],
        [finding.message for finding in checked if finding.severity is Severity.INVALID],
    )


def _count(word: str, count: int) -> str:
    return numbers.count(count, word) if word in ("note", "caution") else f"{count} {word}"


def _gate(rule: str, findings: Sequence[Finding]) -> Gate:
    heaviest = worst(finding for finding in findings if finding.checked)
    if heaviest is not None:
        return Gate(rule, *_MARKS[heaviest])
    if findings:
        return Gate(rule, "not checked", "quiet", numbers.NOTHING)
    return Gate(rule, "passed", "good", "●")


def _reason(finding: Finding) -> Reason:
    word, verdict, _ = _MARKS[finding.severity] if finding.checked else ("not checked", "quiet", "")
    evidence = [
        f"{each.at}: {', '.join(f'{name} {_figure(value)}' for name, value in each.figures.items())}"
        for each in finding.evidence[:EVIDENCE_SHOWN]
    ]
    more = len(finding.evidence) - EVIDENCE_SHOWN
    if more > 0:
        evidence.append(f"and {more} more")
    return Reason(finding.rule, word, verdict, finding.message, finding.advice, evidence, finding.source)


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"
