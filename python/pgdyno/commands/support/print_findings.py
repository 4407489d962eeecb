"""Findings of the audit in a terminal."""

from collections.abc import Sequence

from rich.text import Text

from pgdyno.audit import Finding, Severity
from pgdyno.console import Console
from pgdyno.report.terminal.text_drawing import wrap_text
from pgdyno.units import quantity

EVIDENCE_SHOWN = 6
NARROWEST = 40
"""Columns of prose in terminals that are narrower still."""
STYLES = {Severity.INVALID: "bold red", Severity.CAUTION: "yellow", Severity.NOTE: "dim"}


def print_findings(run: str, findings: Sequence[Finding], console: Console, *, imported: bool) -> None:
    checked = [finding for finding in findings if finding.checked]
    numbers = {severity: sum(each.severity is severity for each in checked) for severity in STYLES}
    invalid = numbers.pop(Severity.INVALID)
    counts = ", ".join([f"{invalid} invalid", *(quantity(number, each) for each, number in numbers.items())])
    console.print(Text(f"{run}: {counts}", "bold"), soft_wrap=True)
    for finding in checked:
        console.print()
        severity = Text(f"{finding.severity}  ", STYLES[finding.severity])
        _print_hanging(severity, f"{finding.rule}: {finding.message}", console)
        for evidence in finding.evidence[:EVIDENCE_SHOWN]:
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in evidence.figures.items())
            _print_hanging(Text("    "), f"{evidence.at}: {figures}", console, "dim")
        if len(finding.evidence) > EVIDENCE_SHOWN:
            _print_hanging(
                Text("    "), f"and {len(finding.evidence) - EVIDENCE_SHOWN} more; --json has all", console, "dim"
            )
        if finding.advice:
            _print_hanging(Text("    "), f"advice: {finding.advice}", console)
    unchecked = [finding for finding in findings if not finding.checked]
    if unchecked:
        console.print()
    if unchecked and imported:
        # imported documents lack the input of most rules, for the same reason: one line names them all
        rules = ", ".join(finding.rule for finding in unchecked)
        _print_hanging(
            Text(), f"not checked, because the source lacks the input (--json names it): {rules}", console, "dim"
        )
        return
    for finding in unchecked:
        _print_hanging(Text(), f"{finding.rule}: {finding.message}", console, "dim")


def _print_hanging(before: Text, text: str, console: Console, style: str = "") -> None:
    """Print `text` after `before`, further lines below the start of `text`; a file or a pipe gets one line."""
    lines = wrap_text(text, max(console.room - before.cell_len, NARROWEST))
    for at, line in enumerate(lines):
        console.print(Text.assemble(before if at == 0 else " " * before.cell_len, (line, style)), soft_wrap=True)


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"
