"""The audit of published outputs: it reports no error where the tool itself counts that way."""

from pathlib import Path

import pytest

from pgdyno.audit import Finding, Severity, audit
from pgdyno.importers.write import import_files
from pgdyno.store import load_run

GOLDEN = Path(__file__).parents[1] / "golden" / "published-outputs"


def audited(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.setattr("os.sync", lambda: None)
    return [finding for finding in audit(load_run(import_files([file], tmp_path / "runs").run)) if finding.checked]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        # connecting is within -T, and not in the rate
        ("pgbench-14-rate.txt", "arithmetic"),
        ("pgbench-18-remote.md", "arithmetic"),
        # a mean of 1.2 ms
        ("table-nothing-measured-yet.md", "littles-law"),
    ],
)
def test_counting_rules_of_the_tool_are_no_finding(
    name: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rule not in {finding.rule for finding in audited(GOLDEN / name, tmp_path, monkeypatch)}


def test_pgbench_with_progress_leaves_time_out_of_its_latencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = audited(GOLDEN / "pgbench-14-weights-without-head.md", tmp_path, monkeypatch)
    (finding,) = [each for each in found if each.rule == "littles-law"]
    assert finding.severity is Severity.NOTE
    assert "0.95 times the clients" in finding.message


SUMMARY = (GOLDEN / "pgbench-14-rate.txt").read_text().partition("\n")[2]


@pytest.mark.parametrize(
    ("command", "shared"),
    [
        ("postgres@dbhost:~$ pgbench -c10 -j4 -T 30 -R 200", True),
        ("[root@pg-primary ~]# pgbench -c10 -j4 -T 30 -R 200", True),
        ("$ pgbench -h localhost -c10 -j4 -T 30 -R 200", True),
        ("$ pgbench -h /var/run/postgresql -c10 -j4 -T 30 -R 200", True),
        ("$ pgbench -c10 -j4 -T 30 -R 200 'postgresql://bench@127.0.0.1:5433/bench'", True),
        ("$ export PGHOST=db.example\n$ pgbench -c10 -j4 -T 30 -R 200", False),
        ("postgres@loadhost:~$ pgbench -h 10.0.0.5 -c10 -j4 -T 30 -R 200", False),
        ("$ pgbench -c10 -j4 -T 30 -R 200 'host=db.example dbname=bench'", False),
        ("$ pgbench -h $HOST -c10 -j4 -T 30 -R 200", False),
    ],
)
def test_command_lines_and_prompts_say_where_the_load_ran(
    command: str, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.txt"
    report.write_text(f"{command}\n{SUMMARY}")
    rules = {finding.rule for finding in audited(report, tmp_path, monkeypatch)}
    assert ("generator-on-server" in rules) is shared
