"""Special cases of the rules: what they allow for, on what they give no verdict, and several generators."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pgdyno.audit import Severity, worst
from pgdyno.records import DuetRecord, EventEffect, EventOutcome, EventRecord, Outcome, TrialRecord
from tests.unit.audit_cases import CAUTION, HALF, INVALID, NOTE, mixed
from tests.unit.audit_disturbed import NOISE, lagging, on_host, ran, rated
from tests.unit.audit_sample import (
    OTHER,
    ROW,
    FakeRun,
    Row,
    add_samples,
    by_hosts,
    dipping,
    of,
    on_disks,
    own,
    revise_trials,
    rows_run,
    way,
)

PGBENCH = replace(ROW, tool="pgbench")


def row_with_latency(latency_ms: str, tps: float = 812.5) -> Row:
    figures = {"tps": tps, "latency_mean_ms": float(latency_ms)}
    return Row("a", 1, figures, texts={"latency_mean_ms": f"| {tps} | {latency_ms} |"})


def test_littles_law_allows_for_what_a_tool_counts_nowhere() -> None:
    for row, severity in (
        # measured near saturation: 22 to 28 % of the clients' time
        (PGBENCH.but(latency_mean_ms=7.2), NOTE),
        (PGBENCH.but(latency_mean_ms=6.5), INVALID),
        (PGBENCH.but(latency_mean_ms=11.3), INVALID),
        (replace(PGBENCH, command="pgbench -nSC -c 8").but(latency_mean_ms=2.0), NOTE),
        (replace(PGBENCH, texts={"tps": "tps = 800.0 (including reconnection times)"}).but(latency_mean_ms=2.0), NOTE),
        (replace(ROW, tool="sysbench").but(latency_mean_ms=7.2), INVALID),
        # 1.2 ms is anything from 1.15 ms on
        (row_with_latency("1.2"), None),
        (row_with_latency("1.200"), NOTE),
        (row_with_latency("1.200", 860.0), CAUTION),
    ):
        assert worst(of("littles-law", rows_run(row))) is severity


def test_the_length_of_the_windows_is_that_of_the_intervals() -> None:
    run = own()
    swinging = [replace(row, succeeded=2_000 if row.second < 10 else row.succeeded) for row in run.courses[1]]
    thirty = [replace(row, from_us=row.from_us * 30, to_us=row.to_us * 30) for row in swinging]
    (finding,) = of("unsteady", replace(run, courses={1: thirty}))
    assert "in one, the slowest 30 s have only 20 % of the throughput of the fastest" in finding.message
    assert finding.trials == [1]


def phased(*phases: dict[str, object]) -> dict[str, object]:
    return {"name": "x", "trial": {"seed": 1}, "phase": [{"name": f"p{at}", **each} for at, each in enumerate(phases)]}


def as_search(run: FakeRun) -> FakeRun:
    plan = {"name": "x", "trial": {"seed": 1}, "search": {"find": "settings"}}
    return replace(run, manifest=run.manifest.model_copy(update={"plan": plan}))


def test_what_phases_change_is_not_called_unsteady_or_off() -> None:
    swinging = [100.0] * 30 + [400.0] * 30
    for plan in (
        phased({"rate": 100}, {"rate": 400}),
        phased({"clients": {"from": 1, "to": 4}}),
        phased({"mix": {"a": 1}}, {"mix": {"a": 2}}),
    ):
        for rule in ("unsteady", "dips-unexplained"):
            (finding,) = of(rule, own(seconds=swinging, plan=plan))
            assert not finding.checked, finding
    # a phase without a result is no part of the figures
    assert worst(of("unsteady", own(seconds=swinging, plan=phased({"result": False}, {})))) is CAUTION
    # what phases require and nobody starts is reported
    skipping = {"scheduled": 600_000, "skipped": 12_000}
    assert worst(of("skipped", own(summary=skipping, plan=phased({"rate": 10_000})))) is CAUTION
    steady: dict[str, object] = {"duration": "20s", "clients": 8}
    (finding,) = of("mix-off", own(summary=mixed(0.56), plan=phased(steady)))
    assert finding.severity is INVALID
    (finding,) = of("mix-off", own(summary=mixed(0.56), plan=phased(steady, steady | {"mix": {"read": 1, "write": 9}})))
    assert not finding.checked
    assert worst(of("littles-law", own(latency={"mean": 20.0}))) is INVALID
    (finding,) = of("littles-law", own(latency={"mean": 20.0}, plan=phased({"rate": 9})))
    assert not finding.checked


def test_proposals_of_a_search_for_settings_are_no_arms() -> None:
    def proposed(trial: TrialRecord) -> Mapping[str, object]:
        point = {"settings": {"work_mem": f"{trial.number}MB"}}
        return {"point": point, "target": "a", "outcome": Outcome.FAILED if trial.number == 3 else trial.outcome}

    run = as_search(add_samples(revise_trials(own(), proposed), ran(where="a", trials=[5])))
    assert of("maintenance-one-arm", run) == of("errors-one-arm", run) == []
    # and drift biases no comparison of them
    falling = revise_trials(
        rated(lambda trial: 0.97**trial.number),
        lambda trial: {"point": {"settings": {"work_mem": f"{1 + trial.number // 4}MB"}}, "target": "a"},
    )
    assert worst(of("drift", falling)) is INVALID
    assert worst(of("drift", as_search(falling))) is NOTE


def test_a_dataset_fits_into_the_memory_of_its_own_machine_at_its_own_scale() -> None:
    far = own(dataset_bytes=1 << 30, kind_b="dsn", asked_b={"dsn": "host=far"})
    (finding,) = of("cache-resident", far)
    assert [each.figures["target"] for each in finding.evidence] == ["a"]
    (finding,) = of("cache-resident", revise_trials(far, lambda _: {"target": "b"}))
    assert not finding.checked

    def scaled(trial: TrialRecord) -> Mapping[str, object]:
        bits, scale = (30, 10) if trial.number < 9 else (37, 5_000)
        return {"prepare": {"dataset_bytes": 1 << bits}, "point": {"scale": scale}}

    (finding,) = of("cache-resident", revise_trials(own(), scaled))
    assert "1.07 GB" in finding.message
    # memory is what the control group allows
    limited = on_disks("ext4", None)
    limited = limited.model_copy(update={"host": limited.host.model_copy(update={"memory_limit_bytes": 1 << 30})})
    assert of("cache-resident", own(dataset_bytes=1 << 30, fingerprint=limited)) == []
    assert worst(of("cache-resident", own(dataset_bytes=1 << 30))) is NOTE


def test_littles_law_allows_for_failures_outages_and_the_last_transactions_of_own_trials() -> None:
    failing_ones = {"failed": 30_000, "succeeded": 570_000, "tps": 9_500.0}
    assert of("littles-law", own(summary=failing_ones)) == []
    assert worst(of("littles-law", own(summary={**failing_ones, "failed": 3_000}))) is CAUTION
    effect = EventEffect(
        nobody_served_s=3.0, first_success_s=3.0, failed=0, lost=0, connections_lost=4, all_away_s=3.0, before_tps=None,
        lowest_tps=None, recovered_s=None,
    )  # fmt: skip
    event = EventRecord(number=1, do="restart", at_s=1, began_s=1, seconds=3, outcome=EventOutcome.DONE, effect=effect)
    outage = own(summary={"tps": 9_500.0})
    assert worst(of("littles-law", outage)) is CAUTION
    assert of("littles-law", revise_trials(outage, lambda _: {"events": [event]})) == []
    # clients that have sent their transactions wait for the last one
    run = own(latency={"mean": 0.3})
    assert worst(of("littles-law", run)) is INVALID
    assert of("littles-law", revise_trials(run, lambda _: {"duration_s": None})) == []


def test_a_server_at_an_address_of_this_machine_is_not_on_another() -> None:
    for dsn, differs in (
        ("host=localhost", "connection"),
        ("host=/var/run/postgresql", None),
        ("postgresql://%2Fvar%2Frun/postgres", None),
        ("postgresql:///x?host=far", "machine"),
        ("postgresql://user@[2001:db8::2]:5432/x", "machine"),
    ):
        found = of("placement-differs", own(kind_b="dsn", asked_b={"dsn": dsn}))
        assert [set(each.evidence[1].figures) - {"target"} for each in found] == ([{differs}] if differs else [])
    run = own(kind_b="dsn", asked_b={"dsn": "postgresql://[2001:db8::2]:5432/x"})
    a, b = run.manifest.targets
    near = a.model_copy(update={"kind": "dsn", "asked": {"dsn": "postgresql://[2001:db8::1]:5432/x"}})
    (finding,) = of("placement-differs", replace(run, manifest=run.manifest.model_copy(update={"targets": [near, b]})))
    assert "a: 2001:db8::1; b: 2001:db8::2" in finding.message


def test_standbys_and_generators_that_are_alike_are_no_finding() -> None:
    busy = on_host(others=0.3)
    assert worst(of("other-load", own(probe_rows=busy))) is CAUTION
    assert of("other-load", replace(lagging(), probe_rows=busy)) == []
    assert of("other-load", by_hosts(own(probe_rows=busy), (2, 5_000.0, 0.3), (2, 5_000.0, 0.3))) == []
    near = own(ways=lambda *_: way(300, "1a", "1a"))
    assert not of("placement-differs", by_hosts(near, HALF, HALF, zone=["1a", "1a"]))
    assert not of("network-floor", by_hosts(FAR, HALF, HALF, round_trip_us=[500.0, 900.0]))


def test_a_replay_is_not_judged_as_a_load_that_is_constant() -> None:
    plan = {"name": "x", "trial": {"seed": 1}, "workload": {"replay": "captured", "pace": "max"}}
    run = own(plan=plan, summary={"tps": 5_000.0}, seconds=[100.0] * 30 + [400.0] * 30)
    for rule in ("unsteady", "dips-unexplained", "littles-law"):
        (finding,) = of(rule, run)
        assert finding.message == "not checked: the capture determines the load during a trial"


@pytest.mark.parametrize(("ramp", "severity"), [(4, CAUTION), ({"from": 1, "to": 4}, None)])
def test_clients_that_a_phase_adds_late_are_not_served_unequally(ramp: object, severity: Severity | None) -> None:
    unequal = {"workers": [{"cpu_share": 0.3}], "statements": {"fairness": {"mean": 100.0, "stddev": 50.0}}}
    served = replace(own(plan=phased({"clients": ramp})), end=unequal)
    assert worst(of("load-imbalance", served)) is severity


def test_dips_that_no_probe_saw_are_not_called_healthy() -> None:
    (finding,) = of("dips-unexplained", revise_trials(own(seconds=dipping(6)), lambda _: {"probe": None}))
    assert finding.message.startswith("not checked: throughput dips in 12 trials (1, 2, 3")
    # one trial without a probe hides no dip of the others
    run = revise_trials(own(seconds=dipping(4)), lambda trial: {"probe": None} if trial.number == 2 else {})
    assert worst(of("dips-unexplained", run)) is CAUTION


def test_an_arm_without_counts_hides_no_failed_trial_and_is_not_compared() -> None:
    def broken(trial: TrialRecord) -> Mapping[str, object]:
        if trial.number == 1:
            return {"outcome": Outcome.FAILED}
        return {"summary": {"succeeded": 0, "tps": 0.0}} if trial.target == "a" else {}

    (finding,) = of("errors-one-arm", revise_trials(own(), broken))
    assert (finding.id, finding.trials) == ("errors-one-arm-trials", [1])
    retried = revise_trials(own(), lambda trial: {"summary": {"retried": 5_000 if trial.target == "a" else None}})
    assert of("errors-one-arm", retried) == []


WITHOUT_MINIMUM = {name: each for name, each in OTHER.figures.items() if name != "latency_min_ms"}


def test_findings_of_special_cases() -> None:
    for rule, run, message in (
        ("network-floor", rows_run(ROW.but(latency_min_ms=1.0), replace(OTHER, figures=WITHOUT_MINIMUM)),
         "not checked: the minimum latency of only a is reported"),
        ("hardware-differs", rows_run(replace(ROW, words={"host": "x"}), OTHER),
         "not checked: no machine is named for b"),
        ("version-differs", rows_run(replace(ROW, words={"server_version": "x"}), OTHER),
         "not checked: no server version is reported for b"),
        # with one target there is nothing to compare
        ("hardware-differs", rows_run(replace(ROW, words={"host": "x"})), None),
        ("version-differs", rows_run(replace(ROW, words={"server_version": "x"})), None),
        ("identical-rows", rows_run(replace(ROW, clients=512), OTHER, replace(ROW, clients=1024)),
         "512 clients of a and 1024 clients of a have the same figures"),
        # a share of unsafe trials is of those with known settings
        ("durability", replace(own(only_b={"fsync": "off"}), server={
            at: each for at, each in own(only_b={"fsync": "off"}).server.items() if at < 5
        }), "fsync is off in only 2 of 4 trials"),
        # files of a cluster are no settings
        ("settings-differ", own(changed_b={"hba_file": "/etc/postgresql/17/b/pg_hba.conf"}), None),
        ("repeats-spread", replace(own(), trials=[]), "not checked: no point has 3 trials"),
        # samples of the warm-up are due as well
        ("probe-gap", revise_trials(own(probe={"late": 40}), lambda _: {"warmup_s": 60.0}), None),
    ):  # fmt: skip
        assert [each.message for each in of(rule, run)] == ([] if message is None else [message])


def test_a_setting_of_a_document_is_off_in_any_column_and_before_a_comment() -> None:
    for line, is_off in (
        ("fsync = off    # flush data to disk for crash safety", True),
        ("fsync\toff\ton", True),
        ("| fsync | off | on |", True),
        ("fsync is off", True),
        ("fsync = 'off';", True),
        ("fsync = on    # do not turn it off", False),
    ):
        for rule, name in (("durability", "fsync"), ("autovacuum-off", "autovacuum")):
            found = of(rule, rows_run(ROW, facts={name: [line.replace("fsync", name)]}))
            assert worst(found) is (CAUTION if is_off else None)


def test_the_two_trials_of_a_duet_are_at_one_place_in_the_order() -> None:
    falling = rated(lambda trial: 0.97 ** ((trial.number + 1) // 2) * NOISE[trial.number % 5] ** 0.1)

    def paired(trial: TrialRecord) -> Mapping[str, object]:
        return {"duet": DuetRecord(partner=trial.number + (1 if trial.number % 2 else -1), processors=[0])}

    assert worst(of("drift", falling)) is not NOTE
    assert worst(of("drift", revise_trials(falling, paired))) is NOTE


def test_data_of_sql_files_with_other_variables_are_other_datasets() -> None:
    def swept(trial: TrialRecord) -> Mapping[str, object]:
        rows, share = ("10", 1.0) if trial.number < 7 else ("99", 0.5)
        point = {"scale": 1, "variables": {"rows": rows}}
        return {"prepare": {"shared_buffers_share": share, "page_cache_share": share}, "point": point}

    plan: dict[str, object] = {"name": "x", "trial": {"seed": 1}, "workload": {"scripts": ["read.sql"]}}
    (finding,) = of("cache-cold", revise_trials(own(plan=plan), swept))
    assert "50 % to 100 % of the dataset" in finding.message
    plan["workload"] = {"scripts": ["read.sql"], "dataset": {"name": "shop", "sql": [], "variables": {"rows": "10"}}}
    assert of("cache-cold", revise_trials(own(plan=plan), swept)) == []


FAR = own(ways=lambda *_: way(900, "1a", "1a"))
FARTHEST = own(
    ways=lambda _, name: way(300 if name == "a" else 1400).model_copy(update={"generator": "generator-2 (load2)"})
)
ABORTED = own(summary={"clients_aborted": 4})


def test_findings_about_generators_name_the_responsible_one_with_its_host() -> None:
    for rule, run, message, figures, advice in (
        # its worker waits for a core: it is not busy itself, and does little
        ("load-imbalance", by_hosts(own(), HALF, (4, 1_500.0, 0.2), (4, 4_900.0, 0.5)),
         "a client of generator-2 (load2) completes 30 % of the transactions of one of the fastest",
         {"generator-1": 1_250.0, "generator-2": 375.0, "generator-3": 1_225.0}, "less CPU"),
        # a slower processor: it does what they do with all that it has
        ("generator-limited", by_hosts(own(), HALF, (4, 4_900.0, 0.97)),
         "a worker of generator-2 (load2) uses up to 97 % of a core",
         {"worker_cpu_share": 0.97, "generator-2": 0.97}, ""),
        # cut off from the server, its clients give up, and with them the trial, which is no sample of anything
        ("errors", revise_trials(by_hosts(ABORTED, HALF, (4, 900.0, 0.1), clients_aborted=[0, 4]),
                           lambda _: {"outcome": Outcome.FAILED}),
         "clients of generator-2 (load2) aborted in ",
         {"clients_aborted": 4, "generator-2_aborted": 4}, "connection to the server was lost"),
        ("placement-differs", by_hosts(FAR, HALF, HALF, zone=["1a", "1b"], round_trip_us=[300.0, 900.0]),
         "came from 1b (generator-2 (load2)), and the server is in 1a: a round trip of 0.9 ms", None, ""),
        ("network-floor", by_hosts(FAR, HALF, HALF, round_trip_us=[300.0, 900.0]),
         "0.9 ms from generator-2 (load2) and 0.3 ms from generator-1 (load1)",
         {"generator-1": 300.0, "generator-2": 900.0}, ""),
        ("network-floor", by_hosts(FARTHEST, HALF, HALF),
         "0.3 ms to a and 1.4 ms to b from generator-2 (load2), the farthest generator",
         {"target": "a", "generator": "generator-2 (load2)", "round_trip_us": 300.0, "round_trip_median_us": 360.0},
         ""),
        ("hardware-differs", by_hosts(own(), HALF, HALF, instance=["c7i.large"] * 2, cpu_model=["Xeon 1", "Xeon 2"]),
         "generators of the class c7i.large have different processors: Xeon 1 in trials 1, ", None, ""),
    ):  # fmt: skip
        (finding, *_) = of(rule, run)
        assert message in finding.message
        assert figures is None or finding.evidence[0].figures == figures
        assert advice in finding.advice
        if rule == "errors":
            assert finding.severity is NOTE
        if rule == "hardware-differs":
            assert "(generator-1 (load1)); Xeon 2 in trials" in finding.message
