"""Findings about several generators name the one that is responsible, with its host."""

from dataclasses import replace

from pgdyno.audit import Severity
from pgdyno.records import NetworkPathRecord, Outcome
from tests.unit.audit_sample import by_hosts, of, own, way


def test_a_host_whose_processor_is_taken_by_others() -> None:
    # its worker waits for a core: it is not busy itself, and does little
    run = by_hosts(own(), (4, 5_000.0, 0.5), (4, 1_500.0, 0.2), (4, 4_900.0, 0.5))
    (finding, *_) = of("load-imbalance", run)
    assert "a client of generator-2 (load2) completes 30 % of the transactions of one of the fastest" in finding.message
    assert finding.evidence[0].figures == {"generator-1": 1_250.0, "generator-2": 375.0, "generator-3": 1_225.0}
    assert "less CPU" in finding.advice


def test_a_host_whose_processor_is_slower_than_the_others() -> None:
    # it does what they do with all that it has
    (finding, *_) = of("generator-limited", by_hosts(own(), (4, 5_000.0, 0.5), (4, 4_900.0, 0.97)))
    assert finding.message.startswith("a worker of generator-2 (load2) uses up to 97 % of a core")
    assert finding.evidence[0].figures == {"worker_cpu_share": 0.97, "generator-2": 0.97}


def test_a_host_that_is_cut_off_from_the_server() -> None:
    # its clients give up, and with them the trial, which is no sample of anything
    run = by_hosts(own(summary={"clients_aborted": 4}), (4, 5_000.0, 0.5), (4, 900.0, 0.1), clients_aborted=[0, 4])
    failed = [trial.model_copy(update={"outcome": Outcome.FAILED}) for trial in run.trials]
    (finding, *_) = of("errors", replace(run, trials=failed))
    assert finding.severity is Severity.NOTE
    assert finding.message.startswith("clients of generator-2 (load2) aborted in ")
    assert finding.evidence[0].figures == {"clients_aborted": 4, "generator-2_aborted": 4}
    assert "connection to the server was lost" in finding.advice


TWO = ((4, 5_000.0, 0.5), (4, 5_000.0, 0.5))


def test_a_host_in_another_zone_than_the_server() -> None:
    run = by_hosts(own(ways=lambda *_: way(900, "1a", "1a")), *TWO, zone=["1a", "1b"], round_trip_us=[300.0, 900.0])
    (finding, *_) = of("placement-differs", run)
    assert "came from 1b (generator-2 (load2)), and the server is in 1a: a round trip of 0.9 ms" in finding.message
    assert not of("placement-differs", by_hosts(own(ways=lambda *_: way(300, "1a", "1a")), *TWO, zone=["1a", "1a"]))


def test_a_host_that_is_farther_from_the_server_than_the_others() -> None:
    run = own(ways=lambda *_: way(900, "1a", "1a"))
    (finding, *_) = of("network-floor", by_hosts(run, *TWO, round_trip_us=[300.0, 900.0]))
    assert "0.9 ms from generator-2 (load2) and 0.3 ms from generator-1 (load1)" in finding.message
    assert finding.evidence[0].figures == {"generator-1": 300.0, "generator-2": 900.0}
    assert not of("network-floor", by_hosts(run, *TWO, round_trip_us=[500.0, 900.0]))


def test_of_several_hosts_the_farthest_is_named() -> None:
    def ways(_: int, target: str) -> NetworkPathRecord:
        return way(300 if target == "a" else 1400).model_copy(update={"generator": "generator-2 (load2)"})

    (finding, *_) = of("network-floor", by_hosts(own(ways=ways), *TWO))
    assert "0.3 ms to a and 1.4 ms to b from generator-2 (load2), the farthest generator" in finding.message
    assert finding.evidence[0].figures["generator"] == "generator-2 (load2)"


def test_hosts_of_one_class_with_other_processors() -> None:
    (finding, *_) = of(
        "hardware-differs", by_hosts(own(), *TWO, instance=["c7i.large"] * 2, cpu_model=["Xeon 1", "Xeon 2"])
    )
    assert "generators of the class c7i.large have different processors: Xeon 1 in trials 1, " in finding.message
    assert "(generator-1 (load1)); Xeon 2 in trials" in finding.message
