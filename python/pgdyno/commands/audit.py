"""`pgdyno audit`."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from pgdyno.audit import Finding, Severity, audit, worst
from pgdyno.console import Console
from pgdyno.errors import ExitCode
from pgdyno.report import numbers
from pgdyno.store import find_run, load_run

EVIDENCE_SHOWN = 6
STYLES = {Severity.INVALID: "bold red", Severity.CAUTION: "yellow", Severity.NOTE: "dim"}


def audit_run(run: str, runs: Path, *, json: bool) -> ExitCode:
    """Prints the findings about a run. Raises StoreError and UsageError."""
    data = load_run(find_run(run, runs))
    findings = audit(data)
    if json:
        print(
            json_module.dumps([finding.model_dump(mode="json") for finding in findings], indent=2, ensure_ascii=False)
        )
    else:
        imported = data.manifest.imported is not None
        _print(data.manifest.run, findings, Console(soft_wrap=True), imported=imported)
    return ExitCode.INVALID if worst(findings) is Severity.INVALID else ExitCode.OK


def _print(run: str, findings: Sequence[Finding], console: Console, *, imported: bool) -> None:
    checked = [finding for finding in findings if finding.checked]
    counts = ", ".join(_counted(sum(each.severity is severity for each in checked), severity) for severity in STYLES)
    console.print(Text(f"{run}: {counts}", "bold"))
    for finding in checked:
        console.print()
        console.print(
            Text.assemble((finding.severity, STYLES[finding.severity]), f"  {finding.rule}: {finding.message}")
        )
        for evidence in finding.evidence[:EVIDENCE_SHOWN]:
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in evidence.figures.items())
            console.print(Text(f"    {evidence.at}: {figures}", "dim"))
        if len(finding.evidence) > EVIDENCE_SHOWN:
            console.print(Text(f"    and {len(finding.evidence) - EVIDENCE_SHOWN} more; --json has all", "dim"))
        if finding.advice:
            console.print(f"    advice: {finding.advice}")
    unchecked = [finding for finding in findings if not finding.checked]
    if unchecked:
        console.print()
    if unchecked and imported:
        # imported documents lack the input of most rules, for the same reason: one line names them all
        rules = ", ".join(finding.rule for finding in unchecked)
        console.print(Text(f"not checked, because the source lacks the input (--json names it): {rules}", "dim"))
        return
    for finding in unchecked:
        console.print(Text(f"{finding.rule}: {finding.message}", "dim"))


def _counted(number: int, severity: Severity) -> str:
    return f"{number} invalid" if severity is Severity.INVALID else numbers.count(number, severity)


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.10g}"
