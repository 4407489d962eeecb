"""Findings of the audit, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.audit import Finding, Severity

STYLES = {Severity.INVALID: "bold red", Severity.CAUTION: "yellow"}
"""Notes are shown only by `pgdyno audit`."""


def finding_lines(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Return style and text of each line, an empty one first; nothing if all is well."""
    heavy = [finding for finding in findings if finding.checked and finding.severity in STYLES]
    if not heavy:
        return
    yield "", ""
    for finding in heavy:
        yield STYLES[finding.severity], f"{finding.severity}: {finding.rule}: {finding.message}"
    yield "dim", "pgdyno audit shows the evidence"
