"""Every rule: a case that triggers it, and one that almost does; no finding on sound trials of pgdyno's own."""

import json
import re
from dataclasses import replace

import pytest

import audit_page
from pgdyno.audit import RULES, Severity, audit, worst
from pgdyno.audit.subject import AuditRun
from pgdyno.records import ErrorCount
from tests.unit.audit_cases import CASES, NOTE, mixed
from tests.unit.audit_sample import OTHER, ROW, Row, dipping, of, own, printed


@pytest.mark.parametrize(
    ("rule", "severity", "triggers", "nearly"), CASES, ids=[f"{at}-{each[0]}" for at, each in enumerate(CASES)]
)
def test_a_rule_speaks_when_it_should_and_only_then(
    rule: str, severity: Severity, triggers: AuditRun, nearly: AuditRun
) -> None:
    found = [finding for finding in of(rule, triggers) if finding.checked]
    assert worst(found) is severity
    heaviest = next(finding for finding in found if finding.severity is severity)
    assert heaviest.evidence
    assert all(each.at and each.figures for each in heaviest.evidence)
    assert heaviest.advice or heaviest.rule in ("durability", "clock")
    assert [finding.message for finding in of(rule, nearly)] == []


def test_failed_transactions_are_told_with_the_most_frequent_message() -> None:
    errors = [
        ErrorCount(sqlstate="40001", message="could not serialize", count=9),
        *(ErrorCount(sqlstate="22P02", message=f'invalid uuid: "{value}"', count=1) for value in range(6)),
        ErrorCount(sqlstate="22P02", message="(other messages)", count=90),
    ]
    (finding,) = of("errors", own(summary={"failed": 7000, "errors": errors}))
    assert finding.message.endswith('trials, most often with: invalid uuid: "…" (SQLSTATE 22P02)')


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, *_ in CASES} == {rule.id for rule in RULES}
    heaviest = {rule: max((c[1] for c in CASES if c[0] == rule), key=list(Severity).index) for rule, *_ in CASES}
    assert heaviest == {rule.id: rule.worst for rule in RULES}


def test_no_rule_fires_on_two_targets_that_are_one() -> None:
    findings = audit(own())
    assert worst(findings) is NOTE
    assert {finding.rule for finding in findings if finding.checked} == {"generator-on-server", "one-instance"}


def test_a_rule_without_its_input_says_so() -> None:
    bare = printed(Row("a", 8, {"tpm": 600.0}, scale=None), workload="workload not told")
    unchecked = {finding.rule for finding in audit(bare) if not finding.checked}
    assert {"littles-law", "network-floor", "durability", "too-short", "errors", "order-bias"} <= unchecked
    assert all(finding.severity is NOTE for finding in audit(bare) if not finding.checked)
    (finding,) = of("littles-law", bare)
    assert finding.parameters["reason_id"] == "no-clients-throughput-latency"
    spoken = {finding.rule for finding in audit(bare) if finding.checked}
    # a rule that reports nothing and lacks no input has passed
    assert spoken == {"no-repeats"}
    assert {rule.id for rule in RULES} - unchecked - spoken == {
        "arithmetic",
        "identical-rows",
        "errors-one-arm",
        "one-instance",
        "duet",
        "unlike-capture",
    }
    assert {
        "placement-differs",
        "cache-cold",
        "mix-off",
        "probe-gap",
        "load-imbalance",
        "dips-unexplained",
    } <= unchecked


def test_a_mix_that_changes_from_phase_to_phase_is_not_compared_with_the_weights() -> None:
    steady, mixing = {"name": "rise", "duration": "20s", "clients": 8}, {"mix": {"read": 1, "write": 9}}
    (finding,) = of("mix-off", own(summary=mixed(0.56), plan={"phase": [steady]}))
    assert finding.severity is Severity.INVALID
    (finding,) = of("mix-off", own(summary=mixed(0.56), plan={"phase": [steady, steady | mixing]}))
    assert not finding.checked


def test_dips_that_no_probe_saw_are_not_called_healthy() -> None:
    run = own(seconds=dipping(6))
    blind = replace(run, trials=[trial.model_copy(update={"probe": None}) for trial in run.trials])
    (finding,) = of("dips-unexplained", blind)
    assert finding.message.startswith("not checked: throughput dips in 12 trials (1, 2, 3")


def test_littles_law_is_not_asked_of_phases_which_change_clients_and_rate() -> None:
    run = own(latency={"mean": 20.0})
    assert [finding.severity for finding in of("littles-law", run)] == [Severity.INVALID]
    phases = run.manifest.model_copy(update={"plan": {**run.manifest.plan, "phase": [{"name": "rise", "rate": 9}]}})
    (finding,) = of("littles-law", replace(run, manifest=phases))
    assert not finding.checked


def test_littles_law_is_not_asked_of_clients_that_think() -> None:
    assert of("littles-law", printed(OTHER, ROW.but(latency_mean_ms=20.0, think_time_ms=5.0))) == []


def test_a_finding_quotes_file_and_line() -> None:
    (finding,) = of("littles-law", printed(OTHER, ROW.but(latency_mean_ms=20.0)))
    assert finding.trials == [2]
    assert finding.parameters["ratio"] == "2.00"
    assert finding.evidence[0].at == "report.txt:2"
    assert finding.evidence[0].figures == {"tps": 800.0, "latency_mean_ms": 20.0, "clients": 8, "busy_clients": 16.0}


def test_findings_are_json_with_the_documented_fields() -> None:
    (first, *_) = audit(printed(ROW.but(latency_mean_ms=20.0)))
    fields = ["rule", "id", "severity", "trials", "message", "parameters", "evidence", "advice", "source"]
    assert list(json.loads(first.model_dump_json())) == fields


def test_a_finding_has_an_id_and_what_its_message_is_filled_with() -> None:
    (found,) = of("too-short", own(length_s=9.0))
    assert (found.id, found.parameters["least_s"]) == ("too-short", 10.0)
    assert found.message.endswith(f"less than 10 s, down to {found.parameters['shortest_s']:.1f} s")
    unchecked = [each for each in audit(printed(ROW)) if not each.checked]
    assert unchecked
    assert all(each.id == f"{each.rule}-not-checked" for each in unchecked)
    assert all(each.message == f"not checked: {each.parameters['reason']}" for each in unchecked)


def test_the_reference_lists_every_rule() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", audit_page.page(), re.MULTILINE)
    assert listed == [rule.id for rule in RULES]
