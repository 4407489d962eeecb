"""Of several generators the audit names the one that is to blame, with its host."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.audit import Finding, Severity, audit
from pgdyno.records import Outcome
from tests.unit.audit_sample import FakeRun, by_hosts, own


def the(rule: str, run: FakeRun) -> Finding:
    (finding,) = (finding for finding in audit(run) if finding.rule == rule)
    assert finding.checked
    return finding


def test_a_host_whose_processor_is_taken_by_others() -> None:
    # its worker waits for a core: it is not busy itself, and does little
    run = by_hosts(own(), (4, 5_000.0, 0.5), (4, 1_500.0, 0.2), (4, 4_900.0, 0.5))
    finding = the("load-imbalance", run)
    assert "a client of generator-2 (load2) does 30% of what one of the fastest does" in finding.message
    assert finding.evidence[0].figures == {"generator-1": 1_250.0, "generator-2": 375.0, "generator-3": 1_225.0}
    assert "less of a processor" in finding.advice


def test_a_host_whose_processor_is_slower_than_the_others() -> None:
    # it does what they do with all that it has
    finding = the("generator-limited", by_hosts(own(), (4, 5_000.0, 0.5), (4, 4_900.0, 0.97)))
    assert finding.message.startswith("workers of generator-2 (load2) use up to 97% of a core each")
    assert finding.evidence[0].figures == {"worker_cpu_share": 0.97, "generator-2": 0.97}


def test_a_host_that_is_cut_off_from_the_server() -> None:
    # its clients give up, and with them the trial, which is no sample of anything
    run = by_hosts(own(summary={"clients_aborted": 4}), (4, 5_000.0, 0.5), (4, 900.0, 0.1), aborted=[0, 4])
    failed = [trial.model_copy(update={"outcome": Outcome.FAILED}) for trial in run.trials]
    finding = the("errors", replace(run, trials=failed))
    assert finding.severity is Severity.NOTE
    assert finding.message.startswith("clients of generator-2 (load2) gave up in ")
    assert finding.evidence[0].figures == {"clients_aborted": 4, "generator-2_aborted": 4}
    assert "has lost its way to the server" in finding.advice
