"""Findings in the report of a run: the serious ones, a line each."""

from pgdyno.audit import audit
from pgdyno.report.run_notes import finding_lines
from tests.unit.audit_sample import ROW, own, printed


def test_heavy_findings_have_a_line_each_the_heaviest_first() -> None:
    lines = list(finding_lines(audit(printed(ROW.but(latency_mean_ms=20.0, duration_s=20.0, transactions=16_000)))))
    assert [text.split(":")[:2] for _, text in lines[1:-1]] == [
        ["invalid", " littles-law"],
        ["caution", " too-short"],
        ["caution", " no-repeats"],
    ]
    assert lines[1][0] == "bold red"


def test_a_clean_run_shows_none() -> None:
    assert list(finding_lines(audit(own()))) == []
