"""Every rule: a case that triggers it, and one that almost does; which trials a finding names; published outputs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import audit_page
from pgdyno.audit import RULES, Finding, Severity, audit, worst
from pgdyno.audit.finding import Rule
from pgdyno.importers.write import import_files
from pgdyno.records import ErrorCount
from pgdyno.records.probe import OverSshRecord
from pgdyno.store import load_run
from tests.unit.audit_cases import BY_RULE, CLAIM, NOTE, failed_in
from tests.unit.audit_disturbed import on_host, ran, rated
from tests.unit.audit_sample import OTHER, ROW, Row, add_samples, each_second, of, own, revise_trials, rows_run


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_speaks_when_it_should_and_only_then(rule: Rule) -> None:
    cases = BY_RULE[rule.id]()
    for severity, triggers, nearly in cases:
        found = [finding for finding in of(rule.id, triggers) if finding.checked]
        assert worst(found) is severity
        heaviest = next(finding for finding in found if finding.severity is severity)
        assert heaviest.evidence
        assert all(each.at and each.figures for each in heaviest.evidence)
        assert heaviest.advice or heaviest.rule in ("durability", "clock")
        assert [finding.message for finding in audit(nearly, [rule])] == []
    assert max((severity for severity, *_ in cases), key=list(Severity).index) is rule.worst


def test_failed_transactions_are_told_with_the_most_frequent_message() -> None:
    errors = [
        ErrorCount(sqlstate="40001", message="could not serialize", count=9),
        *(ErrorCount(sqlstate="22P02", message=f'invalid uuid: "{value}"', count=1) for value in range(6)),
        ErrorCount(sqlstate="22P02", message="(other messages)", count=90),
    ]
    (finding,) = of("errors", own(summary={"failed": 7000, "errors": errors}))
    assert finding.message.endswith('trials, most often with: invalid uuid: "…" (SQLSTATE 22P02)')


def test_every_rule_has_a_case_and_a_line_of_the_reference() -> None:
    assert BY_RULE.keys() == {rule.id for rule in RULES}
    assert re.findall(r"^\| `([\w-]+)` \|", audit_page.page(), re.MULTILINE) == [rule.id for rule in RULES]


def test_no_rule_fires_on_two_targets_that_are_one() -> None:
    findings = audit(own())
    assert worst(findings) is NOTE
    assert {finding.rule for finding in findings if finding.checked} == {"generator-on-server", "one-instance"}


def test_a_rule_without_its_input_says_so() -> None:
    bare = rows_run(Row("a", 8, {"tpm": 600.0}, scale=None), workload="workload not told")
    told = audit(bare)
    unchecked = {finding.rule for finding in told if not finding.checked}
    assert {"littles-law", "network-floor", "durability", "too-short", "errors", "order-bias"} <= unchecked
    assert all(finding.severity is NOTE for finding in told if not finding.checked)
    (finding,) = of("littles-law", bare)
    assert finding.parameters["reason_id"] == "no-clients-throughput-latency"
    spoken = {finding.rule for finding in told if finding.checked}
    # a rule that reports nothing and lacks no input has passed
    assert spoken == {"no-repeats"}
    passed = {"arithmetic", "identical-rows", "errors-one-arm", "one-instance", "duet", "unlike-capture"}
    assert {rule.id for rule in RULES} - unchecked - spoken == passed
    unknown = {"placement-differs", "cache-cold", "mix-off", "probe-gap", "load-imbalance", "dips-unexplained"}
    assert unknown <= unchecked


def test_a_finding_quotes_its_place_and_has_an_id_and_parameters() -> None:
    wrong = ROW.but(latency_mean_ms=20.0)
    (finding,) = of("littles-law", rows_run(OTHER, wrong))
    assert finding.trials == [2]
    assert finding.parameters["ratio"] == "2.00"
    assert finding.evidence[0].at == "report.txt:2"
    assert finding.evidence[0].figures == {"tps": 800.0, "latency_mean_ms": 20.0, "clients": 8, "busy_clients": 16.0}
    # clients that think are busy with something else
    assert of("littles-law", rows_run(OTHER, wrong.but(think_time_ms=5.0))) == []
    # the documented fields
    fields = ["rule", "id", "severity", "trials", "message", "parameters", "evidence", "advice", "source"]
    assert list(json.loads(finding.model_dump_json())) == fields
    (found,) = of("too-short", own(length_s=9.0))
    assert (found.id, found.parameters["least_s"]) == ("too-short", 10.0)
    assert found.message.endswith(f"less than 10 s, down to {found.parameters['shortest_s']:.1f} s")
    unchecked = [each for each in audit(rows_run(ROW)) if not each.checked]
    assert unchecked
    assert all(each.id == f"{each.rule}-not-checked" for each in unchecked)
    assert all(each.message == f"not checked: {each.parameters['reason']}" for each in unchecked)


def test_a_finding_names_its_trials() -> None:
    for rule, run, trials in (
        ("other-load", add_samples(own(), lambda trial: on_host(others=0.2 if trial.number == 7 else 0.01)), [7]),
        ("other-load", add_samples(own(), lambda trial: on_host(steal=0.03 if trial.number > 10 else 0.0)), [11, 12]),
        ("repeats-spread", rated(lambda trial: 0.8 if trial.number == 5 else 1.0 + trial.number / 1_000), [5]),
        ("maintenance-one-arm", add_samples(own(), ran("tables", "autovacuums", "b", trials=(4, 6))), [4, 6]),
        ("errors-one-arm", failed_in(4), [4]),
        ("identical-rows", rows_run(replace(ROW, clients=512), OTHER, replace(ROW, clients=1024)), [1, 3]),
        ("drift", rated(lambda trial: 0.97**trial.number), [*range(1, 13, 2), *range(2, 13, 2)]),
        ("price-unsound", rows_run(ROW.but(tps=900.0), ROW.but(latency_mean_ms=20.0), **CLAIM), [2]),
    ):
        (finding,) = of(rule, run)
        assert finding.trials == trials


def test_findings_say_how_much_drift_makes_and_what_a_probe_saw() -> None:
    (finding,) = of("drift", rated(lambda trial: 0.97**trial.number))
    assert "throughput changes by -3.0 % from one trial to the next" in finding.message
    assert "drift alone accounts for -3.0 % of b vs a (measured: -3.0 %)" in finding.message
    unasked = revise_trials(own(), lambda _: {"prepare": {"dataset_bytes": None}})
    tables = {name: each_second(60, "relations", size=size, indexes=1e8) for name, size in (("a", 8e8), ("b", 9e8))}
    (finding,) = of("dataset-differs", add_samples(unasked, lambda trial: tables[trial.target]))
    assert "has 900 MB at a and 1.00 GB at b" in finding.message
    rows = on_host(others=0.3, steal=0.03)
    run = own(kind_b="dsn", probe={"over_ssh": OverSshRecord(host="db")})
    run = add_samples(run, lambda trial: rows if trial.target == "b" else [])
    (finding,) = of("other-load", run)
    assert "the hypervisor gave up to 3 %" in finding.message
    assert finding.trials == [2, 4, 6, 8, 10, 12]


GOLDEN = Path(__file__).parents[1] / "golden" / "published-outputs"


def audited(file: Path, folder: Path) -> list[Finding]:
    return audit(load_run(import_files([file], folder / "runs").run))


def test_counting_rules_of_the_tool_are_no_finding(tmp_path: Path) -> None:
    for name, rule in (
        # connecting is within -T, and not in the rate
        ("pgbench-14-rate.txt", "arithmetic"),
        ("pgbench-18-remote.md", "arithmetic"),
        # a mean of 1.2 ms
        ("table-nothing-measured-yet.md", "littles-law"),
    ):
        assert rule not in {finding.rule for finding in audited(GOLDEN / name, tmp_path) if finding.checked}
    found = audited(GOLDEN / "pgbench-14-weights-without-head.md", tmp_path)
    (finding,) = [each for each in found if each.rule == "littles-law"]
    assert finding.severity is NOTE
    assert "0.95 times the clients" in finding.message


def test_command_lines_and_prompts_say_where_the_load_ran(tmp_path: Path) -> None:
    for command, shared in (
        ("postgres@dbhost:~$ pgbench -c10 -j4 -T 30 -R 200", True),
        ("[root@pg-primary ~]# pgbench -c10 -j4 -T 30 -R 200", True),
        ("$ pgbench -h localhost -c10 -j4 -T 30 -R 200", True),
        ("$ pgbench -h /var/run/postgresql -c10 -j4 -T 30 -R 200", True),
        ("$ pgbench -c10 -j4 -T 30 -R 200 'postgresql://bench@127.0.0.1:5433/bench'", True),
        ("$ export PGHOST=db.example\n$ pgbench -c10 -j4 -T 30 -R 200", False),
        ("postgres@loadhost:~$ pgbench -h 10.0.0.5 -c10 -j4 -T 30 -R 200", False),
        ("$ pgbench -c10 -j4 -T 30 -R 200 'host=db.example dbname=bench'", False),
        ("$ pgbench -h $HOST -c10 -j4 -T 30 -R 200", False),
    ):
        summary = (GOLDEN / "pgbench-14-rate.txt").read_text().partition("\n")[2]
        (tmp_path / "report.txt").write_text(f"{command}\n{summary}")
        rules = {finding.rule for finding in audited(tmp_path / "report.txt", tmp_path) if finding.checked}
        assert ("generator-on-server" in rules) is shared
